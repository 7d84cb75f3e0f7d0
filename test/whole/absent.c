/* SPDX-License-Identifier: Apache-2.0 */
/*
 * absent.c - tests the all-gather and the all-reduce by copy engines when one rank does not make
 * its call. The copies and waits that the other ranks have queued must end within the time limit,
 * with an error. The buffers of the absent rank must not change. The program also aborts ranks
 * whose calls are queued behind other work. When the abort returns, no copy may be queued any more.
 *
 * usage: absent engines|tma_engines [ANYTHING]. With a second argument no rank is absent, and the
 * program ends after the calls that all ranks make. One thread makes the calls of all ranks, each
 * on a stream of its own.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symtuner_ar.h"
#include "test/must.h"

enum {
    RANKS = 3,
    PART = 3000,
    ALL = RANKS * PART,
    WORDS = ALL / 16 * 16, /* of ALL bytes, the kernels send those after WORDS as a second piece */
    TIMEOUT_MS = 4000,
    AT_MOST_S = 100,
    CHANGES = 40, /* number of calls after which all ranks change their buffers */
    POISON = 0x5a
};

struct rank {
    symtuner_ar *handle;
    cudaStream_t stream;
    unsigned char *send, *recv, *result;
    cudaGraphExec_t graph;
};

static struct rank rank[RANKS];
static const char *kernel;
static int reduces; /* whether the calls are all-reduces, in which send is as long as recv */
/* Whether the calls are in place. Such all-reduces take the maximum, because a second one in a row
 * then does not change the result. */
static int in_place;

/* Make a group. If ${registered} is set, register its buffers. */
static void begin(int registered)
{
    struct symtuner_ar_config config = {
        .size = sizeof config, .timeout_ms = TIMEOUT_MS, .bulk_bytes = 1 << 20};
    const int devices[RANKS] = {0, 1, 2};
    symtuner_ar *handles[RANKS];
    void *sends[RANKS], *recvs[RANKS];

    MUST(symtuner_ar_create_local(handles, devices, RANKS, &config) == ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        MUST(cudaSetDevice(r) == cudaSuccess);
        rank[r] = (struct rank){.handle = handles[r]};
        MUST(cudaStreamCreateWithFlags(&rank[r].stream, cudaStreamNonBlocking) == cudaSuccess);
        MUST(cudaMalloc((void **)&rank[r].send, ALL) == cudaSuccess);
        MUST(cudaMalloc((void **)&rank[r].recv, ALL) == cudaSuccess);
        MUST(cudaMalloc((void **)&rank[r].result, ALL) == cudaSuccess);
        sends[r] = rank[r].send;
        recvs[r] = rank[r].recv;
        MUST(symtuner_ar_force(handles[r], kernel, reduces ? 2 : 0, reduces ? 96 : 0) ==
             ncclSuccess);
    }
    if (registered) {
        MUST(symtuner_ar_register(handles, sends, NULL, RANKS, ALL) == ncclSuccess);
        MUST(symtuner_ar_register(handles, recvs, NULL, RANKS, ALL) == ncclSuccess);
    }
}

/* Make a call on rank ${r}. ${bytes} is the length of the message of an all-reduce. */
static ncclResult_t call(int r, size_t bytes)
{
    if (reduces)
        return symtuner_ar_all_reduce(in_place ? rank[r].recv : rank[r].send, rank[r].recv, bytes,
                                      ncclUint8, in_place ? ncclMax : ncclSum, rank[r].handle,
                                      rank[r].stream);
    return symtuner_ar_all_gather(rank[r].send, rank[r].recv, PART, ncclUint8, rank[r].handle,
                                  rank[r].stream);
}

static void fill(int r, int salt)
{
    for (int i = 0; i < ALL; i++) {
        rank[r].send[i] = (unsigned char)(16 * salt + r + (reduces ? i / 7 : 0));
        rank[r].recv[i] = in_place ? rank[r].send[i] : POISON;
    }
}

/* Return byte ${i} of the right result. */
static unsigned char right(int salt, int i)
{
    int sum = 0, most = 0;

    if (!reduces)
        return (unsigned char)(16 * salt + i / PART);
    for (int r = 0; r < RANKS; r++) {
        const int x = (unsigned char)(16 * salt + r + i / 7);

        sum += x;
        most = x > most ? x : most;
    }
    return (unsigned char)(in_place ? most : sum);
}

static void synchronize(int r)
{
    MUST(cudaStreamSynchronize(rank[r].stream) == cudaSuccess);
}

static void check(int r, int salt, const unsigned char *result, int bytes)
{
    for (int i = 0; i < bytes; i++)
        if (result[i] != right(salt, i)) {
            fprintf(stderr, "absent: rank %d, call %d: byte %d is %d, not %d\n", r, salt, i,
                    result[i], right(salt, i));
            exit(1);
        }
}

/* Make a call on every rank. If ${replay} is set, launch every rank's graph instead. */
static void call_all(int salt, int replay)
{
    for (int r = 0; r < RANKS; r++)
        fill(r, salt);
    for (int r = 0; r < RANKS; r++)
        if (replay)
            MUST(cudaGraphLaunch(rank[r].graph, rank[r].stream) == cudaSuccess);
        else
            MUST(call(r, ALL) == ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        synchronize(r);
        MUST(symtuner_ar_status(rank[r].handle) == ncclSuccess);
        check(r, salt, rank[r].recv, ALL);
    }
}

