/* SPDX-License-Identifier: Apache-2.0 */
/* kill_one.c - the tests of ar_kill that need only one process. */
#include "test/gpu/ar/kill.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symtuner_ar.h"

#define COUNT ((size_t)1 << 20)

enum { RANKS = 2 };

static const int devices[RANKS] = {0, 1};

/* Two ranks, one GPU each. */
struct two {
    symtuner_ar *handle[RANKS];
    cudaStream_t stream[RANKS];
    float *send[RANKS], *recv[RANKS];
    int gathers; /* 1: the ranks call all-gather instead of all-reduce, with as long an output */
};

#define MUST(call, good)                                                                           \
    do {                                                                                           \
        if ((int)(call) != (int)(good)) {                                                          \
            printf("ar_kill: %s failed: %s\n", #call, symtuner_ar_error(NULL));                    \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

static int fill(float *device, float value)
{
    float *host = (float *)malloc(COUNT * sizeof *host);
    int good;

    for (size_t i = 0; i < COUNT; i++)
        host[i] = value;
    good = cudaMemcpy(device, host, COUNT * sizeof *host, cudaMemcpyHostToDevice) == cudaSuccess;
    free(host);
    return good;
}

/* Return how many elements differ from ${first} in the first half, or from ${second} in the second
 * half. Returns -1 if the copy from the GPU fails. */
static long halves_others(const float *device, float first, float second)
{
    float *host = (float *)malloc(COUNT * sizeof *host);
    long n = 0;

    if (cudaMemcpy(host, device, COUNT * sizeof *host, cudaMemcpyDeviceToHost) != cudaSuccess)
        n = -1;
    for (size_t i = 0; i < COUNT && n >= 0; i++)
        n += host[i] != (i < COUNT / 2 ? first : second);
    free(host);
    return n;
}

static long others(const float *device, float value)
{
    return halves_others(device, value, value);
}

/* Return how many elements of the output of rank ${r} are wrong. */
static long wrong_results(const struct two *t, int r)
{
    return t->gathers ? halves_others(t->recv[r], 1, 2) : others(t->recv[r], 3);
}

static int make_buffers(struct two *t, int of_nccl)
{
    for (int r = 0; r < RANKS; r++) {
        MUST(cudaSetDevice(devices[r]), cudaSuccess);
        MUST(cudaStreamCreateWithFlags(&t->stream[r], cudaStreamNonBlocking), cudaSuccess);
        for (int b = 0; b < 2; b++) {
            void *p = NULL;

            if (of_nccl)
                MUST(ncclMemAlloc(&p, COUNT * sizeof(float)), ncclSuccess);
            else
                MUST(cudaMalloc(&p, COUNT * sizeof(float)), cudaSuccess);
            *(b ? &t->recv[r] : &t->send[r]) = (float *)p;
            MUST(fill((float *)p, b ? -7.0f : 1.0f + (float)r), 1);
        }
    }
    return 1;
}

static int register_both(struct two *t)
{
    void *send[RANKS], *recv[RANKS];

    for (int r = 0; r < RANKS; r++) {
        send[r] = t->send[r];
        recv[r] = t->recv[r];
    }
    MUST(symtuner_ar_register(t->handle, send, NULL, RANKS, COUNT * sizeof(float)), ncclSuccess);
    MUST(symtuner_ar_register(t->handle, recv, NULL, RANKS, COUNT * sizeof(float)), ncclSuccess);
    return 1;
}

static int make_local(struct two *t)
{
    struct symtuner_ar_config config;

    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.timeout_ms = KILL_TIMEOUT;
    t->gathers = 0;
    MUST(symtuner_ar_create_local(t->handle, devices, RANKS, &config), ncclSuccess);
    return make_buffers(t, 0);
}

static ncclResult_t call(struct two *t, int r)
{
    if (t->gathers)
        return symtuner_ar_all_gather(t->send[r], t->recv[r], COUNT / RANKS, ncclFloat32,
                                      t->handle[r], t->stream[r]);
    return symtuner_ar_all_reduce(t->send[r], t->recv[r], COUNT, ncclFloat32, ncclSum, t->handle[r],
                                  t->stream[r]);
}

/* Return whether ${kernel} cannot run an all-reduce. */
static int runs_gathers_only(const char *kernel)
{
    return strcmp(kernel, "engines") == 0;
}

int kill_untouched(const char *kernel)
{
    struct two t;
    long wrong;
    int error;

    if (!make_local(&t) || !register_both(&t))
        return 0;
    t.gathers = runs_gathers_only(kernel);
    MUST(symtuner_ar_force(t.handle[0], kernel, 0, 0), ncclSuccess);
    MUST(call(&t, 0), ncclSuccess);
    MUST(cudaStreamSynchronize(t.stream[0]), cudaSuccess);
    error = symtuner_ar_status(t.handle[0]) == ncclRemoteError;
    MUST(cudaSetDevice(devices[1]), cudaSuccess);
    wrong = others(t.recv[1], -7) + others(t.send[1], 2);
    symtuner_ar_destroy(t.handle, RANKS);
    printf("a rank that never calls %s: %s, %ld of its elements written: %s\n", kernel,
           error ? "error" : "NO ERROR", wrong, error && wrong == 0 ? "right" : "WRONG");
    return error && wrong == 0;
}

int kill_different_order(const char *unused)
{
    enum { ROUNDS = 20 };
    struct two t[2];
    int good = 1;

    (void)unused;
    for (int g = 0; g < 2; g++)
        if (!make_local(&t[g]))
            return 0;
    for (int i = 0; i < ROUNDS && good; i++) {
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < RANKS; r++) {
                struct two *next = &t[r == 0 ? k : 1 - k];

                MUST(cudaSetDevice(devices[r]), cudaSuccess);
                /* in four of five rounds use the widest grid that is allowed, otherwise the grid
                 * that the library chooses */
                MUST(symtuner_ar_force(next->handle[r], i % 5 ? "chunked" : NULL, i % 5 ? 512 : 0,
                                       0),
                     ncclSuccess);
                good &= call(next, r) == ncclSuccess;
            }
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < RANKS; r++) {
                MUST(cudaStreamSynchronize(t[k].stream[r]), cudaSuccess);
                good &= symtuner_ar_status(t[k].handle[r]) == ncclSuccess;
            }
    }
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < RANKS; r++) {
            MUST(cudaSetDevice(devices[r]), cudaSuccess);
            good &= wrong_results(&t[k], r) == 0;
        }
    printf("two groups in different order: %s: %s\n",
           good ? "all calls end" : symtuner_ar_error(t[0].handle[0]), good ? "right" : "WRONG");
    for (int k = 0; k < 2; k++)
        symtuner_ar_destroy(t[k].handle, RANKS);
    return good;
}

