/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.h - the calls and other work that wait for the end of an open group of NCCL.
 *
 * Threads    each thread has its own groups, as in NCCL.
 */
#ifndef ST_GROUP_H_
#define ST_GROUP_H_

#include "dropin/comms.h"
#include "dropin/settings.h"

/* A call of one of the three collectives that may run on our kernels. */
struct st_call {
    void *comm; /* NCCL's pointer */
    enum st_tally_coll coll;
    const void *send;
    void *recv;
    size_t count;
    int dtype, op;
    void *stream;
    bool either; /* the call waits in a group, and the ranks must still decide whether NCCL or
                  * our kernels run it (ST_PLAN_EITHER) */
};

/* Return the size of ${count} elements in bytes, or 0 if the type is unknown. ${per_rank}: multiply
 * the size by the number of ranks. */
size_t st_bytes(const struct st_comm *c, size_t count, int dtype, bool per_rank);
/* Return the bytes of the call's larger buffer; 0 if the type is unknown. */
size_t st_call_bytes(const struct st_comm *c, const struct st_call *call);
/* Is the call in place? An all-reduce is in place if both buffers begin at the same address. A
 * reduce-scatter or an all-gather is in place if the shorter buffer, of ${part} bytes, lies where
 * this rank's part of the longer buffer is. */
bool st_call_in_place(const struct st_comm *c, const struct st_call *call, size_t part);

/* An operator that the program has created with ncclRedOpCreatePreMulSum. */
struct st_op {
    void *comm;
    int op;
};

/* A stream that calls of a communicator in this group use (dropin/streams/streams.h). */
struct st_use {
    void *comm, *stream;
    int device; /* number of the communicator's GPU */
    bool waits; /* it is the communicator's first stream, and its streams wait for each other */
};

/* Besides calls and operators, two things wait for the end of a group: the handles of new
 * communicators (life.h), and the windows that we have to register (window.h). */
struct st_made;
struct st_seen;

struct st_group {
    int depth;
    uint64_t number; /* no other group of this process has the same; 0: none was opened yet */
    struct st_call *call;
    int calls, calls_room;
    struct st_op *op; /* operators that the program has destroyed, but waiting calls may use */
    int ops, ops_room;
    struct st_use *use; /* each pair of communicator and stream once */
    int uses, uses_room;
    struct st_made *made;
    int mades, mades_room;
    struct st_seen *seen;
    int seens, seens_room;
};

/* Return the calling thread's group in the copy of NCCL ${real}. */
struct st_group *st_group_of(const struct st_real *real);

/* Return the address for one more element of ${array}, which has ${count} elements, and memory for
 * ${*room}. Enlarges the memory if it is full. Returns NULL if memory is short. */
void *st_group_more(void **array, int count, int *room, size_t size);

/* Above 0 while the drop-in itself calls libsymtuner_ar.so or NCCL in this thread. Until that call
 * returns, all NCCL calls of this thread go straight to NCCL. */
extern _Thread_local int st_inside;

/* Does a call go straight to NCCL, without being counted? With SYMTUNER_MODE=off every call does.
 * Otherwise three kinds of calls do: those that the drop-in itself makes (st_inside), those of a
 * copy of NCCL that the drop-in does not follow, and those that NCCL makes to its own exported
 * functions. For example, ncclBcast calls ncclBroadcast, and ncclCommAbort calls
 * ncclCommGetAsyncError. */
static inline bool st_passes(struct st_from from, const struct st_real *real)
{
    return st_inside || st_off || real->index == ST_REALS || st_real_calls(real, from.caller);
}

#endif
