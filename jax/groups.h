/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.h - which handle serves which device of which group, in this process.
 *
 * A group is an ordered list of JAX device ids. Python opens it while a program is lowered; a
 * compiled program names its groups by their ids, and the handler finds the handle of the device it
 * runs on. Readers take no lock: a place is filled before it is marked open, and is used for
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
    int across;                    /* the ranks are in several processes */
    int xla;                       /* they use XLA's communicator, which the first run brings */
    int gpus[FFI_GROUP_RANKS];     /* local groups: every rank's CUDA device */
    struct ffi_exchange *exchange; /* shared by a local group; NULL else */
    uint32_t timeout_ms;
    ffi_handle *handle; /* xla: NULL before the first run */
    void *comm;         /* NCCL communicator, our own or XLA's; NULL in local groups */
    /* From here on one thread writes at every call, while others look for their members. */
    _Alignas(FFI_CACHE_LINE) pthread_mutex_t lock; /* a handle belongs to one thread at a time */
    int held;                  /* by so many calls; ffi_members_add() leaves it */
    int open;                  /* 1: may be found */
    struct ffi_found found;    /* with exchange: what this member looked up last */
    int64_t looked;            /* 1 + the run in which replays were last looked at; 0: none */
    int lost;                  /* 1 + a rank whose process is gone; 0: none */
    int left;                  /* 1 + a rank that has closed the group; 0: none */
    int wake;                  /* eventfd of its watch; 0: not watched */
    void *done;                /* CUDA event after the last call of a group across processes */
    int minor;                 /* of the runtime's FFI API; 0: no call yet */
    uintptr_t address_bits;    /* OR of all buffers' addresses: the lowest bit is their alignment */
    uint64_t calls, zero_copy; /* zero_copy: those that knew all ranks' buffers */
};

/* The member of device ${ordinal} in the row of ${groups} (rows of ${ranks} ids) that has one, of a
 * group that does or does not use XLA's communicator; NULL: none. Held. */
struct ffi_member *ffi_member_find(const int64_t *groups, int rows, int ranks, int ordinal,
                                   int xla);

/* The i-th open member, held; or NULL. */
struct ffi_member *ffi_member_hold(int i);

void ffi_member_release(struct ffi_member *member); /* NULL: nothing */

/* The i-th open member, or NULL. Its handle is the caller's only while nobody closes. */
struct ffi_member *ffi_member_at(int i);

/* Whether there is room for n more. */
int ffi_members_room(int n);

/* 0, or -1 when the table is full; n members appear at once. */
int ffi_members_add(const struct ffi_member *members, int n);

/* Close all members; returns how many places there are. The caller then waits for each with
 * ffi_member_shut(), gives its handle back, and calls ffi_members_forget(). */
int ffi_members_shut(void);

/* The member in place i, which was shut, when no call holds it any more. */
struct ffi_member *ffi_member_shut(int i);

/* Forget the first n places, unless there are others now. */
void ffi_members_forget(int n);

#endif
