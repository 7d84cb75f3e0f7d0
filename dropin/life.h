/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life.h - communicators that are made and that end, and the handles of our kernels.
 *
 * Handles are made at the end of a blocking ncclCommInit* or ncclCommSplit, in a group at the
 * outermost ncclGroupEnd, after all ranks have met: in the memory of their box, for which each rank
 * enters before NCCL's call (meet.h), or else over NCCL if they were asked to add up box by box
 * (boxes/boxes.h).
 */
#ifndef ST_LIFE_H_
#define ST_LIFE_H_

#include "dropin/boxes/boxes.h"
#include "dropin/group.h"

/* A communicator that NCCL is making. */
struct st_made {
    void **comm;           /* where NCCL writes it */
    uint64_t key;          /* the same on all its ranks and no other; 0: unknown */
    enum st_tally_why why; /* NCCL runs its calls for this reason; ST_WHY_OURS: none yet */
    bool blocking;
    struct st_meet *meet; /* entered; NULL: not */
    struct st_boxes_mark mark; /* of its ncclUniqueId */
};

/* Enter the meeting of a communicator that NCCL is about to make, unless it is plain that NCCL runs
 * its calls. ${ranks}: how many the communicator has, 0 if unknown; ${count}: how many of them this
 * call makes. */
struct st_meet *st_made_enter(const struct st_real *real, const struct st_made *made, int ranks,
                              int count);
/* Note a communicator: in a group until its end, else settle it at once. */
void st_made(struct st_real *real, struct st_made made);
void st_made_settle(struct st_real *real, struct st_made *made, int n);
/* Forget communicators that NCCL did not make. */
void st_made_drop(struct st_made *made, int n);

/* Free the handle, because the communicator is about to end. */
void st_life_end(struct st_comm *c);
/* Make kernels give up, because NCCL's are about to be aborted. Does not wait. */
void st_life_abort(struct st_comm *c);
/* Before ncclCommAbort: as st_life_abort, and take the record out of the table, but keep it until
 * st_life_aborted. */
void st_life_leave(struct st_comm *c);
/* After ncclCommAbort: if it has ${ended} the communicator, discard the aborted handle once no thread
 * uses it. Does not wait. */
void st_life_aborted(struct st_comm *c, bool ended);

void st_life_discard(struct st_comm *c);

static inline void st_life_release(struct st_comm *c)
{
    if (atomic_fetch_sub(&c->users, 1) == 1 && atomic_load(&c->orphan))
        st_life_discard(c);
}

/* Keep the handle of ${c} from being freed until st_life_release, although another thread may abort
 * the communicator. Returns NULL if there is none; then do not call st_life_release. */
static inline struct symtuner_ar *st_life_hold(struct st_comm *c)
{
    struct symtuner_ar *handle;

    if (!atomic_load_explicit(&c->handle, memory_order_relaxed))
        return NULL;
    atomic_fetch_add(&c->users, 1);
    handle = atomic_load(&c->handle);
    if (!handle)
        st_life_release(c);
    return handle;
}

/* Return a key for the next communicator made from ${parent}. */
uint64_t st_life_child(struct st_comm *parent, int color);
/* Return a key for the communicator of these ids. */
uint64_t st_life_key(const struct nccl_abi_id *id, int ids);

/* Say that there is no NCCL, or not this function in it; return ncclInvalidUsage. */
nccl_abi_result st_no_nccl(void);

#endif
