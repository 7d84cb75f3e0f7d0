/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smoke.c - ar_smoke, the program to run first on a new box: does every kernel of libsymtuner_ar.so
 * give the right bytes here?
 *
 *   ar_smoke [-n ranks] [-g gpus] [-t auto|peer|host] [-s seed] [-r rounds]
 *   ar_smoke --huge [-n ranks] [-g gpus] [-t auto|peer|host]
 *
 * All ranks are in this process, rank i on GPU i modulo the number of GPUs. So one GPU is enough
 * (-g 1). Each round draws collective, type, operator, count, alignment and placement at random.
 * Inputs are small integers that differ by rank and position, so every type must give exactly the
 * expected bytes. Outputs are poisoned before the call, and inputs are overwritten right after it.
 * --huge makes a few calls of 2^32 + 5 elements instead, which take 8.6 GB of memory on each rank's
 * GPU. Exit 0: all right. 1: wrong. 77: no GPU.
 */
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/number.h"
#include "symtuner_ar.h"
#include "test/gpu/ar/smoke.h"

#define MAX_BYTES (9u << 20)
#define GUARD     64

static const struct {
    const char *name;
    int bytes, exponent, mantissa; /* exponent 0: an integer */
    int is_signed, limit;
} types[] = {
    {"i8", 1, 0, 0, 1, 4},   {"u8", 1, 0, 0, 0, 4},    {"i32", 4, 0, 0, 1, 9},
    {"u32", 4, 0, 0, 0, 9},  {"i64", 8, 0, 0, 1, 9},   {"u64", 8, 0, 0, 0, 9},
    {"f16", 2, 5, 10, 1, 4}, {"f32", 4, 8, 23, 1, 99}, {"f64", 8, 11, 52, 1, 99},
    {"bf16", 2, 8, 7, 1, 4}, {"e4m3", 1, 4, 3, 1, 1},  {"e5m2", 1, 5, 2, 1, 1},
};
static const char *const op_names[] = {"sum", "prod", "max", "min", "avg"};

static unsigned long long rng = 88172645463325252ull;

static unsigned draw(unsigned below)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (unsigned)(rng >> 33) % below;
}

/* Return the bits of a value that the type holds exactly. */
static unsigned long long encode(int type, double v)
{
    int e = 0, m = types[type].mantissa, bias = (1 << (types[type].exponent - 1)) - 1;
    unsigned long long sign = v < 0;
    double x = v < 0 ? -v : v;

    if (types[type].exponent == 0)
        return (unsigned long long)(long long)v;
    if (x == 0)
        return 0;
    while (x >= 2)
        x /= 2, e++;
    while (x < 1)
        x *= 2, e--;
    return sign << (types[type].bytes * 8 - 1) | (unsigned long long)(e + bias) << m |
           (unsigned long long)((x - 1) * (double)(1ull << m));
}

static double value(int type, int op, int rank, size_t at, unsigned salt)
{
    unsigned h = (unsigned)at * 2654435761u ^ (unsigned)rank * 40503u * 65537u ^ salt * 2246822519u;
    int limit = types[type].limit;

    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    if (op == ncclProd)
        return types[type].is_signed && (h & 2) ? -1 - (int)(h & 1) : 1 + (int)(h & 1);
    return types[type].is_signed ? (int)(h % (unsigned)(2 * limit + 1)) - limit
                                 : (int)(h % (unsigned)(limit + 1));
}

static unsigned long long expected(int type, int op, int ranks, size_t at, unsigned salt)
{
    double acc = value(type, op, 0, at, salt);
    long long whole;

    for (int r = 1; r < ranks; r++) {
        double v = value(type, op, r, at, salt);

        acc = op == ncclProd  ? acc * v
              : op == ncclMax ? (v > acc ? v : acc)
              : op == ncclMin ? (v < acc ? v : acc)
                              : acc + v;
    }
    if (op != ncclAvg)
        return encode(type, acc);
    /* for integers ${acc} is exact, and the average is truncated, as in C */
    whole = (long long)acc / ranks;
    return encode(type, types[type].exponent == 0 ? (double)whole : acc / ranks);
}

struct rank {
    symtuner_ar *handle;
    int gpu;
    cudaStream_t stream;
    char *plain[2], *mapped[2]; /* [send, recv]: plain buffers, and registered ones */
    unsigned char *host;
};

