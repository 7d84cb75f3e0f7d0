/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_coll.c - checks NCCL's collectives with one thread per GPU, at every power of two from --min
 * to --max, on symmetric windows or, with --windows 0, on plain memory.
 *
 * Sizes are NCCL's nBytes: for AllGather and ReduceScatter the bytes of all ranks together. Inputs
 * are new random data in each call. Outputs are poisoned before each call. Exit 0: all right. 1: a
 * wrong element or an error. 77: too few GPUs, or no symmetric memory.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/must.h"

enum { MAX_RANKS = 16, COLLS = 3 };

static const char *const coll_name[COLLS] = {"allreduce", "allgather", "reducescatter"};

static struct {
    int ranks, windows;
    size_t least, most;
    unsigned colls, seed;
    ncclUniqueId id;
    pthread_barrier_t barrier;
} job = {.ranks = 2, .windows = 1, .least = 1 << 10, .most = 256 << 20, .colls = 7};

/* Return an integer below 8 as bf16, so that a sum over 16 ranks is exact. */
static uint16_t value(int rank, size_t i, unsigned seed)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + (uint64_t)rank * 0xbf58476d1ce4e5b9ull + seed;
    float f;
    uint32_t bits;

    f = (float)((x ^ x >> 29) * 0x94d049bb133111ebull >> 61);
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

struct rank {
    int rank;
    ncclComm_t comm;
    cudaStream_t stream;
    char *send, *recv;
    uint16_t *host;
};

static void call(struct rank *r, int coll, size_t bytes)
{
    size_t count = bytes / 2, part = count / (size_t)job.ranks;

    if (coll == 0)
        NCCL(ncclAllReduce(r->send, r->recv, count, ncclBfloat16, ncclSum, r->comm, r->stream));
    else if (coll == 1)
        NCCL(ncclAllGather(r->send, r->recv, part, ncclBfloat16, r->comm, r->stream));
    else
        NCCL(ncclReduceScatter(r->send, r->recv, part, ncclBfloat16, ncclSum, r->comm, r->stream));
}

/* Return the right value of element ${i} of this rank's result. */
static float expected(int rank, int coll, size_t i, size_t part, unsigned seed)
{
    float sum = 0;

    if (coll == 1)
        return widen(value((int)(i / part), i % part, seed));
    if (coll == 2)
        i += (size_t)rank * part;
    for (int k = 0; k < job.ranks; k++)
        sum += widen(value(k, i, seed));
    return sum;
}

/* Check one call. Of buffers above 1 MiB only the first and last 512 KiB are checked. */
static void check(struct rank *r, int coll, size_t bytes, unsigned seed)
{
    size_t count = bytes / 2, part = count / (size_t)job.ranks, window = 1 << 18;
    size_t in = coll == 1 ? part : count, out = coll == 2 ? part : count;
    int whole = count <= 2 * window;

    for (size_t i = 0; i < in; i++)
        r->host[i] = value(r->rank, i, seed);
    CUDA(cudaMemcpy(r->send, r->host, in * 2, cudaMemcpyHostToDevice));
    CUDA(cudaMemset(r->recv, 0xff, out * 2)); /* fills the output with NaN */
    CUDA(cudaDeviceSynchronize());
    pthread_barrier_wait(&job.barrier);
    call(r, coll, bytes);
    CUDA(cudaStreamSynchronize(r->stream));
    CUDA(cudaMemcpy(r->host, r->recv, out * 2, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < out; i++) {
        if (!whole && i == window && out > 2 * window)
            i = out - window;
        if (widen(r->host[i]) != expected(r->rank, coll, i, part, seed)) {
            fprintf(stderr, "%s %zu bytes, rank %d: element %zu is %g, not %g\n", coll_name[coll],
                    bytes, r->rank, i, widen(r->host[i]), expected(r->rank, coll, i, part, seed));
            exit(1);
        }
    }
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    size_t most = job.most;
    void *send_window = NULL, *recv_window = NULL;

    CUDA(cudaSetDevice(r->rank));
    CUDA(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    NCCL(ncclCommInitRank(&r->comm, job.ranks, job.id, r->rank));
    NCCL(ncclMemAlloc((void **)&r->send, most));
    NCCL(ncclMemAlloc((void **)&r->recv, most));
    r->host = malloc(most);
    if (job.windows) {
        NCCL(ncclCommWindowRegister(r->comm, r->send, most, (ncclWindow_t *)&send_window,
                                    NCCL_WIN_COLL_SYMMETRIC));
        NCCL(ncclCommWindowRegister(r->comm, r->recv, most, (ncclWindow_t *)&recv_window,
                                    NCCL_WIN_COLL_SYMMETRIC));
        if (!send_window || !recv_window) {
            fprintf(stderr, "NCCL gave a NULL window: no symmetric memory here\n");
            exit(77);
        }
    }
    for (int coll = 0; coll < COLLS; coll++)
        for (size_t bytes = job.least; bytes <= most && job.colls >> coll & 1; bytes *= 2)
            check(r, coll, bytes, job.seed + (unsigned)bytes * 31 + (unsigned)coll);
    if (job.windows) {
        NCCL(ncclCommWindowDeregister(r->comm, (ncclWindow_t)send_window));
        NCCL(ncclCommWindowDeregister(r->comm, (ncclWindow_t)recv_window));
    }
    NCCL(ncclMemFree(r->send));
    NCCL(ncclMemFree(r->recv));
    NCCL(ncclCommDestroy(r->comm));
    free(r->host);
    return NULL;
}

static size_t size_of(const char *text)
{
    char *end;
    size_t n = strtoull(text, &end, 10);

    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

int main(int argc, char **argv)
{
    static struct rank rank[MAX_RANKS];
    pthread_t thread[MAX_RANKS];
    int devices = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        const char *o = argv[i], *v = argv[i + 1];

        if (strcmp(o, "--ranks") == 0)
            job.ranks = atoi(v);
        else if (strcmp(o, "--windows") == 0)
            job.windows = atoi(v);
        else if (strcmp(o, "--min") == 0)
            job.least = size_of(v);
        else if (strcmp(o, "--max") == 0)
            job.most = size_of(v);
        else if (strcmp(o, "--colls") == 0)
            job.colls = (unsigned)atoi(v);
        else
            argc = 0;
    }
    if (argc % 2 == 0 || job.ranks < 2 || job.ranks > MAX_RANKS || job.least < 64 ||
        job.most < job.least) {
        fprintf(stderr, "usage: nccl_coll [--ranks N] [--windows 0|1] [--min 1K] [--max 256M] "
                        "[--colls BITS]\n"
                        "  --colls: 1 all-reduce + 2 all-gather + 4 reduce-scatter\n");
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < job.ranks) {
        fprintf(stderr, "nccl_coll: %d GPUs asked for, %d here\n", job.ranks, devices);
        return 77;
    }
    job.seed = (unsigned)time(NULL);
    NCCL(ncclGetUniqueId(&job.id));
    pthread_barrier_init(&job.barrier, NULL, (unsigned)job.ranks);
    for (int k = 0; k < job.ranks; k++) {
        rank[k].rank = k;
        pthread_create(&thread[k], NULL, run_rank, &rank[k]);
    }
    for (int k = 0; k < job.ranks; k++)
        pthread_join(thread[k], NULL);
    return 0;
}
