/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ar_graph.h - graphs that hold calls of a handle.
 *
 * Each capture that a call goes into gets a record, of which the graph holds a reference (a CUDA
 * user object), and so do its clones and executables: the record is live until the last of them is
 * gone. It says behind which call of that capture the next one goes, and what must not be given
 * back.
 */
#ifndef ST_AR_GRAPH_H_
#define ST_AR_GRAPH_H_

#include "ar_handle.h"

struct st_graph {
    struct st_graph *next;
    struct st_order order;
    uint64_t windows; /* bit w: some call goes through h->windows[w] */
    uint32_t gone;    /* written by a thread of CUDA's when the graph is */
};

_Static_assert(ST_MAX_WINDOWS <= 64, "a bit for each window");

/* The record of capture ${id}, which goes on in ${graph}; made where there is none yet. */
ncclResult_t st_graph_find(symtuner_ar *h, unsigned long long id, cudaGraph_t graph,
                           struct st_graph **out);

/* Whether a graph lives that goes through one of ${windows}; ~0: any graph. Forgets those that do
 * not. CUDA lets go of a graph some time after its last executable is destroyed: ${wait_ms}. */
bool st_graphs_live(symtuner_ar *h, uint64_t windows, int wait_ms);

/*
 * Handles that are destroyed while graphs live, one list for each group or rank. A local group's
 * stay as they are, and its graphs work. Of a communicator's, which may end before the graph, all
 * is given back but the counters, in which a replayed kernel finds that it must not run (it traps).
 * The sweep frees those whose graphs are gone.
 */
bool st_graves_add(symtuner_ar **handles, int n); /* false: no graph lives */
void st_graves_sweep(void);

#endif
