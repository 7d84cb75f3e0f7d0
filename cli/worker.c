/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - the measuring process behind tune, bench and doctor: one thread per GPU, CUDA and NCCL
 * loaded at run time. Not meant for people; `symtuner tune` and `symtuner bench` start it.
 *
 *   symtuner worker windows RANKS NCCL|-                    are windows real? one word
 *   symtuner worker measure RANKS NCCL|- MODES COLL LOW HIGH SEED
 *
 * MODES is a word of g (general, plain buffers), s (NCCL on symmetric windows), o (our kernels).
 * measure prints "nccl RELEASE" and "floor GBPS", then "MODE BYTES US" per size and mode: a CUDA
 * graph of calls is replayed for about 6 ms, the slowest rank counts. Every size and mode is
 * checked on fresh random data with a poisoned output before it is timed. Sizes are NCCL's nBytes,
 * bf16 sum.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/cuda.h"

enum { RANKS_MAX = 16, CALLS = 20, BF16 = 9, SUM = 0, COLL_SYMMETRIC = 1, WINDOW = 1 << 17 };

struct rank {
    int rank, device;
    void *context, *stream, *start, *stop, *comm, *handle;
    char *send[2], *recv[2];    /* plain, in windows */
    void *window[2];
    uint16_t *host;
};

static struct {
    struct st_cuda cuda;
    struct st_nccl nccl;
    struct st_ar ar;
    int ranks, coll;
    bool measure, own;
    const char *modes;
    uint64_t low, high;
    unsigned seed;
    struct st_nccl_id id;
    pthread_barrier_t barrier;
    double us[RANKS_MAX];
    struct rank rank[RANKS_MAX];
} job;

/* A worker has nothing to save: the first thing that fails ends it. */
static void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why && *why ? why : "failed");
    fflush(NULL);
    _exit(1);
}

static void cuda_good(int result, const char *what)
{
    const char *text = NULL;

    if (result) {
        job.cuda.error_text(result, &text);
        stop(what, text);
    }
}

static void nccl_good(int result, const char *what)
{
    if (result)
        stop(what, job.nccl.error_text(result));
}

#define CUDA(function, ...) cuda_good(job.cuda.function(__VA_ARGS__), #function)
#define NCCL(function, ...) nccl_good(job.nccl.function(__VA_ARGS__), #function)

/* bf16 integers below 8: sums over 16 ranks are exact. */
static uint16_t value(int rank, uint64_t i)
{
    uint64_t x =
        (i + 1) * 0x9e3779b97f4a7c15ull + (uint64_t)rank * 0xbf58476d1ce4e5b9ull + job.seed;
    float f = (float)((x ^ x >> 29) * 0x94d049bb133111ebull >> 61);
    uint32_t bits;

    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

static float widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;

    memcpy(&f, &bits, 4);
    return f;
}

static void call(struct rank *r, char mode, uint64_t bytes)
{
    int side = mode != 'g', result;
    size_t count = bytes / 2, part = count / (size_t)job.ranks;
    char *send = r->send[side], *recv = r->recv[side];

    if (mode == 'o') {
        result = job.ar.all_reduce(send, recv, count, BF16, SUM, r->handle, r->stream);
        if (result)
            stop("symtuner_ar_all_reduce", job.ar.error_text(r->handle));
    } else if (job.coll == 4) {
        NCCL(all_reduce, send, recv, count, BF16, SUM, r->comm, r->stream);
    } else if (job.coll == 2) {
        NCCL(all_gather, send, recv, part, BF16, r->comm, r->stream);
    } else {
        NCCL(reduce_scatter, send, recv, part, BF16, SUM, r->comm, r->stream);
    }
}

static float expected(const struct rank *r, uint64_t i, uint64_t part)
{
    float sum = 0;

    if (job.coll == 2)
        return widen(value((int)(i / part), i % part));
    if (job.coll == 3)
        i += (uint64_t)r->rank * part;
    for (int k = 0; k < job.ranks; k++)
        sum += widen(value(k, i));
    return sum;
}

/* The same random input for plain buffers and for windows. */
static void fill(const struct rank *r, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        r->host[i] = value(r->rank, i);
    for (int side = 0; side < 2; side++)
        if (r->send[side])
            CUDA(to_device, (st_address)(uintptr_t)r->send[side], r->host, count * 2);
}

