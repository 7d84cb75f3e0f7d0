/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - what a test can change in the NCCL of nccl.c, and what it can see there. If all members
 * of whole_nccl are 0, as in libnccl.so.2, every call works at full speed.
 */
#ifndef TEST_WHOLE_NCCL_H_
#define TEST_WHOLE_NCCL_H_

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

enum { WHOLE_RANKS = 24 };

enum whole_kind {
    WHOLE_ALL_REDUCE,
    WHOLE_REDUCE_SCATTER,
    WHOLE_ALL_GATHER,
    WHOLE_WINDOW,
    WHOLE_SPLIT
};

/* A collective call of one rank. */
struct whole_call {
    enum whole_kind kind;
    int ranks; /* number of ranks of the communicator */
    int world; /* the rank's number in the communicator from which this one was split */
    const void *send, *recv;
    size_t bytes;
    cudaStream_t stream;
};

struct whole_nccl {
    int limit_s;    /* seconds that a rank waits for the others; 0: 100 */
    int lag_us;     /* microseconds by which each collective starts late on its stream */
    bool unblocked; /* ncclGroupEnd returns ncclInProgress, as for non-blocking communicators */
    /* Called when a collective goes to its stream. If it returns false, the collective waits for
     * the other ranks, but moves no values. */
    bool (*collective)(const struct whole_call *call);
    /* Called before a collective goes to its stream. If it returns true, the call fails, and the
     * other ranks wait for it. */
    bool (*refuse)(const struct whole_call *call);
    /* Called at the ${number}-th split of this rank, counted from 1. If it returns an error, so
     * does the split, and the rank gets no communicator. */
    ncclResult_t (*split)(int world, int number, const ncclConfig_t *config);
    /* Called when ranks make a window. If it returns false, this rank gets none. */
    bool (*window)(int world);
    _Atomic bool hung; /* a rank did not come, or made another call; then all calls fail */
    int live;  /* number of communicators, allocations and windows that were not given back */
};

extern struct whole_nccl whole_nccl;

/* Return how many collectives ran, counted once for each rank. */
long whole_nccl_ran(void);

#endif
