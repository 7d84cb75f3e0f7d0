/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixing.h - let the calls in a graph and the calls outside of it wait for each other.
 *
 * When a graph is launched, its first call waits for the handle's latest call, and the calls and
 * graphs that follow wait for the last call of the graph. NCCL has this order, too. All calls and
 * graphs use one event, h->eager.done. Each call outside of captures records it. As long as a graph
 * with calls of the handle exists, each call outside of captures also waits for it, on any stream.
 * A graph has two nodes for the event: one in front of its first call, which waits for the event,
 * and one behind its last call, which records it. No other node follows the recording node, so that
 * node delays nothing.
 *
 * When a call is captured, nobody knows whether it is the last one of the graph. So after each
 * captured call the recording node is moved behind that call.
 *
 * Graphs and other calls do not wait for each other if NCCL_GRAPH_MIXING_SUPPORT is 0, or if the
 * caller has promised to use one stream (config.one_stream). Some graphs can have no nodes for
 * events, for example the bodies of conditional nodes. Such a graph and other calls do not wait for
 * each other, either.
 */
#ifndef AR_MIXING_H_
#define AR_MIXING_H_

#include <cuda_runtime_api.h>

#include "kernels/group/handle.h"
#include "kernels/order/capture.h"

/* The nodes of a graph that wait for h->eager.done and record it. */
struct ar_ends {
    bool waits;             /* whether the graph waits for h->eager.done */
    cudaGraphNode_t record; /* the node that records h->eager.done; NULL: none yet */
    cudaGraphNode_t last;   /* the node that ${record} follows, the end of the latest call */
};

/* Return whether graphs with calls of ${h} and other calls of ${h} wait for each other. */
static inline bool ar_mixes(const symtuner_ar *h)
{
    return h->mixing && !h->one_stream;
}

/* Let the graph of ${capture}, which ${stream} is in, wait for earlier calls of ${h}. Call this
 * before the first call of the capture. */
void ar_mixing_begin(const symtuner_ar *h, struct ar_ends *ends, cudaStream_t stream,
                     const struct ar_capture *capture);

/* Let later calls of ${h} wait for the call that was just captured on ${stream}. */
void ar_mixing_end(const symtuner_ar *h, struct ar_ends *ends, cudaStream_t stream);

#endif
