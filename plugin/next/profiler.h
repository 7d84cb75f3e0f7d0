/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h - one communicator in the profiler behind ours (plugin/next/open.h), here called the
 * other profiler. We call it in the version of the interface that it speaks.
 *
 * The other profiler gets the events that NCCL would give it without us. The handle that it returns
 * for an event is the handle that we give NCCL. So the handles and parents that NCCL passes later
 * are that profiler's own, with one exception (see st_next_profiler_start).
 *
 * NCCL has one activation mask for the whole process, with one bit for each type of event that
 * profilers want. A profiler may write the mask at any time. If we want events, too, the other
 * profiler gets a separate mask to write to. At every event we set NCCL's mask to our events and
 * those in the other profiler's mask. If a process has several copies of NCCL, each copy has a mask
 * of its own.
 *
 * Errors     if the other profiler's init fails, we warn, and the communicator goes on without that
 *            profiler. NCCL ignores what the other functions return.
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
    int *mask; /* NCCL's activation mask */
};

struct st_next_profiler {
    const void *table; /* functions of the other profiler; NULL: there is no other profiler */
    void *ctx;         /* the other profiler's context of this communicator */
    int *mask;         /* NCCL's mask if we want events, otherwise NULL */
};

/* Open a communicator in the other profiler and set NCCL's mask. ${own} has the bits of the events
 * that we want. ${chosen} is the value of SYMTUNER_NEXT_PROFILER. With ${quiet} log nothing. */
void st_next_profiler_open(struct st_next_profiler *next, const struct st_profiler_init *init,
                           int own, const char *chosen, bool quiet);

/*
 * Pass ${event} of type ${type} to the other profiler, which sets ${*handle}. ${abi} is NCCL's
 * version of the interface. If the other profiler does not get the event, ${*handle} does not
 * change. NCCL 2.27 sends no Coll event if the Group event around the Coll event got no handle. So
 * if we want Coll events and the other profiler gave the Group event no handle, the Group event
 * gets our handle.
 */
void st_next_profiler_start(const struct st_next_profiler *next, int abi, uint64_t type,
                            const void *event, void **handle);
void st_next_profiler_stop(int abi, void *handle);
void st_next_profiler_state(int abi, void *handle, int state, void *args);
void st_next_profiler_close(struct st_next_profiler *next);

#endif
