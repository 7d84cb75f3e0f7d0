/* SPDX-License-Identifier: Apache-2.0 */
/* capture_info.c - see capture_info.h. */
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
    (void)nodes, (void)n;
    return fake_capture_info(stream, status, id, graph);
}
