/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comms.h - what the drop-in (libsymtuner_nccl.so) knows of each communicator.
 *
 * Threads    st_comm_find takes no lock and runs on every call. Records are never freed, only used
 *            again, so st_comm_find reads valid memory even while another thread removes a record.
 *            As in NCCL, the program must not use a communicator that has ended.
 */
#ifndef ST_COMMS_H_
#define ST_COMMS_H_

#include <stdatomic.h>
#include <stdbool.h>

#include "dropin/kernels.h"
#include "dropin/tally.h"

enum { ST_SETS = 64, ST_WAYS = 4, ST_SHRINKS = 16 };

/* Who runs a call? */
enum st_plan {
    ST_PLAN_NCCL,
    ST_PLAN_RULE,   /* NCCL, because a rule of the user says so                */
    ST_PLAN_ACROSS, /* NCCL, because the ranks are on several boxes            */
    ST_PLAN_OURS,   /* our kernels                                             */
    ST_PLAN_EITHER, /* our kernel tma_ipc or NCCL: the ranks decide at each call which of the two
                     * runs it (symtuner_ar_decide) */
    ST_PLAN_BOXES,  /* "box by box": our kernels add up inside each box, and NCCL between the boxes.
                     * The value is ST_PLAN_BOXES plus the number of pieces into which the call is
                     * cut */
    ST_PLANS = 256  /* larger than every value */
};

/* Does NCCL let the children that ncclCommSplit or ncclCommShrink makes of a communicator share
 * resources with it? */
struct st_sharing {
    bool split, shrink;
};

struct st_book;
struct st_meet;

struct st_comm {
    _Atomic(void *) comm; /* NCCL's pointer; NULL: the record is free            */
    struct st_real *real; /* the copy of NCCL that made the communicator         */
    const struct st_kernels *kernels;
    _Atomic(struct symtuner_ar *) handle; /* NULL: all calls go to NCCL         */
    /* When the program aborts the communicator, or NCCL suspends it, the handle moves from
     * ${handle} to ${kept} and runs no more calls. It stays there until the communicator ends. If
     * ncclCommAbort ends the communicator, the handle moves on to ${orphan}, and stays there until
     * no thread uses it any more. While ncclCommFinalize or ncclCommDestroy waits for the calls of
     * the handle, it is in ${ending}. */
    _Atomic(struct symtuner_ar *) kept, orphan, ending;
    atomic_bool leaving; /* ncclCommAbort was called                              */
    _Atomic int users;   /* number of threads that use the handle (st_life_hold). While it is above
                        * 0, no new communicator gets this record */
    _Atomic int why;     /* enum st_tally_why: why all calls go to NCCL          */
    int rank, ranks;
    int device;  /* CUDA device number of the communicator, modulo ST_DEVICES     */
    bool placed; /* its handle is counted in st_comm_handles[device]              */
    bool wide;   /* its handle is counted in st_comm_wide[device]                 */
    bool spans;  /* its ranks are on several boxes, and all of them made a handle */
    bool blocking;
    bool unlisted; /* the record is not in the table, because the table is full */
    uint64_t key;  /* identifies the communicator, the same on all its ranks; 0: unknown */
    /* The number of a family. If NCCL aborts, revokes or (with NCCL_SHRINK_ABORT) shrinks a
     * communicator, it ends the kernels of all communicators of this rank that share resources with
     * it. These have the same number here, which is never 0. */
    _Atomic uint64_t family;
    struct st_sharing sharing;
    atomic_bool finalized, revoked; /* NCCL refuses to revoke it after one of the two */
    /* The shared memory (meet.h) in which the ranks vote on verified calls (verify/verify.h). NULL:
     * no call is verified. After an abort it is freed only when a new communicator gets this
     * record. */
    struct st_meet *meet;
    struct st_book *book; /* its counters for the ledger (ledger/book.h); NULL: none */
    uint32_t verified[ST_TALLY_ALL_GATHER + 1]; /* number of verified calls of each collective */
    bool distrusted; /* our result of a verified call differed from NCCL's       */
    uint32_t splits; /* how often ncclCommSplit has split this communicator      */
    /* How often ncclCommShrink has shrunk this communicator, counted separately for each list of
     * ranks to leave out. ${list} is a hash of the list. */
    struct {
        uint64_t list;
        uint32_t times; /* 0: the element is free */
    } shrinks[ST_SHRINKS];
    bool windows; /* a window of this communicator was registered with our kernels */
    /* A cache: who runs a call, as libsymtuner_ar.so has answered for earlier calls. Each element
     * is a hash of a call, with its lowest byte replaced by the answer, an enum st_plan. */
    uint64_t answers[ST_SETS][ST_WAYS];
    int by_boxes; /* the number of boxes, if some call runs box by box (ST_PLAN_BOXES); else 0 */
    bool either;  /* the library has answered ST_PLAN_EITHER for some call */
    /* Counts this communicator's collectives in the group with the number ${group}. Our kernels
     * could run ${group_ours} of them, but not the ${group_others}. */
    uint64_t group;
    int group_ours, group_others;
    struct st_comm *next_free;
};

