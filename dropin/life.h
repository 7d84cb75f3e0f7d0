/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life.h - communicators that are made and that end, and the handles of our kernels.
 *
 * Handles are made at the end of a blocking ncclCommInit* or ncclCommSplit, in a group at the
 * outermost ncclGroupEnd, after all ranks have met. To meet, each rank enters before NCCL's call
 * (meet.h).
 */
#ifndef ST_LIFE_H_
#define ST_LIFE_H_

#include "dropin/group.h"

/* A communicator that NCCL is making. */
struct st_made {
    void **comm;           /* where NCCL writes it */
    uint64_t key;          /* the same on all its ranks and no other; 0: unknown */
    enum st_tally_why why; /* NCCL runs its calls for this reason; ST_WHY_OURS: none yet */
    bool blocking;
    struct st_meet *meet; /* entered; NULL: not */
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

/* Return a key for the next communicator made from ${parent}. */
uint64_t st_life_child(struct st_comm *parent, int color);
/* Return a key for the communicator of these ids. */
uint64_t st_life_key(const struct nccl_abi_id *id, int ids);

/* Say that there is no NCCL, or not this function in it; return ncclInvalidUsage. */
nccl_abi_result st_no_nccl(void);

#endif
