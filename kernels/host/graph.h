/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - which call waits for which, and graphs that hold calls of a handle.
 *
 * Each capture that a call goes into gets a record, of which the graph holds a reference (a CUDA
 * user object), and so do its clones and executables: the record is live until the last of them is
 * gone. It says behind which call of that capture the next one goes, and what must not be given
 * back.
 */
#ifndef AR_GRAPH_H_
#define AR_GRAPH_H_

#include "kernels/group/handle.h"

struct ar_graph {
    struct ar_graph *next;
    struct ar_order order;
    uint64_t windows; /* bit w: some call goes through h->windows[w] */
    uint32_t gone;    /* written by a thread of CUDA's when the graph is */
};

_Static_assert(AR_MAX_WINDOWS <= 64, "a bit for each window");

/*
 * Calls of one handle share its counters, so a call on another stream waits for the one before: for
 * the last eager call when eager, for the last call of the same capture when captured. (A graph
 * cannot wait for work outside of it.) Enter before a call, leave behind it; *graph_out is the
 * record of the capture, or NULL.
 */
ncclResult_t ar_stream_enter(symtuner_ar *h, cudaStream_t stream, struct ar_order **order_out,
                             struct ar_graph **graph_out);
ncclResult_t ar_stream_leave(symtuner_ar *h, cudaStream_t stream, struct ar_order *order);

/* Whether a graph lives that goes through one of ${windows}; ~0: any graph. Forgets those that do
 * not. CUDA lets go of a graph some time after its last executable is destroyed: ${wait_ms}. */
bool ar_graphs_live(symtuner_ar *h, uint64_t windows, int wait_ms);

#endif
