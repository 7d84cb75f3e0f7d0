/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor.c - measure the limits of this box for any all-reduce without multicast: the speed of plain
 * copies while all GPUs copy at once, and the time of an empty kernel in a graph.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/compare/protocol.h"
#include "bench/must.h"
#include "bench/compare/table.h"

int floor_gpus(void)
{
    int gpus = 0;

    return cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0;
}

enum { NODES = 20, TRIES = 7 };
#define BYTES ((size_t)256 << 20)

/* Return GB/s of the slowest GPU while every GPU copies 4 x 256 MiB to the next one. */
static double copy_gbps(int ranks)
{
    char *from[MOST_RANKS], *to[MOST_RANKS];
    cudaStream_t stream[MOST_RANKS];
    cudaEvent_t mark[MOST_RANKS][2];
    double gbps[TRIES];

    for (int r = 0; r < ranks; r++) {
        CUDA(cudaSetDevice(r));
        for (int p = 0; p < ranks; p++)
            if (p != r && cudaDeviceEnablePeerAccess(p, 0) != cudaSuccess)
                cudaGetLastError(); /* no peer access: CUDA copies through host memory here */
        CUDA(cudaMalloc((void **)&from[r], BYTES));
        CUDA(cudaMalloc((void **)&to[r], BYTES));
        CUDA(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking));
        CUDA(cudaEventCreate(&mark[r][0]));
        CUDA(cudaEventCreate(&mark[r][1]));
    }
    for (int i = 0; i < TRIES; i++) {
        double worst = 0;

        for (int c = 0; c < 6; c++) /* copies 0 and 1 are not timed: the GPUs start one by one */
            for (int r = 0; r < ranks; r++) {
                CUDA(cudaSetDevice(r));
                if (c == 2)
                    CUDA(cudaEventRecord(mark[r][0], stream[r]));
                CUDA(cudaMemcpyPeerAsync(to[(r + 1) % ranks], (r + 1) % ranks, from[r], r, BYTES,
                                         stream[r]));
                if (c == 5)
                    CUDA(cudaEventRecord(mark[r][1], stream[r]));
            }
        for (int r = 0; r < ranks; r++) {
            float ms;

            CUDA(cudaSetDevice(r));
            CUDA(cudaStreamSynchronize(stream[r]));
            CUDA(cudaEventElapsedTime(&ms, mark[r][0], mark[r][1]));
            worst = ms > worst ? ms : worst;
        }
        gbps[i] = 4.0 * (double)BYTES / worst / 1e6;
    }
    return table_median(gbps, TRIES);
}

static double node_us(void)
{
    cudaStream_t stream;
    cudaEvent_t mark[2];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    double us[TRIES];

    CUDA(cudaSetDevice(0));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&mark[0]));
    CUDA(cudaEventCreate(&mark[1]));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++)
        CUDA(gpu_empty(stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < TRIES; i++) {
        float ms;

        CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaEventRecord(mark[0], stream));
        for (int l = 0; l < 4; l++)
            CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaEventRecord(mark[1], stream));
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaEventElapsedTime(&ms, mark[0], mark[1]));
        us[i] = (double)ms * 1000 / (4 * NODES);
    }
    return table_median(us, TRIES);
}

int floor_main(int argc, char **argv)
{
    int ranks = argc == 1 ? atoi(argv[0]) : 0;

    if (ranks < 1 || ranks > MOST_RANKS)
        return 2;
    dprintf(REPLY_FD, "%.1f %.3f\n", copy_gbps(ranks), node_us());
    return 0;
}