/* Make a call on every rank. As soon as a rank's call has ended, the rank keeps a copy of the
 * result and changes its buffers. No peer may then still read from them. An all-reduce has only one
 * piece, because with two pieces the ranks wait for each other in the second one, which protects
 * the first. */
static void call_and_change(int salt)
{
    const int bytes = reduces ? WORDS : ALL;

    for (int r = 0; r < RANKS; r++)
        fill(r, salt);
    for (int r = 0; r < RANKS; r++) {
        MUST(call(r, (size_t)bytes) == ncclSuccess);
        MUST(cudaMemcpyAsync(rank[r].result, rank[r].recv, ALL, cudaMemcpyDefault,
                             rank[r].stream) == cudaSuccess);
        MUST(cudaMemsetAsync(rank[r].recv, POISON, ALL, rank[r].stream) == cudaSuccess);
        MUST(cudaMemsetAsync(rank[r].send, POISON, ALL, rank[r].stream) == cudaSuccess);
    }
    for (int r = 0; r < RANKS; r++) {
        synchronize(r);
        check(r, salt, rank[r].result, bytes);
    }
}

static void capture(int r)
{
    cudaGraph_t graph;

    MUST(cudaStreamBeginCapture(rank[r].stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    MUST(call(r, ALL) == ncclSuccess);
    MUST(call(r, ALL) == ncclSuccess);
    MUST(cudaStreamEndCapture(rank[r].stream, &graph) == cudaSuccess);
    MUST(cudaGraphInstantiate(&rank[r].graph, graph, 0) == cudaSuccess);
    MUST(cudaGraphDestroy(graph) == cudaSuccess);
}

/* The last rank makes no call. Each other rank makes a call, and then launches its graph of two
 * calls. */
static void leave_one_out(void)
{
    const int absent = RANKS - 1;

    for (int r = 0; r < RANKS; r++)
        fill(r, 9);
    memset(rank[absent].send, POISON, ALL);
    memset(rank[absent].recv, POISON, ALL);
    for (int r = 0; r < absent; r++) {
        MUST(call(r, ALL) == ncclSuccess);
        MUST(cudaGraphLaunch(rank[r].graph, rank[r].stream) == cudaSuccess);
    }
    for (int r = 0; r < absent; r++) {
        synchronize(r);
        MUST(symtuner_ar_status(rank[r].handle) == ncclRemoteError);
        MUST(call(r, ALL) != ncclSuccess);
    }
    for (int i = 0; i < ALL; i++)
        MUST(rank[absent].recv[i] == POISON && rank[absent].send[i] == POISON);
    /* a rank that makes its call too late gets an error, because the others may have changed their
     * data */
    for (int r = 0; r < absent; r++)
        memset(rank[r].send, 0xff, ALL);
    MUST(call(absent, ALL) == ncclSuccess);
    synchronize(absent);
    MUST(symtuner_ar_status(rank[absent].handle) == ncclRemoteError);
}

static void CUDART_CB other_work(void *unused)
{
    (void)unused;
    usleep(400000);
}

/* Queue a call of each rank behind other work, and abort the ranks one after the other. */
static void abort_queued(void)
{
    for (int r = 0; r < RANKS; r++) {
        MUST(cudaLaunchHostFunc(rank[r].stream, other_work, NULL) == cudaSuccess);
        MUST(call(r, ALL) == ncclSuccess);
    }
    for (int r = 0; r < RANKS; r++) {
        MUST(symtuner_ar_abort(rank[r].handle) == ncclSuccess);
        usleep(100000); /* the stream may need a moment to become idle */
        MUST(cudaStreamQuery(rank[r].stream) == cudaSuccess);
        MUST(call(r, ALL) != ncclSuccess);
    }
}

/* Destroy the handles. ${expected}: what the destruction must return. */
static void end(ncclResult_t expected)
{
    symtuner_ar *handles[RANKS];

    for (int r = 0; r < RANKS; r++) {
        handles[r] = rank[r].handle;
        if (rank[r].graph != NULL)
            MUST(cudaGraphExecDestroy(rank[r].graph) == cudaSuccess);
        MUST(cudaStreamDestroy(rank[r].stream) == cudaSuccess);
    }
    MUST(symtuner_ar_destroy(handles, RANKS) == expected);
    for (int r = 0; r < RANKS; r++) {
        cudaFree(rank[r].send);
        cudaFree(rank[r].recv);
        cudaFree(rank[r].result);
    }
}

int main(int argc, char **argv)
{
    MUST(argc > 1);
    kernel = argv[1];
    reduces = strcmp(kernel, "tma_engines") == 0;
    alarm(AT_MOST_S); /* ends the program if a stream waits for ever */
    for (int round = 0; round < 2; round++) {
        in_place = reduces && round == 1;
        begin(reduces || round == 1); /* all-reduces need registered buffers */
        for (int salt = 1; salt < 4; salt++)
            call_all(salt, 0);
        for (int i = 0; i < CHANGES; i++)
            call_and_change(i % 15);
        for (int r = 0; r < RANKS; r++)
            capture(r);
        for (int salt = 4; salt < 9; salt++)
            call_all(salt, salt != 6);
        if (argc == 2)
            leave_one_out();
        end(argc == 2 ? ncclRemoteError : ncclSuccess); /* the error is that of the failed calls */
    }
    if (argc == 2) {
        begin(1);
        abort_queued();
        end(ncclSuccess);
    }
    printf("absent: all ranks right, and without one of them an error in time\n");
    return 0;
}
