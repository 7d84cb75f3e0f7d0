/* SPDX-License-Identifier: Apache-2.0 */
/*
 * absent.c - tests the all-gather by copy engines when one rank does not call. The copies and waits
 * that the other ranks have queued must end within the time limit, with an error. The buffers of
 * the absent rank must not change.
 *
 * usage: absent [ANYTHING]. With an argument no rank is absent, and the program ends after the
 * calls that all ranks make. One thread makes the calls of all ranks, each on a stream of its own.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symtuner_ar.h"
#include "test/must.h"

enum { RANKS = 3, PART = 3000, TIMEOUT_MS = 4000, AT_MOST_S = 60, POISON = 0x5a };

struct rank {
    symtuner_ar *handle;
    cudaStream_t stream;
    unsigned char *send, *recv;
    cudaGraphExec_t graph;
};

static struct rank rank[RANKS];

/* Make a group, and register its buffers if ${registered}. */
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
        MUST(cudaMalloc((void **)&rank[r].send, PART) == cudaSuccess);
        MUST(cudaMalloc((void **)&rank[r].recv, RANKS * PART) == cudaSuccess);
        sends[r] = rank[r].send;
        recvs[r] = rank[r].recv;
        MUST(symtuner_ar_force(handles[r], "engines", 0, 0) == ncclSuccess);
    }
    if (registered) {
        MUST(symtuner_ar_register(handles, sends, NULL, RANKS, PART) == ncclSuccess);
        MUST(symtuner_ar_register(handles, recvs, NULL, RANKS, RANKS * PART) == ncclSuccess);
    }
}

static ncclResult_t call(int r)
{
    return symtuner_ar_all_gather(rank[r].send, rank[r].recv, PART, ncclUint8, rank[r].handle,
                                  rank[r].stream);
}

static void fill(int r, int salt)
{
    memset(rank[r].send, 16 * salt + r, PART);
    memset(rank[r].recv, POISON, RANKS * PART);
}

static void synchronize(int r)
{
    MUST(cudaStreamSynchronize(rank[r].stream) == cudaSuccess);
}

static void check(int r, int salt)
{
    for (int i = 0; i < RANKS * PART; i++)
        if (rank[r].recv[i] != 16 * salt + i / PART) {
            fprintf(stderr, "absent: rank %d, call %d: byte %d is %d, not %d\n", r, salt, i,
                    rank[r].recv[i], 16 * salt + i / PART);
            exit(1);
        }
}

/* Make a call on every rank. If ${replay}, launch every rank's graph instead. */
static void call_all(int salt, int replay)
{
    for (int r = 0; r < RANKS; r++)
        fill(r, salt);
    for (int r = 0; r < RANKS; r++)
        if (replay)
            MUST(cudaGraphLaunch(rank[r].graph, rank[r].stream) == cudaSuccess);
        else
            MUST(call(r) == ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        synchronize(r);
        MUST(symtuner_ar_status(rank[r].handle) == ncclSuccess);
        check(r, salt);
    }
}

static void capture(int r)
{
    cudaGraph_t graph;

    MUST(cudaStreamBeginCapture(rank[r].stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    MUST(call(r) == ncclSuccess);
    MUST(call(r) == ncclSuccess);
    MUST(cudaStreamEndCapture(rank[r].stream, &graph) == cudaSuccess);
    MUST(cudaGraphInstantiate(&rank[r].graph, graph, 0) == cudaSuccess);
    MUST(cudaGraphDestroy(graph) == cudaSuccess);
}

/* The last rank does not call. Each other rank makes a call, and then launches its graph of two
 * calls. */
static void leave_one_out(void)
{
    const int absent = RANKS - 1;

    for (int r = 0; r < RANKS; r++)
        fill(r, 9);
    memset(rank[absent].send, POISON, PART);
    for (int r = 0; r < absent; r++) {
        MUST(call(r) == ncclSuccess);
        MUST(cudaGraphLaunch(rank[r].graph, rank[r].stream) == cudaSuccess);
    }
    for (int r = 0; r < absent; r++) {
        synchronize(r);
        MUST(symtuner_ar_status(rank[r].handle) == ncclRemoteError);
        MUST(call(r) != ncclSuccess);
    }
    for (int i = 0; i < RANKS * PART; i++)
        MUST(rank[absent].recv[i] == POISON && rank[absent].send[i % PART] == POISON);
    /* a rank that calls too late gets an error, because the others may have changed their data */
    for (int r = 0; r < absent; r++)
        memset(rank[r].send, 0xff, PART);
    MUST(call(absent) == ncclSuccess);
    synchronize(absent);
    MUST(symtuner_ar_status(rank[absent].handle) == ncclRemoteError);
}

static void end(void)
{
    symtuner_ar *handles[RANKS];

    for (int r = 0; r < RANKS; r++) {
        handles[r] = rank[r].handle;
        MUST(cudaGraphExecDestroy(rank[r].graph) == cudaSuccess);
        MUST(cudaStreamDestroy(rank[r].stream) == cudaSuccess);
    }
    MUST(symtuner_ar_destroy(handles, RANKS) == ncclRemoteError); /* of the failed calls */
    for (int r = 0; r < RANKS; r++) {
        cudaFree(rank[r].send);
        cudaFree(rank[r].recv);
    }
}

int main(int argc, char **argv)
{
    (void)argv;
    alarm(AT_MOST_S); /* if a stream waits for ever, end the program */
    for (int registered = 0; registered < 2; registered++) {
        begin(registered);
        for (int salt = 1; salt < 4; salt++)
            call_all(salt, 0);
        for (int r = 0; r < RANKS; r++)
            capture(r);
        for (int salt = 4; salt < 9; salt++)
            call_all(salt, salt != 6);
        if (argc == 1)
            leave_one_out();
        end();
    }
    printf("absent: all ranks right, and without one of them an error in time\n");
    return 0;
}