/* Up to three pieces of the result: head, middle, tail. */
static void check(struct rank *r, char mode, uint64_t bytes)
{
    uint64_t count = bytes / 2, part = count / (uint64_t)job.ranks;
    uint64_t out = job.coll == 3   ? part
                   : job.coll == 2 ? part * (uint64_t)job.ranks
                                   : count;
    uint64_t piece = out < WINDOW ? out : WINDOW;
    st_address recv = (st_address)(uintptr_t)r->recv[mode != 'g'];
    char text[80];

    CUDA(fill, recv, 0xff, out * 2); /* NaN */
    CUDA(synchronize);
    pthread_barrier_wait(&job.barrier);
    call(r, mode, bytes);
    CUDA(stream_wait, r->stream);
    for (int third = 0; third < (out > WINDOW ? 3 : 1); third++) {
        uint64_t from = third == 0 ? 0 : third == 1 ? out / 2 - piece / 2 : out - piece;
        uint16_t *got = r->host + job.high / 2; /* behind the copy of the input */

        CUDA(to_host, got, recv + from * 2, piece * 2);
        for (uint64_t i = 0; i < piece; i++)
            if (widen(got[i]) != expected(r, from + i, part)) {
                snprintf(text, sizeof text, "element %llu of rank %d, %llu bytes, mode %c",
                         (unsigned long long)(from + i), r->rank, (unsigned long long)bytes, mode);
                stop("wrong result", text);
            }
    }
    pthread_barrier_wait(&job.barrier);
}

static double slowest(struct rank *r, double us)
{
    double worst = 0;

    job.us[r->rank] = us;
    pthread_barrier_wait(&job.barrier);
    for (int k = 0; k < job.ranks; k++)
        worst = job.us[k] > worst ? job.us[k] : worst;
    pthread_barrier_wait(&job.barrier);
    return worst;
}

static void measure(struct rank *r, char mode, uint64_t bytes)
{
    int calls = bytes > 16 << 20 ? 4 : CALLS, launches = 1;
    void *graph, *exec;
    double worst = 0;

    CUDA(capture_begin, r->stream, 1); /* of this thread only */
    for (int i = 0; i < calls; i++)
        call(r, mode, bytes);
    CUDA(capture_end, r->stream, &graph);
    CUDA(graph_make, &exec, graph, 0);
    for (int pass = 0; pass < 3; pass++) { /* warm up, find the length, measure */
        float ms;

        CUDA(stream_wait, r->stream);
        pthread_barrier_wait(&job.barrier);
        CUDA(event_record, r->start, r->stream);
        for (int i = 0; i < launches; i++)
            CUDA(graph_launch, exec, r->stream);
        CUDA(event_record, r->stop, r->stream);
        CUDA(stream_wait, r->stream);
        CUDA(event_elapsed, &ms, r->start, r->stop);
        worst = slowest(r, (double)ms * 1000 / (launches * calls));
        if (pass == 1)
            launches = worst * calls > 6000 ? 1 : (int)(6000 / (worst * calls + 0.01)) + 1;
    }
    if (r->rank == 0)
        printf("%c %llu %.3f\n", mode, (unsigned long long)bytes, worst);
    CUDA(graph_exec_free, exec);
    CUDA(graph_free, graph);
}

/* What the copy engine moves from rank 0 to rank 1: no collective is faster than its bytes. */
static void floor_rate(struct rank *r)
{
    struct rank *other = &job.rank[1];
    int release = 0;
    uint64_t bytes = job.high < 64 << 20 ? job.high : 64 << 20;
    double best = 0;
    float ms;

    job.cuda.enable_peer(other->context, 0); /* else the copy goes through host memory */
    for (int i = 0; i < 4; i++) {
        CUDA(event_record, r->start, r->stream);
        CUDA(copy_peer, (st_address)(uintptr_t)other->recv[0], other->context,
             (st_address)(uintptr_t)r->send[0], r->context, bytes, r->stream);
        CUDA(event_record, r->stop, r->stream);
        CUDA(stream_wait, r->stream);
        CUDA(event_elapsed, &ms, r->start, r->stop);
        if (ms > 0 && (double)bytes / (double)ms / 1e6 > best)
            best = (double)bytes / (double)ms / 1e6;
    }
    NCCL(version, &release);
    printf("nccl %d\nfloor %.2f\n", release, best);
}

static bool windows(struct rank *r)
{
    NCCL(alloc, (void **)&r->send[1], job.high);
    NCCL(alloc, (void **)&r->recv[1], job.high);
    NCCL(window, r->comm, r->send[1], job.high, &r->window[0], COLL_SYMMETRIC);
    NCCL(window, r->comm, r->recv[1], job.high, &r->window[1], COLL_SYMMETRIC);
    return r->window[0] && r->window[1];
}