/* One call that is drawn at random. */
struct round {
    int coll, type, op, place; /* place 0: plain buffers, 1: registered, 2: registered, in place */
    size_t count, shift;       /* count: elements of the message; in reduce-scatter and all-gather,
                                  of one part. shift: bytes by which the buffers are moved */
    unsigned salt;
};

static size_t part_bytes(const struct round *c)
{
    return c->count * (size_t)types[c->type].bytes;
}

/* sent() returns the number of elements of send, and received() of recv. */
static size_t sent(const struct round *c, int n)
{
    return c->count * (size_t)(c->coll == SYMTUNER_AR_REDUCE_SCATTER ? n : 1);
}

static size_t received(const struct round *c, int n)
{
    return c->count * (size_t)(c->coll == SYMTUNER_AR_ALL_GATHER ? n : 1);
}

static char *send_of(const struct rank *k, const struct round *c, int me)
{
    char *first = (c->place == 0 ? k->plain : k->mapped)[0] + GUARD + c->shift;

    return c->place == 2 && c->coll == SYMTUNER_AR_ALL_GATHER ? first + (size_t)me * part_bytes(c)
                                                              : first;
}

static char *recv_of(const struct rank *k, const struct round *c, int me)
{
    char *const *from = c->place == 0 ? k->plain : k->mapped;
    char *first = from[c->place != 2] + GUARD + c->shift;

    return c->place == 2 && c->coll == SYMTUNER_AR_REDUCE_SCATTER
               ? first + (size_t)me * part_bytes(c)
               : first;
}

/* Return what element ${i} of rank ${me}'s output must be. */
static unsigned long long wanted(const struct round *c, int n, int me, size_t i)
{
    return c->coll == SYMTUNER_AR_ALL_GATHER
               ? encode(c->type, value(c->type, c->op, (int)(i / c->count), i % c->count, c->salt))
           : c->coll == SYMTUNER_AR_REDUCE_SCATTER
               ? expected(c->type, c->op, n, (size_t)me * c->count + i, c->salt)
               : expected(c->type, c->op, n, i, c->salt);
}