static int capture(struct two *t, const char *kernel, cudaGraphExec_t *exec)
{
    for (int r = 0; r < RANKS; r++) {
        cudaGraph_t graph;

        MUST(cudaSetDevice(devices[r]), cudaSuccess);
        MUST(symtuner_ar_force(t->handle[r], kernel, 0, 0), ncclSuccess);
        MUST(cudaStreamBeginCapture(t->stream[r], cudaStreamCaptureModeThreadLocal), cudaSuccess);
        MUST(call(t, r), ncclSuccess);
        MUST(cudaStreamEndCapture(t->stream[r], &graph), cudaSuccess);
        MUST(cudaGraphInstantiate(&exec[r], graph, 0), cudaSuccess);
        MUST(cudaGraphDestroy(graph), cudaSuccess); /* the executable graph still holds the call */
    }
    return 1;
}

static int replay(struct two *t, cudaGraphExec_t *exec, cudaError_t *error)
{
    *error = cudaSuccess;
    for (int r = 0; r < RANKS; r++) {
        MUST(cudaSetDevice(devices[r]), cudaSuccess);
        if (cudaGraphLaunch(exec[r], t->stream[r]) != cudaSuccess)
            *error = cudaGetLastError();
    }
    for (int r = 0; r < RANKS; r++) {
        cudaError_t latest = cudaStreamSynchronize(t->stream[r]);

        *error = latest != cudaSuccess ? latest : *error;
    }
    return 1;
}