static void start(struct rank *r)
{
    CUDA(device_get, &r->device, r->rank);
    CUDA(context_retain, &r->context, r->device);
    CUDA(context_set, r->context);
    CUDA(stream_create, &r->stream, 1);
    CUDA(event_create, &r->start, 0);
    CUDA(event_create, &r->stop, 0);
    NCCL(comm_init, &r->comm, job.ranks, job.id, r->rank);
}

static void prepare(struct rank *r)
{
    for (int i = 0; i < 2; i++) {
        st_address at;

        CUDA(alloc, &at, job.high);
        *(i ? &r->recv[0] : &r->send[0]) = (char *)(uintptr_t)at;
    }
    r->host = malloc(job.high + WINDOW * 2 + 64);
    if (!r->host)
        stop("host memory", "out of memory");
    if (strpbrk(job.modes, "so") && !windows(r))
        stop("window", "NCCL gave a NULL window: no symmetric memory here (symtuner doctor)");
    if (job.own) {
        if (job.ar.create(&r->handle, &r->comm, 1, NULL))
            stop("symtuner_ar_create", job.ar.error_text(NULL));
        for (int i = 0; i < 2; i++) {
            void *buffer = i ? r->recv[1] : r->send[1];

            if (job.ar.add_buffers(&r->handle, &buffer, &r->window[i], 1, job.high))
                stop("symtuner_ar_register", job.ar.error_text(r->handle));
        }
    }
    fill(r, job.high / 2 / (uint64_t)(job.coll == 2 ? job.ranks : 1));
    CUDA(synchronize);
}

static void *run_rank(void *argument)
{
    struct rank *r = argument;

    start(r);
    if (!job.measure) {
        bool real = windows(r);

        if (r->rank == 0)
            printf("windows %s\n", real ? "real" : "null");
        return NULL; /* the process ends here: nothing is torn down that might hang */
    }
    prepare(r);
    pthread_barrier_wait(&job.barrier);
    if (r->rank == 0)
        floor_rate(r);
    pthread_barrier_wait(&job.barrier);
    for (uint64_t bytes = job.low; bytes <= job.high; bytes *= 2)
        for (const char *mode = job.modes; *mode; mode++) {
            check(r, *mode, bytes);
            measure(r, *mode, bytes);
        }
    if (job.own)
        job.ar.destroy(&r->handle, 1);
    for (int i = 0; i < 2 && r->window[i]; i++)
        NCCL(window_free, r->comm, r->window[i]);
    NCCL(comm_free, r->comm);
    return NULL;
}

int st_cmd_worker(int argc, char **argv)
{
    pthread_t thread[RANKS_MAX];
    char error[400];
    int gpus = 0;

    job.measure = argc == 9 && strcmp(argv[1], "measure") == 0;
    if (!job.measure && !(argc == 4 && strcmp(argv[1], "windows") == 0)) {
        fprintf(stderr, "symtuner worker is started by tune, bench and doctor\n");
        return ST_EXIT_USAGE;
    }
    job.ranks = atoi(argv[2]);
    if (job.measure) {
        job.modes = argv[4];
        job.coll = atoi(argv[5]);
        job.low = strtoull(argv[6], NULL, 10);
        job.high = strtoull(argv[7], NULL, 10);
        job.seed = (unsigned)strtoul(argv[8], NULL, 10);
        job.own = strchr(job.modes, 'o') != NULL;
    } else {
        job.modes = "";
        job.high = 4 << 20;
    }
    if (job.ranks < 2 || job.ranks > RANKS_MAX || job.low > job.high ||
        (job.measure && job.low < 64))
        return ST_EXIT_USAGE;
    if (!st_cuda_load(&job.cuda, &gpus, error, sizeof error) ||
        !st_nccl_load(&job.nccl, strcmp(argv[3], "-") == 0 ? NULL : argv[3], error, sizeof error) ||
        (job.own && !st_ar_load(&job.ar, error, sizeof error))) {
        fprintf(stderr, "%s\n", error);
        return ST_EXIT_CANNOT;
    }
    if (gpus < job.ranks) {
        fprintf(stderr, "%d GPUs asked for, %d here\n", job.ranks, gpus);
        return ST_EXIT_CANNOT;
    }
    NCCL(unique_id, &job.id);
    pthread_barrier_init(&job.barrier, NULL, (unsigned)job.ranks);
    for (int k = 0; k < job.ranks; k++) {
        job.rank[k].rank = k;
        if (pthread_create(&thread[k], NULL, run_rank, &job.rank[k]) != 0)
            stop("pthread_create", "failed");
    }
    for (int k = 0; k < job.ranks; k++)
        pthread_join(thread[k], NULL);
    fflush(NULL);
    _exit(0); /* without the destructors of NCCL and CUDA */
}
