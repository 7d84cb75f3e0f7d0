/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h - the profiler behind ours: one communicator of it, spoken to in its own version.
 *
 * It gets the events that NCCL would have given it alone, and NCCL gets its handles: so what comes
 * back as a handle or a parent is its own. We give out no handle but one (see start).
 *
 * The activation mask is one number in NCCL for the whole process, and a profiler may write it at
 * any time. Where we want events, too, the other gets a number of its own instead, and every event
 * carries what it wrote there over to NCCL's.
 *
 * Errors     an init that fails is a warning, and the communicator goes on without it. NCCL ignores
 *            what the other functions return.
 */
#ifndef ST_NEXT_PROFILER_H_
#define ST_NEXT_PROFILER_H_

#include "nccl_abi/profiler_events.h"

struct st_profiler_init {
    int abi;
    uint64_t comm_id;
    const char *name;
    int nodes, ranks, rank;
    nccl_abi_logger logger;
    int *mask; /* NCCL's */
};

struct st_next_profiler {
    const void *table; /* NULL: nothing is chained here */
    void *ctx;
};

/* Open the other's side of a communicator and set NCCL's mask: ${own} is what we want. */
void st_next_profiler_open(struct st_next_profiler *next, const struct st_profiler_init *init,
                           int own, const char *chosen, bool quiet);

/*
 * An event of NCCL, which speaks ${abi} and whose ${type} is read already. The handle is the
 * other's, or NULL where it does not get the event. NCCL 2.27 gives no Coll event when the Group
 * event around it got no handle: if we want them and the other gave none, it gets one of ours.
 */
void st_next_profiler_start(const struct st_next_profiler *next, int abi, uint64_t type,
                            const void *event, void **handle);
void st_next_profiler_stop(void *handle);
void st_next_profiler_state(void *handle, int state, void *args);
void st_next_profiler_close(struct st_next_profiler *next);

#endif
