/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - stream capture with CUDA 12 and 13, whose functions take different parameters. */
#ifndef AR_CAPTURE_H_
#define AR_CAPTURE_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* In CUDA 13, functions that add edges to a graph have one more parameter, data about these edges,
 * just before the number of edges. NULL means plain edges. */
#if CUDART_VERSION >= 13000
#define AR_PLAIN_EDGES NULL,
#else
#define AR_PLAIN_EDGES
#endif

/* The capture that a stream is in. */
struct ar_capture {
    unsigned long long id; /* 0: the stream is not captured */
    bool broken;           /* the stream is in a capture that has failed and has not ended */
    cudaGraph_t graph;
    const cudaGraphNode_t *front; /* the nodes that the next node must follow */
    size_t fronts;                /* how many nodes front has */
};

/* Set *c to the capture that ${stream} is in. */
static inline cudaError_t ar_capture_look(cudaStream_t stream, struct ar_capture *c)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 13000
    const cudaGraphEdgeData *edges;
    cudaError_t error =
        cudaStreamGetCaptureInfo(stream, &status, &c->id, &c->graph, &c->front, &edges, &c->fronts);
#else
    cudaError_t error =
        cudaStreamGetCaptureInfo_v2(stream, &status, &c->id, &c->graph, &c->front, &c->fronts);
#endif

    if (status != cudaStreamCaptureStatusActive)
        *c = (struct ar_capture){.broken = status == cudaStreamCaptureStatusInvalidated};
    return error;
}

/* Let the next node of the stream's capture follow ${node} only. */
static inline cudaError_t ar_capture_after(cudaStream_t stream, cudaGraphNode_t node)
{
    return cudaStreamUpdateCaptureDependencies(stream, &node, AR_PLAIN_EDGES 1,
                                               cudaStreamSetCaptureDependencies);
}

/* In ${graph}, let ${node} follow ${before}, too. */
static inline cudaError_t ar_graph_follow(cudaGraph_t graph, cudaGraphNode_t before,
                                          cudaGraphNode_t node)
{
    return cudaGraphAddDependencies(graph, &before, &node, AR_PLAIN_EDGES 1);
}

/* In ${graph}, ${node} need not follow ${before} any more. */
static inline cudaError_t ar_graph_leave(cudaGraph_t graph, cudaGraphNode_t before,
                                         cudaGraphNode_t node)
{
    return cudaGraphRemoveDependencies(graph, &before, &node, AR_PLAIN_EDGES 1);
}

/* Set this thread's capture mode, and return the former mode. While this thread captures, or
 * another thread captures in mode global, this thread may allocate, map and copy only in mode
 * relaxed, even if these operations are not captured. In any other mode they fail, and the capture
 * fails, too. */
static inline enum cudaStreamCaptureMode ar_capture_mode(enum cudaStreamCaptureMode mode)
{
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

#endif
