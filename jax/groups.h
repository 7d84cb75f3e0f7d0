/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.h - which handle serves which device of which group in this process.
 *
 * A group is an ordered list of JAX device ids. Python opens it while a program is lowered. A
 * compiled program names its groups by these ids, and the handler looks up the handle of the device
 * that it runs on.
 *
 * Readers take no lock. A place in the table is filled before it is marked open, and is used for
 * another group only after it was closed and nobody holds it. A member that was found is held until
 * ffi_member_release(); closing waits for that before it gives the handle back.
 */
#ifndef FFI_GROUPS_H_
#define FFI_GROUPS_H_

#include <pthread.h>

#include "jax/library.h"
#include "jax/exchange.h"

#define FFI_GROUP_RANKS   16 /* SYMTUNER_AR_MAX_RANKS */
#define FFI_GROUP_MEMBERS 1024
#define FFI_CACHE_LINE    64

/* One device in one group. */
struct ffi_member {
    int64_t ids[FFI_GROUP_RANKS];
    int ranks, me;
    int ordinal;                   /* CUDA device of this process */
    int across;                    /* 1: the ranks are in several processes */
    int xla;                       /* 1: on XLA's communicator, which the first run brings */
    int gpus[FFI_GROUP_RANKS];     /* local groups: the CUDA device of each rank */
    struct ffi_exchange *exchange; /* local groups: shared by all ranks; else NULL */
    uint32_t timeout_ms;
    ffi_handle *handle; /* xla: NULL before the first run */
    void *comm;         /* NCCL communicator, our own or XLA's; NULL in local groups */
    /* One thread writes what follows at every call while other threads search the table, so it has
     * cache lines of its own. */
    _Alignas(FFI_CACHE_LINE) pthread_mutex_t lock; /* a handle belongs to one thread at a time */
    int held;                  /* calls that hold it now; ffi_members_add() leaves it */
    int open;                  /* 1: can be found */
    struct ffi_found found;    /* local groups: what this member looked up last */
    int64_t looked;            /* 1 + the run in which replays were last checked; 0: none */
    int lost;                  /* 1 + a rank whose process is gone; 0: none */
    int left;                  /* 1 + a rank that has closed the group; 0: none */
    int wake;                  /* eventfd of its watch; 0: not watched */
    void *done;                /* CUDA event after the last call of a group across processes */
    int minor;                 /* version of the runtime's FFI API; 0: no call yet */
    uintptr_t address_bits;    /* all buffers' addresses ORed: the lowest bit is their alignment */
    uint64_t calls, zero_copy; /* zero_copy: calls that knew all ranks' buffers */
};

/* Find and hold the member of device ${ordinal} in one of the ${rows} groups of ${groups}, each of
 * ${ranks} ids. ${xla}: whether the group uses XLA's communicator. NULL: there is none. */
struct ffi_member *ffi_member_find(const int64_t *groups, int rows, int ranks, int ordinal,
                                   int xla);

/* Hold the i-th open member. NULL: there are not so many. */
struct ffi_member *ffi_member_hold(int i);

void ffi_member_release(struct ffi_member *member); /* NULL: does nothing */

/* The i-th open member or NULL, not held: it is valid only as long as nobody closes the group. */
struct ffi_member *ffi_member_at(int i);

/* Is there room for ${n} more? */
int ffi_members_room(int n);

/* Add ${n} members; all of them can be found at the same moment. Returns -1 if the table is
 * full. */
int ffi_members_add(const struct ffi_member *members, int n);

/* Close all members; returns how many places there are. The caller then waits for each with
 * ffi_member_shut(), gives its handle back, and calls ffi_members_forget(). */
int ffi_members_shut(void);

/* Wait until no call holds the closed member in place ${i}, and return it. */
struct ffi_member *ffi_member_shut(int i);

/* Free all places, unless members were added since ffi_members_shut() returned ${n}. */
void ffi_members_forget(int n);

#endif
