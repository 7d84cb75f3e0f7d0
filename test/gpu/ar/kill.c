/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill.c - when a peer dies, stays away or aborts, do the other ranks get an error in time?
 *
 *   ar_kill [--times 4] [--ranks 2] [--groups N] [--seed N]
 *
 * First, --times times: a group made from an ncclComm_t, with one process per GPU and a time limit
 * of TIMEOUT ms, makes calls without end. At a random moment one process is killed with signal 9.
 * Every other rank must see an error within BOUND ms of the kill, refuse the next call, and destroy
 * its handle within BOUND ms. Groups run side by side: as many as there are GPUs for, or N groups,
 * which then share the GPUs.
 *
 * Then these tests run, each in one process. A rank never makes its call, and nothing may be
 * written to its buffers. A rank is aborted during a call, in several kernels. Two graphs of one
 * handle are launched at the same time. Two ranks call two groups in different order. Graphs
 * outlive their handles. Exit 0: all right and in time. 1: not all. 77: cannot run here.
 */
#include <cuda_runtime.h>
#include <limits.h>
#include <nccl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/gpu/ar/kill.h"
#include "bench/number.h"
#include "symtuner_ar.h"

enum {
    MOST_RANKS = 16,
    MOST_GROUPS = 16,
    TIMEOUT = KILL_TIMEOUT,
    BOUND = TIMEOUT + 1000,
    START = 60000
};
enum { ABORT_BOUND = 100, COUNT = 1000 };
#define BYTES ((size_t)4 << 20)

struct group {
    ncclUniqueId id;
    atomic_int has_id, running;
    atomic_llong error_ms[MOST_RANKS], destroyed_ms[MOST_RANKS]; /* 0: there is no time yet */
    atomic_int refused[MOST_RANKS], failed[MOST_RANKS];
};

static int ranks = 2, times = 4, groups;
static unsigned seed = 1;

