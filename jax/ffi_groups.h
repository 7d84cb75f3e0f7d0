/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffi_groups.h - which handle serves which device of which group, in this process.
 *
 * A group is an ordered list of JAX device ids. Python opens it while a program is lowered; a
 * compiled program names its groups by their ids, and the handler finds the handle of the device it
 * runs on. Entries are only ever added until the process closes all of them, so readers take no
 * lock.
 */
#ifndef ST_FFI_GROUPS_H_
#define ST_FFI_GROUPS_H_

#include <pthread.h>

#include "ffi_ar.h"
#include "ffi_meet.h"

#define ST_GROUP_RANKS 16 /* SYMTUNER_AR_MAX_RANKS */
#define ST_GROUP_SEATS 1024
#define ST_CACHE_LINE  64

/* One device in one group. */
struct st_seat {
    int64_t ids[ST_GROUP_RANKS];
    int ranks, me;
    int ordinal;              /* CUDA device of this process */
    int across;               /* the ranks are in several processes */
    int xla;                  /* they use XLA's communicator, which the first run brings */
    int gpus[ST_GROUP_RANKS]; /* local groups: every rank's CUDA device */
    struct st_meet *meet;     /* shared by a local group; NULL else */
    uint32_t timeout_ms;
    st_handle *handle;         /* xla: NULL before the first run */
    void *comm;                /* NCCL communicator, our own or XLA's; NULL in local groups */
    /* From here on one thread writes at every call, while others look for their seats. */
    _Alignas(ST_CACHE_LINE) pthread_mutex_t lock; /* a handle belongs to one thread at a time */
    struct st_found found;     /* with meet: what this seat looked up last */
    int lost;                  /* 1 + a rank whose process is gone; 0: none */
    int left;                  /* 1 + a rank that has closed the group; 0: none */
    int wake;                  /* eventfd of its watch; 0: not watched */
    void *done;                /* CUDA event after the last call of a group across processes */
    int minor;                 /* of the runtime's FFI API; 0: no call yet */
    uintptr_t address_bits;    /* OR of all buffers' addresses: the lowest bit is their alignment */
    uint64_t calls, zero_copy; /* zero_copy: those that knew all ranks' buffers */
};

/* The seat of device ${ordinal} in the row of ${groups} (rows of ${ranks} ids) that has one, of a
 * group that does or does not use XLA's communicator; NULL: none. */
struct st_seat *st_seat_find(const int64_t *groups, int rows, int ranks, int ordinal, int xla);

/* The i-th seat, or NULL. */
struct st_seat *st_seat_at(int i);

/* 0, or -1 when the table is full; n seats appear at once. */
int st_seats_add(const struct st_seat *seats, int n);

/* Forget all; returns how many there were. The caller has taken the handles over. */
int st_seats_clear(void);

#endif
