/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.h - the table that says which handle of libsymtuner_ar.so serves which device of which
 * group in this process.
 *
 * A group is an ordered list of JAX device ids. Python opens it while a program is lowered. The
 * table then has one member for each device of this process in the group. A compiled program names
 * its groups by the device ids. When XLA calls our handler for a device, the handler finds the
 * device's member here, and in it the handle.
 *
 * Readers take no lock. We fill a member before we mark it open. We reuse a member for another
 * group only when it is closed and no call holds it. A call holds a member from ffi_member_find(),
 * which returns it, to ffi_member_release(). The thread that closes a group waits until no call
 * holds the group's members, and then destroys their handles.
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
    int ordinal;                   /* CUDA device number in this process */
    int across;                    /* 1: one process per rank; 0: all ranks are in this process */
    int xla;                       /* 1: the group uses XLA's communicator; the first run gets it */
    int gpus[FFI_GROUP_RANKS];     /* [r]: CUDA device of rank r; local groups only */
    struct ffi_exchange *exchange; /* shared by all ranks of a local group; else NULL */
    uint32_t timeout_ms;
    ffi_handle *handle; /* NULL before the first run on XLA's communicator */
    void *comm;         /* ncclComm_t, our own or XLA's; NULL in local groups */
    /* The fields below have cache lines of their own: one thread writes them in every call, while
     * other threads read the fields above to search the table. */
    _Alignas(FFI_CACHE_LINE) pthread_mutex_t lock; /* one thread at a time uses the handle */
    int held;                  /* how many calls hold this member; not set by ffi_members_add() */
    int open;                  /* 1: calls can find this member */
    struct ffi_found found;    /* local groups: cache for ffi_exchange_look() (exchange.h) */
    int64_t looked;            /* 1 + last run that look_at_replays() (handler.c) checked, or 0 */
    int lost;                  /* 1 + first rank whose process has ended; 0: none has */
    int left;                  /* 1 + first rank that has closed the group; 0: none has */
    int wake;                  /* eventfd of the group's watch thread (liveness.c); 0: no thread */
    void *done;                /* CUDA event of ffi_pending_mark(); groups across processes only */
    int minor;                 /* minor version of XLA's FFI API; 0: no call yet */
    uintptr_t address_bits;    /* OR of all buffers' addresses; the lowest 1 bit is the alignment */
    uint64_t calls, zero_copy; /* zero_copy: calls that got all ranks' buffers */
};

/* Find the open member for CUDA device ${ordinal} in the group that is one of the rows of
 * ${groups}, and hold the member until ffi_member_release(). ${groups} has ${rows} rows, each of
 * ${ranks} JAX device ids. ${xla}: the group uses XLA's communicator. Returns NULL if there is no
 * such member. */
struct ffi_member *ffi_member_find(const int64_t *groups, int rows, int ranks, int ordinal,
                                   int xla);

/* Return the i-th open member, counted from 0, and hold it until ffi_member_release(). Returns NULL
 * if fewer members are open. */
struct ffi_member *ffi_member_hold(int i);

void ffi_member_release(struct ffi_member *member); /* does nothing if ${member} is NULL */

/* Return the i-th open member as ffi_member_hold() does, but without holding it. The pointer is
 * valid only as long as nobody closes the member's group. */
struct ffi_member *ffi_member_at(int i);

/* Does the table have room for ${n} more members? */
int ffi_members_room(int n);

/* Copy ${n} members into the table and mark them open, so that calls find them. Returns 0, or -1 if
 * the table is full. */
int ffi_members_add(const struct ffi_member *members, int n);

/* Mark all members closed, so that calls no longer find them. Returns how many members the table
 * has. The caller then calls ffi_member_shut() for each index and destroys the member's handle.
 * Finally it calls ffi_members_forget(). */
int ffi_members_shut(void);

/* Wait until no call holds the closed member with index ${i}, and return it. */
struct ffi_member *ffi_member_shut(int i);

/* Empty the table, unless members were added since ffi_members_shut() returned ${n}. */
void ffi_members_forget(int n);

#endif
