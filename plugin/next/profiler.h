/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h - the profiler behind ours: one communicator of it, spoken to in its own version.
 *
 * It gets the events that NCCL would give it without us, and NCCL gets its handles: so the handles
 * and parents that come back are its own. We give out one handle of ours only (see
 * st_next_profiler_start).
 *
 * NCCL has one activation mask for the whole process, and a profiler may write it at any time. If
 * we want events, too, the other profiler gets a mask of its own, and at every event we copy what
 * it wrote there into NCCL's.
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

/* Open a communicator in the other profiler and set NCCL's mask; ${own}: the events that we
 * want. */
void st_next_profiler_open(struct st_next_profiler *next, const struct st_profiler_init *init,
                           int own, const char *chosen, bool quiet);

/*
 * Pass on an event of NCCL, which speaks version ${abi}; ${type} is that of the event. The handle
 * is the other's, or NULL if it does not get the event. NCCL 2.27 gives no Coll event if the Group
 * event around it got no handle: if we want Coll events and the other gave none, the group gets our
 * handle.
 */
void st_next_profiler_start(const struct st_next_profiler *next, int abi, uint64_t type,
                            const void *event, void **handle);
void st_next_profiler_stop(void *handle);
void st_next_profiler_state(void *handle, int state, void *args);
void st_next_profiler_close(struct st_next_profiler *next);

#endif