int kill_graph_of_local(const char *kernel)
{
    struct two t;
    cudaGraphExec_t exec[RANKS];
    cudaError_t error;
    size_t before = 0, held = 0, after = 0, total;
    int good = 1;

    if (!make_local(&t) || !register_both(&t))
        return 0;
    t.gathers = runs_gathers_only(kernel);
    /* reserve scratch now, because the library allocates none during a capture */
    MUST(symtuner_ar_reserve(t.handle, RANKS, SIZE_MAX), ncclSuccess);
    if (!capture(&t, kernel, exec))
        return 0;
    MUST(cudaSetDevice(devices[0]), cudaSuccess);
    MUST(cudaMemGetInfo(&before, &total), cudaSuccess);
    MUST(symtuner_ar_destroy(t.handle, RANKS), ncclSuccess);
    MUST(cudaMemGetInfo(&held, &total), cudaSuccess);
    for (int i = 0; i < 3; i++) {
        if (!replay(&t, exec, &error))
            return 0;
        good &= error == cudaSuccess;
        for (int r = 0; r < RANKS && good; r++) {
            MUST(cudaSetDevice(devices[r]), cudaSuccess);
            good &= wrong_results(&t, r) == 0 && fill(t.recv[r], -7);
        }
    }
    for (int r = 0; r < RANKS; r++)
        MUST(cudaGraphExecDestroy(exec[r]), cudaSuccess);
    /* In another thread, CUDA releases what the graph held. After that, the library's next create
     * or destroy frees the memory. */
    for (int i = 0; i < 100 && after < before + ((size_t)64 << 20); i++) {
        /* all handles are NULL, so this call only frees what earlier handles have left */
        symtuner_ar_destroy(t.handle, RANKS);
        MUST(cudaSetDevice(devices[0]), cudaSuccess);
        MUST(cudaDeviceSynchronize(), cudaSuccess);
        MUST(cudaMemGetInfo(&after, &total), cudaSuccess);
    }
    good &= held < before + ((size_t)64 << 20) && after >= before + ((size_t)64 << 20);
    printf("a graph of %s after the end of its local group: %s, %zu MiB freed with the handles and "
           "%zu with the graph: %s\n",
           kernel, cudaGetErrorString(error), (held - before) >> 20, (after - held) >> 20,
           good ? "right" : "WRONG");
    return good;
}

int kill_graph_of_comms(const char *kernel)
{
    struct symtuner_ar_config config;
    struct two t;
    ncclComm_t comms[RANKS];
    cudaGraphExec_t exec[RANKS];
    cudaError_t error;

    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.timeout_ms = KILL_TIMEOUT;
    config.beside = SYMTUNER_AR_ALONE;
    MUST(ncclCommInitAll(comms, RANKS, devices), ncclSuccess);
    MUST(symtuner_ar_create(t.handle, comms, RANKS, &config), ncclSuccess);
    t.gathers = runs_gathers_only(kernel);
    if (!make_buffers(&t, 1) || !register_both(&t) || !capture(&t, kernel, exec))
        return 0;
    MUST(symtuner_ar_destroy(t.handle, RANKS), ncclSuccess);
    for (int r = 0; r < RANKS; r++)
        MUST(ncclCommDestroy(comms[r]), ncclSuccess);
    if (!replay(&t, exec, &error))
        return 0;
    /* The kernel traps. Or CUDA refuses to launch the graph, because the graph copies to memory of
     * the peers, which is no longer mapped. */
    int good = error == cudaErrorLaunchFailure || error == cudaErrorInvalidValue;
    printf("a graph of %s after the end of its communicators: %s: %s\n", kernel,
           cudaGetErrorString(error), good ? "right" : "WRONG");
    return good;
}
