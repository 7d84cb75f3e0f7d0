/* SPDX-License-Identifier: Apache-2.0 */
/* capture_info.h - what all fake CUDAs share about captures: the calls whose parameters differ
 * between CUDA 12 and 13, empty nodes, and the capture mode. */
#ifndef ST_TEST_FAKE_CAPTURE_INFO_H_
#define ST_TEST_FAKE_CAPTURE_INFO_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* Each fake CUDA defines the next four functions. ${graph} may be NULL. */
cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                              unsigned long long *id, cudaGraph_t *graph);
/* Let everything that ${stream} captures from now on follow ${node}, and no other node. */
cudaError_t fake_capture_after(cudaStream_t stream, cudaGraphNode_t node);
/* Set *nodes to the nodes that the next node of ${stream} will follow. Returns how many there are.
 * The list is valid until the thread's next call. */
size_t fake_capture_front(cudaStream_t stream, const cudaGraphNode_t **nodes);
/* Let ${node} also follow ${before}. If ${follows} is false, let it no longer do so. */
cudaError_t fake_graph_edge(cudaGraphNode_t before, cudaGraphNode_t node, bool follows);

bool fake_capture_relaxed(void); /* whether this thread is in the capture mode relaxed */

#endif
