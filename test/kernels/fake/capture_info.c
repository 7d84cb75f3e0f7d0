/* SPDX-License-Identifier: Apache-2.0 */
/* capture_info.c - what all fake CUDAs share about captures. */
#include "test/kernels/fake/capture_info.h"

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *n)
{
    (void)edges;
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **nodes, size_t *n)
{
#endif
    *n = fake_capture_front(stream, nodes);
    return fake_capture_info(stream, status, id, graph);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                const cudaGraphEdgeData *edges, size_t n,
                                                unsigned flags)
{
    (void)edges;
#else
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                size_t n, unsigned flags)
{
#endif
    if (n != 1 || flags != cudaStreamSetCaptureDependencies)
        return cudaErrorIllegalState;
    return fake_capture_after(stream, nodes[0]);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                     size_t n)
{
    (void)edges;
#else
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, size_t n)
{
#endif
    (void)graph;
    return n == 1 ? fake_graph_edge(from[0], to[0], true) : cudaErrorIllegalState;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                        size_t n)
{
    (void)edges;
#else
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to, size_t n)
{
#endif
    (void)graph;
    return n == 1 ? fake_graph_edge(from[0], to[0], false) : cudaErrorIllegalState;
}

/* The fakes run the operations of a graph one after the other, if at all, so an empty node changes
 * nothing. */
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                  const cudaGraphNode_t *front, size_t fronts)
{
    (void)front, (void)fronts;
    *node = (cudaGraphNode_t)graph;
    return cudaSuccess;
}

static _Thread_local enum cudaStreamCaptureMode now = cudaStreamCaptureModeGlobal;

bool fake_capture_relaxed(void)
{
    return now == cudaStreamCaptureModeRelaxed;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = now;

    now = *mode;
    *mode = before;
    return cudaSuccess;
}