static int check_rank(const struct rank *k, const struct round *c, int n, int me, const char *label)
{
    size_t count = received(c, n), size = (size_t)types[c->type].bytes, wrong = 0;
    /* in a reduce-scatter in place, recv is a part of send, and other parts lie around it */
    bool alone = c->place != 2 || c->coll != SYMTUNER_AR_REDUCE_SCATTER;

    CUDA(cudaSetDevice(k->gpu));
    CUDA(cudaMemcpy(k->host, recv_of(k, c, me) - GUARD, count * size + 2 * GUARD,
                    cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < GUARD && alone; i++)
        wrong += k->host[i] != 0xff || k->host[GUARD + count * size + i] != 0xff;
    if (wrong != 0) {
        printf("WROTE OUTSIDE %s\n", label);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned long long want = wanted(c, n, me, i), got = 0;
        unsigned long long mask = ~0ull >> (64 - 8 * size);

        memcpy(&got, k->host + GUARD + i * size, size);
        if ((want & mask) != got) {
            if (wrong++ == 0)
                printf("WRONG %s: element %zu is %llx, expected %llx\n", label, i, got,
                       want & mask);
        }
    }
    return wrong != 0;
}

/* Poison recv and the bytes around it, then write the input. */
static void fill(const struct rank *k, const struct round *c, int n, int me)
{
    size_t size = (size_t)types[c->type].bytes;

    CUDA(cudaSetDevice(k->gpu));
    CUDA(cudaMemset(recv_of(k, c, me) - GUARD, 0xff, received(c, n) * size + 2 * GUARD));
    for (size_t i = 0; i < sent(c, n); i++) {
        unsigned long long v = encode(c->type, value(c->type, c->op, me, i, c->salt));

        memcpy(k->host + i * size, &v, size);
    }
    CUDA(cudaMemcpy(send_of(k, c, me), k->host, sent(c, n) * size, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());
}

static ncclResult_t call(const struct rank *k, const struct round *c, int me)
{
    const char *send = send_of(k, c, me);
    char *recv = recv_of(k, c, me);
    ncclDataType_t type = (ncclDataType_t)c->type;
    ncclRedOp_t op = (ncclRedOp_t)c->op;

    return c->coll == SYMTUNER_AR_ALL_REDUCE
               ? symtuner_ar_all_reduce(send, recv, c->count, type, op, k->handle, k->stream)
           : c->coll == SYMTUNER_AR_REDUCE_SCATTER
               ? symtuner_ar_reduce_scatter(send, recv, c->count, type, op, k->handle, k->stream)
               : symtuner_ar_all_gather(send, recv, c->count, type, k->handle, k->stream);
}

static struct round draw_round(int n, unsigned salt)
{
    static const int spans[] = {40, 600, 5000, 70000, 600000, 4u << 20};
    struct round c = {.coll = (int)draw(3),
                      .type = (int)draw(12),
                      .op = (int)draw(5),
                      .place = (int)draw(3),
                      .salt = salt};
    size_t size = (size_t)types[c.type].bytes;

    c.count = 1 + draw((unsigned)spans[draw(6)]) / size;
    if (c.coll != SYMTUNER_AR_ALL_REDUCE)
        c.count = (c.count + (size_t)n - 1) / (size_t)n;
    c.shift = draw(2) ? draw(16 / (unsigned)size) * size : 0;
    if (c.op == ncclAvg && (n & (n - 1)) != 0)
        c.op = ncclSum;
    return c;
}

/* Make one random call. Returns 0: right, 1: wrong, 2: the kernel cannot run such a call. */
static int one_round(struct rank *ranks, int n, const char *kernel, unsigned salt)
{
    static const char *const colls[] = {"all-reduce", "reduce-scatter", "all-gather"};
    const struct round c = draw_round(n, salt);
    int ctas = draw(3) ? 0 : 1 + (int)draw(16), threads = 64 << draw(4), bad = 0;
    char label[256];
    const char *name = kernel;

    for (int r = 0; r < n; r++)
        fill(&ranks[r], &c, n, r);
    for (int r = 0; r < n; r++) {
        struct symtuner_ar_plan plan = {.size = sizeof plan};

        symtuner_ar_force(ranks[r].handle, kernel, ctas, threads);
        if (symtuner_ar_query_coll(c.coll, send_of(&ranks[r], &c, r), recv_of(&ranks[r], &c, r),
                                   c.count, (ncclDataType_t)c.type, (ncclRedOp_t)c.op,
                                   ranks[r].handle, &plan) != ncclSuccess)
            return 2;
        name = plan.kernel;
    }
    snprintf(label, sizeof label, "%s %s %s %s count %zu shift %zu place %d ctas %d x %d ranks %d",
             colls[c.coll], name, types[c.type].name, op_names[c.op], c.count, c.shift, c.place,
             ctas, threads, n);
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(ranks[r].gpu));
        if (call(&ranks[r], &c, r) != ncclSuccess) {
            printf("FAILED %s: %s\n", label, symtuner_ar_error(ranks[r].handle));
            return 1;
        }
        if (c.place != 2)
            CUDA(cudaMemsetAsync(send_of(&ranks[r], &c, r), 0xee,
                                 sent(&c, n) * (size_t)types[c.type].bytes, ranks[r].stream));
    }
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(ranks[r].gpu));
        CUDA(cudaStreamSynchronize(ranks[r].stream));
        if (symtuner_ar_status(ranks[r].handle) != ncclSuccess) {
            printf("FAILED %s, rank %d: %s\n", label, r, symtuner_ar_error(ranks[r].handle));
            bad = 1;
        }
    }
    for (int r = 0; r < n && !bad; r++)
        bad |= check_rank(&ranks[r], &c, n, r, label);
    return bad;
}