static long long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static unsigned draw(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

#define MUST(call, good)                                                                           \
    do {                                                                                           \
        if ((call) != (good)) {                                                                    \
            fprintf(stderr, "ar_kill: rank %d: %s failed: %s\n", me, #call, symtuner_ar_error(h)); \
            atomic_store(&g->failed[me], 1);                                                       \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Run one rank: make calls until one fails, then do what a program would do. */
static void live(struct group *g, int me, int gpu, unsigned start)
{
    struct symtuner_ar_config config = {.size = sizeof config,
                                        .timeout_ms = TIMEOUT,
                                        .bulk_bytes = (size_t)16 << 20,
                                        .beside = SYMTUNER_AR_ALONE};
    symtuner_ar *h = NULL;
    ncclComm_t comm;
    cudaStream_t stream;
    char *send, *recv;
    void *window[2] = {NULL, NULL};

    seed = start;
    MUST(cudaSetDevice(gpu), cudaSuccess);
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    if (me == 0) {
        MUST(ncclGetUniqueId(&g->id), ncclSuccess);
        atomic_store(&g->has_id, 1);
    }
    while (!atomic_load(&g->has_id))
        usleep(1000);
    MUST(ncclCommInitRank(&comm, ranks, g->id, me), ncclSuccess);
    MUST(cudaMalloc((void **)&send, BYTES), cudaSuccess);
    MUST(cudaMalloc((void **)&recv, BYTES), cudaSuccess);
    MUST(cudaMemset(send, 0, BYTES), cudaSuccess);
    MUST(symtuner_ar_create(&h, &comm, 1, &config), ncclSuccess);
    /* Allocate all scratch now. If a rank were killed while scratch grows, NCCL would notice it,
     * and not our kernels, which this test is about. */
    MUST(symtuner_ar_reserve(&h, 1, SIZE_MAX), ncclSuccess);
    for (int b = 0; b < 2; b++) {
        MUST(ncclMemAlloc(&window[b], BYTES), ncclSuccess);
        MUST(symtuner_ar_register(&h, &window[b], NULL, 1, BYTES), ncclSuccess);
    }
    atomic_fetch_add(&g->running, 1);
    for (int i = 0; symtuner_ar_status(h) == ncclSuccess; i++) {
        int mapped = (int)draw(2);

        if (symtuner_ar_all_reduce(mapped ? window[0] : send, mapped ? window[1] : recv,
                                   1 + draw((unsigned)(draw(4) ? 40000 : BYTES) / 4 - 1),
                                   ncclFloat32, ncclSum, h, stream) != ncclSuccess)
            break;
        if (i % 16 == 15 && cudaStreamSynchronize(stream) != cudaSuccess)
            break;
    }
    atomic_store(&g->error_ms[me], now_ms());
    fprintf(stderr, "  rank %d: %s\n", me, symtuner_ar_error(h));
    atomic_store(&g->refused[me], symtuner_ar_all_reduce(send, recv, 16, ncclFloat32, ncclSum, h,
                                                         stream) != ncclSuccess);
    symtuner_ar_destroy(&h, 1); /* may fail because the peer is gone */
    atomic_store(&g->destroyed_ms[me], now_ms());
    _exit(0); /* NCCL's clean-up would wait for the dead peer */
}

/* Kill one rank of a group. Returns 1 if the others did what they must. */
static int one_kill(struct group *g, const pid_t *pid, int victim, long long *worst)
{
    long long killed, begin = now_ms();
    int good = 1, left = ranks;

    while (atomic_load(&g->running) < ranks && now_ms() - begin < START) {
        /* If a rank has failed, not all ranks will run: end this loop by moving ${begin} back. */
        for (int r = 0; r < ranks; r++)
            begin -= atomic_load(&g->failed[r]) ? START : 0;
        usleep(500);
    }
    if (atomic_load(&g->running) < ranks) {
        printf("group did not start\n");
        good = 0;
    }
    usleep(draw(20000));
    killed = now_ms();
    kill(pid[victim], SIGKILL);
    while (left > 0 && now_ms() - killed < 2 * BOUND + 5000) {
        left = 0;
        for (int r = 0; r < ranks; r++)
            left +=
                r != victim && atomic_load(&g->destroyed_ms[r]) == 0 && !atomic_load(&g->failed[r]);
        usleep(500);
    }
    for (int r = 0; r < ranks; r++) {
        long long error = atomic_load(&g->error_ms[r]), end = atomic_load(&g->destroyed_ms[r]);

        if (r != victim) {
            const char *why = error == 0                     ? "no error"
                              : error < killed               ? "an error before the kill"
                              : error - killed > BOUND       ? "the error came late"
                              : !atomic_load(&g->refused[r]) ? "the handle took another call"
                              : end == 0                     ? "destroy did not return"
                              : end - error > BOUND          ? "destroy was slow"
                                                             : NULL;

            if (why != NULL) {
                printf("rank %d after the death of rank %d: %s (error after %lld ms, destroyed "
                       "after %lld)\n",
                       r, victim, why, error ? error - killed : -1, end ? end - error : -1);
                good = 0;
            }
            if (error != 0 && error - killed > *worst)
                *worst = error - killed;
        }
        kill(pid[r], SIGKILL);
        waitpid(pid[r], NULL, 0);
    }
    return good;
}

static struct group *start_group(int first_gpu, pid_t *pid)
{
    struct group *g =
        mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned start = seed;

    fflush(stdout);
    for (int r = 0; r < ranks; r++) {
        pid[r] = fork();
        if (pid[r] == 0)
            live(g, r, first_gpu + r, start);
    }
    return g;
}

/* ---- in one process -------------------------------------------------------------------------- */

struct pair {
    symtuner_ar *handle[2];
    cudaStream_t stream[2];
    float *buffer[2];
};

static int call(struct pair *p, int r)
{
    cudaSetDevice(r);
    return symtuner_ar_all_reduce(p->buffer[r], p->buffer[r], COUNT, ncclFloat32, ncclSum,
                                  p->handle[r], p->stream[r]) == ncclSuccess;
}

/* Return the milliseconds from ${begin} until rank ${r} has an error; -1 if it has none within
 * twice the bound. */
static long long error_after(struct pair *p, int r, long long begin)
{
    while (now_ms() - begin < 2 * BOUND) {
        if (symtuner_ar_status(p->handle[r]) != ncclSuccess)
            return now_ms() - begin;
        usleep(1000);
    }
    return -1;
}

/* Fill rank ${r}'s buffer with ${value}. */
static int fill(struct pair *p, int r, float value)
{
    float host[COUNT];

    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    cudaSetDevice(r);
    return cudaMemcpy(p->buffer[r], host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess;
}

/* Is rank ${r}'s buffer full of ${value}? */
static int holds(struct pair *p, int r, float value)
{
    float host[COUNT];
    int right = cudaMemcpy(host, p->buffer[r], sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess;

    for (int i = 0; i < COUNT; i++)
        right &= host[i] == value;
    return right;
}

/* Let only rank 1 make a call, and abort rank 1. Its kernel must end long before its time limit. */
static int abort_waiting(struct pair *p)
{
    int good = call(p, 1);
    long long begin, took;

    usleep(20000);
    symtuner_ar_abort(p->handle[1]);
    begin = now_ms();
    good &= cudaStreamSynchronize(p->stream[1]) == cudaSuccess;
    took = now_ms() - begin;
    if (took > ABORT_BOUND) {
        printf("the aborted kernel left after %lld ms only\n", took);
        good = 0;
    }
    return good && !call(p, 1);
}

/*
 * Runs in a child process. Checks that rank 0 gets an error in time if rank 1 is silent. If
 * ${kernel} is NULL, rank 1 makes no more calls. Otherwise rank 1 is aborted while it waits in
 * ${kernel}. By then rank 1 may have sent all its data of that call, as one-shot kernels do. If so,
 * rank 0's call must end with the right sum, and rank 0's next call must fail.
 */
static int silent_peer(const char *kernel)
{
    struct symtuner_ar_config config = {.size = sizeof config, .timeout_ms = TIMEOUT};
    struct pair p;
    int devices[2] = {0, 1}, good, whole = 0;
    long long after, begin;

    if (symtuner_ar_create_local(p.handle, devices, 2, &config) != ncclSuccess) {
        printf("create: %s\n", symtuner_ar_error(NULL));
        return 0;
    }
    for (int r = 0; r < 2; r++) {
        cudaSetDevice(r);
        cudaStreamCreateWithFlags(&p.stream[r], cudaStreamNonBlocking);
        cudaMalloc((void **)&p.buffer[r], COUNT * sizeof(float));
        fill(&p, r, 0);
        cudaDeviceSynchronize();
        symtuner_ar_force(p.handle[r], kernel, 0, 0);
    }
    good = call(&p, 0) && call(&p, 1);
    for (int r = 0; r < 2; r++)
        good &= cudaStreamSynchronize(p.stream[r]) == cudaSuccess;
    good &= fill(&p, 0, 1) && fill(&p, 1, 2);
    if (kernel != NULL)
        good &= abort_waiting(&p);
    begin = now_ms();
    good &= call(&p, 0);
    good &= cudaStreamSynchronize(p.stream[0]) == cudaSuccess;
    if (kernel != NULL && symtuner_ar_status(p.handle[0]) == ncclSuccess) {
        whole = 1;
        if (!holds(&p, 0, 3)) {
            printf("the other rank's call ended without an error and WRONG\n");
            good = 0;
        }
        begin = now_ms();
        good &= call(&p, 0);
    }
    after = error_after(&p, 0, begin);
    if (after < 0 || after > BOUND || call(&p, 0))
        good = 0;
    begin = now_ms();
    symtuner_ar_destroy(p.handle, 2);
    if (now_ms() - begin > BOUND) {
        printf("destroy took %lld ms\n", now_ms() - begin);
        good = 0;
    }
    printf("%s%s: error in the other rank's %s call, after %lld ms, time limit %d: %s\n",
           kernel ? "a rank aborted in " : "a rank that never calls", kernel ? kernel : "",
           whole ? "next" : "first", after, TIMEOUT, good ? "right" : "WRONG");
    return good;
}

/*
 * Runs in a child process. Launches two graphs of the same handles on two streams, and then makes a
 * call on a third stream. The graphs and the call must run one after the other. Each graph has two
 * calls. ${mixing} is the value of NCCL_GRAPH_MIXING_SUPPORT. With "0" the library does not order
 * the graphs, and the test makes no call after them. The result must then be an error or right
 * bytes, in time, and never wrong bytes.
 */
static int overlapping_graphs(const char *mixing)
{
    enum { LONG = 1 << 22 };
    const int mixes = strcmp(mixing, "0") != 0;
    struct symtuner_ar_config config = {.size = sizeof config, .timeout_ms = TIMEOUT};
    symtuner_ar *h[2];
    cudaStream_t stream[2][3];
    cudaGraphExec_t graph[2][2];
    float *buffer[2][2], *host = malloc(LONG * sizeof *host);
    int devices[2] = {0, 1}, good = 1, error = 0, wrong = 0;
    long long begin;

    setenv("NCCL_GRAPH_MIXING_SUPPORT", mixing, 1);
    if (symtuner_ar_create_local(h, devices, 2, &config) != ncclSuccess)
        return 0;
    for (int i = 0; i < LONG; i++)
        host[i] = 1;
    for (int r = 0; r < 2; r++) {
        cudaSetDevice(r);
        cudaStreamCreateWithFlags(&stream[r][2], cudaStreamNonBlocking);
        for (int k = 0; k < 2; k++) {
            cudaGraph_t made;

            cudaStreamCreateWithFlags(&stream[r][k], cudaStreamNonBlocking);
            cudaMalloc((void **)&buffer[r][k], LONG * sizeof *host);
            cudaMemcpy(buffer[r][k], host, LONG * sizeof *host, cudaMemcpyHostToDevice);
            /* this kernel is slow and has few blocks, so both graphs fit on the GPU together */
            symtuner_ar_force(h[r], "one_ll8", 16, 128);
            cudaStreamBeginCapture(stream[r][k], cudaStreamCaptureModeThreadLocal);
            for (int call = 0; call < 2; call++)
                good &= symtuner_ar_all_reduce(buffer[r][k], buffer[r][k], LONG, ncclFloat32,
                                               ncclSum, h[r], stream[r][k]) == ncclSuccess;
            cudaStreamEndCapture(stream[r][k], &made);
            good &= cudaGraphInstantiate(&graph[r][k], made, 0) == cudaSuccess;
        }
        cudaDeviceSynchronize();
    }
    begin = now_ms();
    for (int k = 0; k < 2 && good; k++)
        for (int r = 0; r < 2; r++) {
            cudaSetDevice(r);
            cudaGraphLaunch(graph[r][k], stream[r][k]);
        }
    for (int r = 0; r < 2 && mixes; r++) {
        cudaSetDevice(r);
        good &= symtuner_ar_all_reduce(buffer[r][0], buffer[r][0], LONG, ncclFloat32, ncclSum, h[r],
                                       stream[r][2]) == ncclSuccess;
    }
    for (int r = 0; r < 2; r++) {
        cudaSetDevice(r);
        good &= cudaDeviceSynchronize() == cudaSuccess;
        error |= symtuner_ar_status(h[r]) != ncclSuccess;
    }
    good &= now_ms() - begin < 4 * BOUND;
    for (int r = 0; r < 2 && !error; r++)
        for (int k = 0; k < 2; k++) {
            cudaMemcpy(host, buffer[r][k], LONG * sizeof *host, cudaMemcpyDeviceToHost);
            for (int i = 0; i < LONG; i++)
                wrong += host[i] != (mixes && k == 0 ? 8 : 4);
        }
    good &= !(mixes && error);
    printf("two graphs of one handle%s: %s after %lld ms: %s\n",
           mixes ? " and a call" : " at once, with NCCL_GRAPH_MIXING_SUPPORT=0",
           error   ? symtuner_ar_error(h[0])
           : wrong ? "WRONG bytes and no error"
                   : "right bytes",
           now_ms() - begin, good && !wrong ? "right" : "WRONG");
    symtuner_ar_destroy(h, 2);
    return good && !wrong;
}

static int in_child(int (*body)(const char *), const char *argument)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        int good;

        alarm(60); /* a hang is a failure */
        good = body(argument);

        fflush(stdout);
        _exit(!good);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int gpus_here(void)
{
    int status, gpus = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 0;
}

int main(int argc, char **argv)
{
    static const char *const waits[] = {"one_lamport", "one_ll8", "two_ll128", "chunked"};
    static const char *const graphs[] = {"one_lamport", "chunked", "copy", "engines",
                                         "tma_engines"};
    int gpus, right = 0, done = 0, good = 1;
    int first_seed = 1;
    static const char *const options[] = {"--times", "--ranks", "--groups", "--seed"};
    const struct {
        int *value, low, high;
    } numbers[] = {{&times, 1, 1000000},
                   {&ranks, 2, MOST_RANKS},
                   {&groups, 1, MOST_GROUPS},
                   {&first_seed, 0, INT_MAX}};
    long long worst = 0;

    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        int option = word_must("ar_kill", "the command line", name, options, 4);

        if (value == NULL) {
            fprintf(stderr, "ar_kill: %s lacks a value\n", name);
            return 2;
        }
        *numbers[option].value =
            number_must("ar_kill", name, value, numbers[option].low, numbers[option].high);
    }
    seed = (unsigned)first_seed;
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* no multicast, ever */
    gpus = gpus_here();
    if (gpus < ranks) {
        printf("ar_kill: skipped: needs %d GPUs, %d here\n", ranks, gpus);
        return 77;
    }
    if (groups == 0)
        groups = gpus / ranks < MOST_GROUPS ? gpus / ranks : MOST_GROUPS;
    while (done < times) {
        struct group *g[MOST_GROUPS];
        pid_t pid[MOST_GROUPS][MOST_RANKS];
        int side = 0;

        for (; side < groups && done + side < times; side++)
            g[side] = start_group(side % (gpus / ranks) * ranks, pid[side]);
        for (int k = 0; k < side; k++) {
            right += one_kill(g[k], pid[k], (int)draw((unsigned)ranks), &worst);
            munmap(g[k], sizeof *g[k]);
        }
        done += side;
    }
    printf("ar_kill: %d of %d killed peers of %d ranks: error, refusal and destroy in time; "
           "slowest error "
           "%lld ms after the kill, time limit %d ms\n",
           right, times, ranks, worst, TIMEOUT);
    good &= in_child(silent_peer, NULL);
    for (size_t k = 0; k < sizeof waits / sizeof waits[0]; k++)
        good &= in_child(silent_peer, waits[k]);
    good &= in_child(overlapping_graphs, "1") & in_child(overlapping_graphs, "0");
    for (int k = 0; symtuner_ar_kernel_name(k) != NULL; k++)
        if (strncmp(symtuner_ar_kernel_name(k), "n", 1) != 0 && /* leaves out nccl and nvls */
            strcmp(symtuner_ar_kernel_name(k), "tma_ipc") != 0) /* needs SYMTUNER_AR_IPC */
            good &= in_child(kill_untouched, symtuner_ar_kernel_name(k));
    good &= in_child(kill_different_order, NULL);
    for (size_t k = 0; k < sizeof graphs / sizeof graphs[0]; k++)
        good &= in_child(kill_graph_of_local, graphs[k]) & in_child(kill_graph_of_comms, graphs[k]);
    return !(good && right == times);
}
