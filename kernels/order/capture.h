/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - the stream captures of CUDA 12 and 13, whose calls take different parameters. */
#ifndef AR_CAPTURE_H_
#define AR_CAPTURE_H_

#include <cuda_runtime_api.h>

/* The capture that a stream is in, and the nodes that the next one must follow. */
struct ar_capture {
    unsigned long long id; /* 0: the stream is not captured */
    cudaGraph_t graph;
    const cudaGraphNode_t *front;
    size_t fronts;
};

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
        *c = (struct ar_capture){0};
    return error;
}

/* Let the next node of the stream's capture follow ${node} only. */
static inline cudaError_t ar_capture_after(cudaStream_t stream, cudaGraphNode_t node)
{
#if CUDART_VERSION >= 13000
    return cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1,
                                               cudaStreamSetCaptureDependencies);
#else
    return cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies);
#endif
}

/* Set this thread's capture mode, and return the former one. Allocating, mapping and copying are
 * only allowed in mode relaxed while this thread captures, even if they are not captured. */
static inline enum cudaStreamCaptureMode ar_capture_mode(enum cudaStreamCaptureMode mode)
{
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

#endif
