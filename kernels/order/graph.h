/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - the order of a handle's calls, and the CUDA graphs that contain some of them.
 *
 * Each stream capture with calls of a handle has a record. The graph, its clones and its
 * executables all hold a reference to it (a CUDA user object), so the record lives until the last
 * of them is gone. The record says which call of the capture the next one must follow, and which
 * windows the graph uses, so that they are not deregistered.
 */
#ifndef AR_GRAPH_H_
#define AR_GRAPH_H_

#include "kernels/group/handle.h"

struct ar_graph {
    struct ar_graph *next;
    struct ar_order order;
    uint64_t windows; /* bit w: a call uses h->windows[w] */
    uint32_t gone;    /* a thread of CUDA's sets it once no graph refers to this */
};

_Static_assert(AR_MAX_WINDOWS <= 64, "a bit for each window");

/*
 * Calls of one handle share its counters and must not overlap. So a call on another stream waits
 * for the previous one: a captured call for the last call of the same capture, any other call for
 * the last call outside of captures. (A graph cannot wait for work outside of it.) Call
 * ar_stream_enter before and ar_stream_leave after each call. *graph_out is the record of the
 * capture, NULL outside of captures; pass *order_out to ar_stream_leave.
 */
ncclResult_t ar_stream_enter(symtuner_ar *h, cudaStream_t stream, struct ar_order **order_out,
                             struct ar_graph **graph_out);
ncclResult_t ar_stream_leave(symtuner_ar *h, cudaStream_t stream, struct ar_order *order);

/* Return whether a graph lives that uses one of ${windows} (bit w: h->windows[w]; ~0: any graph),
 * and free the records of graphs that are gone. CUDA releases a graph only some time after its last
 * executable is destroyed, so this waits up to ${wait_ms} for that. */
bool ar_graphs_live(symtuner_ar *h, uint64_t windows, int wait_ms);

#endif
