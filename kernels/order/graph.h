/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - the order of a handle's calls, and the CUDA graphs that contain some of them.
 *
 * Each stream capture with calls of a handle has a record. The graph, its clones and its
 * executables all hold a reference to the record (a CUDA user object), so the record lives until
 * the last of them is gone. The record says which call of the capture the next call must follow. It
 * also says which windows the graph uses, so that they are not deregistered.
 */
#ifndef AR_GRAPH_H_
#define AR_GRAPH_H_

#include "kernels/group/handle.h"
#include "kernels/order/mixing.h"

struct ar_graph {
    struct ar_graph *next;
    struct ar_order order;
    uint64_t windows; /* bit w: a call uses h->windows[w] */
    uint32_t gone;    /* 1 once no graph refers to this record; a thread of CUDA sets it */
    struct ar_ends ends;
};

_Static_assert(AR_MAX_WINDOWS <= 64, "a bit for each window");

/*
 * Calls of one handle share its counters and must not overlap. So a call waits for the previous
 * call, if that was on another stream. For a captured call, the previous call is the last one in
 * the same capture. For any other call, it is the last one outside of captures. mixing.h says how
 * the first call of a graph and the calls outside of it wait for each other.
 *
 * Call ar_stream_enter before and ar_stream_leave after each call of a collective.
 * *graph_out becomes the record of the capture, or NULL outside of captures. Pass *graph_out to
 * ar_stream_leave.
 */
ncclResult_t ar_stream_enter(symtuner_ar *h, cudaStream_t stream, struct ar_order **order_out,
                             struct ar_graph **graph_out);
ncclResult_t ar_stream_leave(symtuner_ar *h, cudaStream_t stream, struct ar_graph *graph);

/* Return whether a graph still exists that uses one of ${windows} (bit w: h->windows[w]; ~0: any
 * graph). Free the records of graphs that are gone. CUDA releases a graph only some time after its
 * last executable is destroyed, so this waits up to ${wait_ms} for the graph to go. */
bool ar_graphs_live(symtuner_ar *h, uint64_t windows, int wait_ms);

#endif
