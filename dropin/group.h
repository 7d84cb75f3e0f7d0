/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.h - the calls and other work that wait for the end of an open group of NCCL.
 *
 * Threads    groups are of one thread, as in NCCL.
 */
#ifndef ST_GROUP_H_
#define ST_GROUP_H_

#include "dropin/comms.h"
#include "dropin/settings.h"

/* One of the three collectives that may run on our kernels. */
struct st_call {
    void *comm; /* NCCL's pointer */
    enum st_tally_coll coll;
    const void *send;
    void *recv;
    size_t count;
    int dtype, op;
    void *stream;
};

/* Return the bytes of ${count} elements, times the ranks if ${per_rank}; 0: unknown type. */
size_t st_bytes(const struct st_comm *c, size_t count, int dtype, bool per_rank);
/* Return the bytes of the call's larger buffer; 0 if the type is unknown. */
size_t st_call_bytes(const struct st_comm *c, const struct st_call *call);

/* An operator that the program has created. */
struct st_op {
    void *comm;
    int op;
};

/* What waits for the end of a group besides calls: see life.h and window.h. */
struct st_made;
struct st_seen;

struct st_group {
    int depth;
    uint64_t number; /* of this thread's group */
    bool failed;     /* NCCL refused a call, so it will run none of them */
    struct st_call *call;
    int calls, calls_room;
    struct st_op *op; /* destroyed by the program, but calls above may have them */
    int ops, ops_room;
    struct st_made *made;
    int mades, mades_room;
    struct st_seen *seen;
    int seens, seens_room;
};

/* Return this thread's group of NCCL ${real}. */
struct st_group *st_group_of(const struct st_real *real);

/* Return room for one more element at the end of an array of ${count} that has ${room} places, or
 * NULL if memory is short. */
void *st_group_more(void **array, int count, int *room, size_t size);

/* 1: we are in a call of libsymtuner_ar.so, whose NCCL calls go straight to NCCL. */
extern _Thread_local int st_inside;

/* Does a call go to NCCL uncounted? Those of our kernels do, and those that NCCL makes itself by
 * its exported names: ncclBcast calls ncclBroadcast, ncclCommAbort calls ncclCommGetAsyncError. */
static inline bool st_passes(struct st_from from, const struct st_real *real)
{
    return st_inside || st_off || st_real_calls(real, from.caller);
}

#endif
