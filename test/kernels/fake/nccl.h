/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - an NCCL of two pages: communicators 1, 2, ... of ranks 0, 1, ... on GPUs 0, 1, ...
 *
 * One thread may drive them all, or each rank a thread of its own. A collective call waits for the
 * other ranks, as NCCL's do. When it would do so for ever (a rank is in another collective call, or
 * has left) every rank gets an error and ${hung} says so.
 *
 * With ${polls} the communicators do not block: what a call writes is garbage until
 * ncclCommGetAsyncError has said ncclInProgress that often.
 */
#ifndef ST_TEST_FAKE_NCCL_H_
#define ST_TEST_FAKE_NCCL_H_

#include <nccl.h>
#include <stdbool.h>

enum { FAKE_RANKS = 4, FAKE_WINDOWS = 8, FAKE_CARD = 4096 };

struct fake_nccl {
    int ranks;
    int version;          /* 0: 2.29.1                                                   */
    bool one_gpu;         /* the ranks share                                             */
    int no_memory;        /* ncclMemAlloc fails on this rank; -1: on none               */
    int no_window;        /* ncclCommWindowRegister comes to nothing on this rank       */
    bool no_symmetric;    /* no peer access: success without a window                   */
    bool refuses;         /* ncclAllGather, ncclCommWindowRegister fail at once         */
    bool refuses_windows; /* ... the second only                                     */
    bool multicast;       /* the box has it ...                                      */
    int no_multicast;     /* ... but for this rank; -1: for all                        */
    int asks;             /* ncclGetLsaMultimemDevicePointer so far                     */
    bool hung;
    int depth;                       /* of ncclGroupStart, all threads                            */
    int live;                        /* memory and windows that nobody gave back                  */
    int gathers;                     /* collective calls so far                                   */
    int reduces;                     /* ncclAllReduce so far                                      */
    const char *rule_of[FAKE_RANKS]; /* what SYMTUNER_RULE holds in the process of each rank */
    const char *machine_of_last;     /* "no": the last rank's has no multicast */
    int keep, say;                   /* the n-th gather: keep what rank 1 says; say that instead */
    char said[FAKE_CARD];
    /* communicators with blocking = 0; their creation is the first call on them */
    int polls;    /* ncclInProgress that often on each call; 0: they block */
    int odd_rank; /* on this rank the odd_call-th call ends in odd_end: an error, for good, ... */
    int odd_call; /* ... ncclInProgress: never, ncclSuccess: a gather's kernel never ends */
    ncclResult_t odd_end;
    int calls; /* on communicator odd_rank so far */
    int early; /* calls on a communicator in progress, which NCCL does not forgive */
};

extern struct fake_nccl fake_nccl;

void fake_nccl_reset(int ranks); /* keeps said */

/* ${body}(rank) in a thread for each rank; it leaves when ${body} returns. */
void fake_nccl_threads(void (*body)(int rank));

#endif
