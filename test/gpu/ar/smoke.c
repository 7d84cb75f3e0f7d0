/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smoke.c - ar_smoke, the program to run first on a new box: does every kernel of libsymtuner_ar.so
 * give the right bytes here?
 *
 *   ar_smoke [-n ranks] [-g gpus] [-t auto|peer|host] [-s seed] [-r rounds]
 *   ar_smoke --huge [-n ranks] [-g gpus] [-t auto|peer|host]
 *
 * All ranks are in this process, rank i on GPU i modulo the number of GPUs, so one GPU is enough
 * (-g 1). Each round draws type, operator, count, alignment and placement at random. Inputs are
 * small integers that differ by rank and position, so every type must give exactly the expected
 * bytes. Outputs are poisoned before the call, and inputs are overwritten right after it. --huge
 * makes a few calls of 2^32 + 5 elements instead, with 8.6 GB of each rank's GPU. Exit 0: all
 * right, 1: wrong, 77: no GPU.
 */
#include <getopt.h>
#include <limits.h>
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
    int bytes, exponent, mantissa; /* exponent 0: integer or native float */
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
    whole = (long long)acc / ranks; /* integers: the sum fits, truncation as in C */
    return encode(type, types[type].exponent == 0 ? (double)whole : acc / ranks);
}

struct rank {
    symtuner_ar *handle;
    int gpu;
    cudaStream_t stream;
    char *plain[2], *mapped[2]; /* [send, recv]: plain buffers, and registered ones */
    unsigned char *host;
};

static int check_rank(const struct rank *k, const char *recv, int type, int op, int ranks,
                      size_t count, unsigned salt, const char *label)
{
    size_t bytes = count * (size_t)types[type].bytes, wrong = 0;

    CUDA(cudaSetDevice(k->gpu));
    CUDA(cudaMemcpy(k->host, recv - GUARD, bytes + 2 * GUARD, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < GUARD; i++)
        wrong += k->host[i] != 0xff || k->host[GUARD + bytes + i] != 0xff;
    if (wrong != 0) {
        printf("WROTE OUTSIDE %s\n", label);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned long long want = expected(type, op, ranks, i, salt), got = 0;
        unsigned long long mask = ~0ull >> (64 - 8 * types[type].bytes);

        memcpy(&got, k->host + GUARD + i * (size_t)types[type].bytes, (size_t)types[type].bytes);
        if ((want & mask) != got) {
            if (wrong++ == 0)
                printf("WRONG %s: element %zu is %llx, expected %llx\n", label, i, got,
                       want & mask);
        }
    }
    return wrong != 0;
}

static void fill(const struct rank *k, char *send, int rank, int type, int op, size_t count,
                 unsigned salt)
{
    for (size_t i = 0; i < count; i++) {
        unsigned long long v = encode(type, value(type, op, rank, i, salt));

        memcpy(k->host + i * (size_t)types[type].bytes, &v, (size_t)types[type].bytes);
    }
    CUDA(cudaMemcpy(send, k->host, count * (size_t)types[type].bytes, cudaMemcpyHostToDevice));
}

/* Make one random call. Returns 0: right, 1: wrong, 2: the kernel cannot run such a call. */
static int one_round(struct rank *ranks, int n, const char *kernel, unsigned salt)
{
    static const int spans[] = {40, 600, 5000, 70000, 600000, 4u << 20};
    int type = (int)draw(12), op = (int)draw(5), place = (int)draw(3), bad = 0;
    size_t size = (size_t)types[type].bytes;
    size_t count = 1 + draw((unsigned)spans[draw(6)]) / size;
    size_t shift = draw(2) ? draw(16 / (unsigned)size) * size : 0;
    int ctas = draw(3) ? 0 : 1 + (int)draw(16), threads = 64 << draw(4);
    char label[256];
    const char *name = kernel;

    if (op == ncclAvg && (n & (n - 1)) != 0)
        op = ncclSum;
    for (int r = 0; r < n; r++) {
        char *send = (place == 0 ? ranks[r].plain : ranks[r].mapped)[0] + GUARD + shift;
        char *recv =
            place == 2 ? send : (place == 0 ? ranks[r].plain : ranks[r].mapped)[1] + GUARD + shift;

        CUDA(cudaSetDevice(ranks[r].gpu));
        CUDA(cudaMemset(recv - GUARD, 0xff, count * size + 2 * GUARD));
        fill(&ranks[r], send, r, type, op, count, salt);
        CUDA(cudaDeviceSynchronize());
    }
    for (int r = 0; r < n; r++) {
        char *send = (place == 0 ? ranks[r].plain : ranks[r].mapped)[0] + GUARD + shift;
        char *recv =
            place == 2 ? send : (place == 0 ? ranks[r].plain : ranks[r].mapped)[1] + GUARD + shift;
        struct symtuner_ar_plan plan = {.size = sizeof plan};

        symtuner_ar_force(ranks[r].handle, kernel, ctas, threads);
        if (symtuner_ar_query(send, recv, count, (ncclDataType_t)type, (ncclRedOp_t)op,
                              ranks[r].handle, &plan) != ncclSuccess)
            return 2;
        name = plan.kernel;
    }
    snprintf(label, sizeof label, "%s %s %s count %zu shift %zu place %d ctas %d x %d ranks %d",
             name, types[type].name, op_names[op], count, shift, place, ctas, threads, n);
    for (int r = 0; r < n; r++) {
        char *send = (place == 0 ? ranks[r].plain : ranks[r].mapped)[0] + GUARD + shift;
        char *recv =
            place == 2 ? send : (place == 0 ? ranks[r].plain : ranks[r].mapped)[1] + GUARD + shift;

        CUDA(cudaSetDevice(ranks[r].gpu));
        if (symtuner_ar_all_reduce(send, recv, count, (ncclDataType_t)type, (ncclRedOp_t)op,
                                   ranks[r].handle, ranks[r].stream) != ncclSuccess) {
            printf("FAILED %s: %s\n", label, symtuner_ar_error(ranks[r].handle));
            return 1;
        }
        if (place != 2)
            CUDA(cudaMemsetAsync(send, 0xee, count * size, ranks[r].stream));
    }
    for (int r = 0; r < n; r++) {
        CUDA(cudaSetDevice(ranks[r].gpu));
        CUDA(cudaStreamSynchronize(ranks[r].stream));
        if (symtuner_ar_status(ranks[r].handle) != ncclSuccess) {
            printf("FAILED %s, rank %d: %s\n", label, r, symtuner_ar_error(ranks[r].handle));
            bad = 1;
        }
    }
    for (int r = 0; r < n && !bad; r++) {
        char *send = (place == 0 ? ranks[r].plain : ranks[r].mapped)[0] + GUARD + shift;
        char *recv =
            place == 2 ? send : (place == 0 ? ranks[r].plain : ranks[r].mapped)[1] + GUARD + shift;

        bad |= check_rank(&ranks[r], recv, type, op, n, count, salt, label);
    }
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
        else if (option == 't') /* in the order of enum symtuner_ar_transport */
            transport = word_must("ar_smoke", "-t", optarg, transports, 3);
        else if (option == 's')
            rng ^= (unsigned long long)number_must("ar_smoke", "-s", optarg, 0, INT_MAX) << 20;
        else if (option == 'r')
            rounds = number_must("ar_smoke", "-r", optarg, 1, 1000000);
        else
            return 2; /* getopt has printed an error */
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
        if (kernel == NULL && ran + bad == 0) { /* the table has a kernel for any call */
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