extern _Atomic(struct st_comm *) st_comm_table[];
enum { ST_COMM_PLACES = 4096 }; /* a power of two */

static inline unsigned st_comm_place(const void *comm)
{
    return (unsigned)(((uint64_t)(uintptr_t)comm * UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}
_Static_assert(ST_COMM_PLACES == 1 << (64 - 52), "st_comm_place");

/* Return the record of ${comm}, or NULL if the drop-in has not seen it being made. */
static inline struct st_comm *st_comm_find(const void *comm)
{
    unsigned place = st_comm_place(comm);

    if (!comm)
        return NULL;
    for (unsigned i = 0; i < ST_COMM_PLACES; i++) {
        struct st_comm *c = atomic_load_explicit(&st_comm_table[(place + i) % ST_COMM_PLACES],
                                                 memory_order_acquire);

        if (!c)
            return NULL;
        if (atomic_load_explicit(&c->comm, memory_order_acquire) == comm)
            return c;
    }
    return NULL;
}

/* Add a record for the communicator ${comm} of the NCCL ${real}. All other members are 0. Returns
 * NULL if there is no room; then NCCL runs all calls of the communicator. */
struct st_comm *st_comm_add(void *comm, struct st_real *real);
/* Return the next other communicator of the family of ${c}, or NULL if there is no other. ${*place}
 * says where the search goes on; set it to 0 before the first call. The caller must call
 * st_life_release (life.h) for the communicator that it gets. */
struct st_comm *st_comm_relative(const struct st_comm *c, unsigned *place);
/* Return what NCCL makes of the ${sharing} in a communicator's config: the variables
 * NCCL_COMM_SPLIT_SHARE_RESOURCES and NCCL_COMM_SHRINK_SHARE_RESOURCES override it. NCCL reads them
 * once, when it makes its first communicator, and sets them before if a file such as /etc/nccl.conf
 * has them. So the first call of this function must come after that. */
struct st_sharing st_comm_sharing(struct st_sharing sharing);
/* Remove a record from the table. Does nothing if another thread has already removed it. */
void st_comm_remove(struct st_comm *c);

/* Return the key of the communicator that this call of ncclCommSplit makes from ${parent}, or 0 if
 * ${parent} has no key. The key depends on how often ${parent} was split. So every rank must call
 * this function at each split, even a rank that gets no communicator from the split. */
uint64_t st_comm_split_key(struct st_comm *parent, int color);
/* Return the key of the communicator that this call of ncclCommShrink makes from ${parent}, or 0 if
 * ${parent} has no key. ${without}: the ${n} ranks to leave out. The record of ${parent} has room
 * for ST_SHRINKS different lists ${without}. If this room is used up on some ranks only, the ranks
 * get different keys. Then they do not find each other in shared memory, and NCCL runs all calls of
 * the new communicator. */
uint64_t st_comm_shrink_key(struct st_comm *parent, const int *without, int n);
/* Return the key of the communicator that NCCL makes from ${ids} ncclUniqueIds. */
uint64_t st_comm_key(const struct nccl_abi_id *id, int ids);
/* Return the key of a communicator whose ranks are all in this thread (ncclCommInitAll), so that no
 * other process needs to compute the key. It differs from the keys of all other communicators on
 * this host. */
uint64_t st_comm_own_key(void);

/* How many communicators have a handle, or are about to make one, on each GPU. */
enum { ST_DEVICES = 64 };
extern atomic_int st_comm_handles[ST_DEVICES];
/* How many of these communicators are wide. Calls of a wide communicator may have all the thread
 * blocks that the library allows. A communicator is wide if its handle was the first on its GPU,
 * and none was kept for JAX (entry/jax.h). Calls of other handles get fewer blocks
 * (st_settings_further). */
extern atomic_int st_comm_wide[ST_DEVICES];
/* Count ${c} among the communicators that have a handle on its GPU, and among the wide ones.
 * Returns how many communicators with a handle the GPU had before. */
int st_comm_take(struct st_comm *c);
/* From now on do not count ${c} as wide. */
void st_comm_limit(struct st_comm *c);
/* Undo st_comm_take: no longer count ${c} among the communicators that have a handle, nor among the
 * wide ones. Does nothing if ${c} is not counted. */
void st_comm_give(struct st_comm *c);

#endif