static void set_up(struct rank *ranks, int n, int gpus, int transport)
{
    struct symtuner_ar_config config = {
        .size = sizeof config, .transport = transport, .timeout_ms = 5000};
    symtuner_ar *handles[SYMTUNER_AR_MAX_RANKS];
    int devices[SYMTUNER_AR_MAX_RANKS];
    void *buffers[SYMTUNER_AR_MAX_RANKS];
    static char text[8192];

    for (int r = 0; r < n; r++)
        devices[r] = r % gpus;
    if (symtuner_ar_create_local(handles, devices, n, &config) != ncclSuccess) {
        printf("create: %s\n", symtuner_ar_error(NULL));
        exit(1);
    }
    symtuner_ar_describe(handles[0], text, sizeof text);
    fputs(text, stdout);
    for (int r = 0; r < n; r++) {
        ranks[r].handle = handles[r];
        ranks[r].gpu = devices[r];
        ranks[r].host = malloc(MAX_BYTES);
        CUDA(cudaSetDevice(devices[r]));
        CUDA(cudaStreamCreateWithFlags(&ranks[r].stream, cudaStreamNonBlocking));
        for (int b = 0; b < 2; b++) {
            CUDA(cudaMalloc((void **)&ranks[r].plain[b], MAX_BYTES));
            CUDA(cudaMalloc((void **)&ranks[r].mapped[b], MAX_BYTES));
        }
    }
    for (int b = 0; b < 2; b++) {
        for (int r = 0; r < n; r++)
            buffers[r] = ranks[r].mapped[b];
        if (symtuner_ar_register(handles, buffers, NULL, n, MAX_BYTES) != ncclSuccess) {
            printf("register: %s\n", symtuner_ar_error(handles[0]));
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    struct rank ranks[SYMTUNER_AR_MAX_RANKS];
    symtuner_ar *handles[SYMTUNER_AR_MAX_RANKS];
    static const char *const transports[] = {"auto", "peer", "host"};
    static int huge;
    static const struct option words[] = {{"huge", no_argument, &huge, 1}, {NULL, 0, NULL, 0}};
    int n = 2, gpus = 0, transport = SYMTUNER_AR_AUTO, rounds = 40, wrong = 0, option;

    while ((option = getopt_long(argc, argv, "n:g:t:s:r:", words, NULL)) != -1) {
        if (option == 0)
            continue;
        if (option == 'n')
            n = number_must("ar_smoke", "-n", optarg, 1, SYMTUNER_AR_MAX_RANKS);
        else if (option == 'g')
            gpus = number_must("ar_smoke", "-g", optarg, 1, SYMTUNER_AR_MAX_RANKS);
        else if (option == 't') /* the names are in the order of enum symtuner_ar_transport */
            transport = word_must("ar_smoke", "-t", optarg, transports, 3);
        else if (option == 's')
            rng ^= (unsigned long long)number_must("ar_smoke", "-s", optarg, 0, INT_MAX) << 20;
        else if (option == 'r')
            rounds = number_must("ar_smoke", "-r", optarg, 1, 1000000);
        else
            return 2; /* getopt has already printed an error */
    }
    if (optind < argc) {
        fprintf(stderr, "ar_smoke: \"%s\" is not an option\n", argv[optind]);
        return 2;
    }
    /* The streams of ranks on the same GPU must not share a hardware queue. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (gpus == 0 && (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0)) {
        puts("ar_smoke: skipped, no GPU here");
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (huge) {
        wrong = smoke_huge(n, gpus, transport);
        puts(wrong == 0 ? "ar_smoke: all right" : "ar_smoke: WRONG");
        return wrong != 0;
    }
    set_up(ranks, n, gpus, transport);
    for (int k = -1; k == -1 || symtuner_ar_kernel_name(k) != NULL; k++) {
        const char *kernel = k < 0 ? NULL : symtuner_ar_kernel_name(k);
        int ran = 0, refused = 0, bad = 0;

        for (int i = 0; i < rounds && bad == 0; i++) {
            int result = one_round(ranks, n, kernel, draw(1u << 30));

            ran += result == 0;
            refused += result == 2;
            bad += result == 1;
        }
        printf("%-12s ranks %d: %d right, %d not for this kernel, %d wrong\n",
               kernel ? kernel : "(table)", n, ran, refused, bad);
        wrong += bad;
        if (kernel == NULL && ran + bad == 0) { /* the library must have a kernel for any call */
            printf("FAILED: not one call ran: %s\n", symtuner_ar_error(ranks[0].handle));
            wrong++;
        }
        if (bad != 0 && symtuner_ar_status(ranks[0].handle) != ncclSuccess)
            break;
    }
    for (int r = 0; r < n; r++)
        handles[r] = ranks[r].handle;
    symtuner_ar_destroy(handles, n);
    puts(wrong == 0 ? "ar_smoke: all right" : "ar_smoke: WRONG");
    return wrong != 0;
}
