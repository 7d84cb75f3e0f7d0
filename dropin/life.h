/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life.h - what the drop-in does when a communicator is made and when it ends.
 *
 * A communicator whose calls may run on our kernels has a handle, a struct symtuner_ar. The drop-in
 * makes the handle at the end of a blocking ncclCommInit*, ncclCommSplit or ncclCommShrink, or, if
 * a group is open, at the outermost ncclGroupEnd. First all ranks must have told each other that
 * they can use our kernels. Ranks of one box do so in shared memory (meet.h). Ranks of several
 * boxes do so through NCCL, but only if the user wants them to add up box by box (boxes/boxes.h).
 */
#ifndef ST_LIFE_H_
#define ST_LIFE_H_

#include "dropin/boxes/boxes.h"
#include "dropin/group.h"

/* A communicator that NCCL is making. */
struct st_made {
    void **comm;           /* where NCCL writes its pointer to the communicator */
    uint64_t key;          /* identifies the communicator, the same on all its ranks; 0: unknown */
    enum st_tally_why why; /* why NCCL runs its calls; ST_WHY_OURS: no reason is known yet */
    bool blocking;
    struct st_sharing sharing; /* as the config says */
    uint64_t family;           /* the parent's, if NCCL lets the child share resources; else 0 */
    struct st_meet *meet;      /* the meeting (meet.h) that this rank has entered; NULL: none */
    struct st_boxes_mark mark; /* the mark that st_boxes_read found in the ncclUniqueId */
    /* The communicator was made by split or shrink from a parent that spans several boxes and whose
     * ranks all have handles. So all ranks have the drop-in, and the settings of all ask to add up
     * box by box (boxes/boxes.h). Such a parent is blocking, so NCCL returns only when it has made
     * the child, even a non-blocking child (ncclAsyncLaunch in group.cc of 2.28.3 to 2.30.7). */
    bool parent_spans;
};

/* Enter the meeting (meet.h) of a communicator that NCCL is about to make. Returns NULL if there is
 * no shared memory, or if NCCL will run all calls of the communicator anyway, so that the ranks
 * need not meet. ${ranks}: the number of the communicator's ranks, 0 if unknown. ${count}: how many
 * of these ranks this thread drives. */
struct st_meet *st_made_enter(const struct st_real *real, const struct st_made *made, int ranks,
                              int count);
/* Call st_made_settle for the ${n} communicators that one call of NCCL makes: now, or at the end of
 * the group if one is open. */
void st_made(struct st_real *real, struct st_made *made, int n);
/* Decide for each of these ${n} communicators, which NCCL has made, whether our kernels can run its
 * calls. If they can, make its handle. Waits for the other ranks. */
void st_made_settle(struct st_real *real, struct st_made *made, int n);
/* Leave the meetings of these ${n} communicators, for example because NCCL could not make them. */
void st_made_drop(struct st_made *made, int n);

/* Free the handle of ${c}, because the communicator is about to end. Waits for its calls. Returns
 * false if another thread has called ncclCommAbort meanwhile: then NCCL may have freed the
 * communicator. */
bool st_life_end(struct st_comm *c);
/* Send all later calls of ${c} to NCCL, but keep its handle until the communicator ends: graphs
 * with calls of the handle may run again when NCCL has resumed the communicator. */
void st_life_suspend(struct st_comm *c);
/* Call this before NCCL aborts its own kernels. It makes our kernels of ${c} and of its family give
 * up, which takes 50 ms for each communicator, or up to 2 s if copies are queued on the GPU. It
 * does not wait for other threads. */
void st_life_abort(struct st_comm *c);
/* Call this before ncclCommAbort. It does what st_life_abort does, and removes ${c} from the table
 * of communicators (comms.h). ${c} itself stays valid until st_life_aborted. */
void st_life_leave(struct st_comm *c);
/* Call this after ncclCommAbort. If NCCL has ${ended} the communicator, the aborted handle is
 * discarded as soon as no thread uses it. Does not wait. */
void st_life_aborted(struct st_comm *c, bool ended);

/* Discard the handle in ${c}->orphan if no thread uses it any more. */
void st_life_discard(struct st_comm *c);

static inline void st_life_release(struct st_comm *c)
{
    if (atomic_fetch_sub(&c->users, 1) == 1 && atomic_load(&c->orphan))
        st_life_discard(c);
}

/* Return the handle of ${c}. It is not freed before st_life_release, even if another thread aborts
 * the communicator. Returns NULL if ${c} has no handle; then do not call st_life_release. */
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

/* Warn that no loaded copy of NCCL has the function that the program calls. Returns
 * ncclInvalidUsage. */
nccl_abi_result st_no_nccl(void);

#endif
