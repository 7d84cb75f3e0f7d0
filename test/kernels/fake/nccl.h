/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - a small fake of NCCL. Communicators are the numbers 1, 2, ...; their ranks are 0, 1, ...
 * on GPUs 0, 1, ...
 *
 * One thread may drive all ranks, or each rank may have a thread. A collective call waits for the
 * other ranks, as in NCCL. If it would wait for ever, because a rank is in another collective call
 * or has ended, all ranks get an error and ${hung} is set.
 *
 * If ${polls} is set, the communicators do not block: the results of a call are garbage until
 * ncclCommGetAsyncError has returned ncclInProgress that many times.
 */
#ifndef ST_TEST_FAKE_NCCL_H_
#define ST_TEST_FAKE_NCCL_H_

#include <nccl.h>
#include <stdbool.h>

enum { FAKE_RANKS = 4, FAKE_WINDOWS = 8, FAKE_CARD = 4096 };

struct fake_nccl {
    int ranks;
    int version;          /* 0: 2.29.1                                                   */
    bool one_gpu;         /* all ranks are on one GPU */
    int no_memory;        /* ncclMemAlloc fails on this rank; -1: on none */
    int no_window;        /* ncclCommWindowRegister gives this rank no window */
    bool no_symmetric;    /* no peer access: registering succeeds without a window */
    bool refuses;         /* ncclAllGather and ncclCommWindowRegister fail at once */
    bool refuses_windows; /* only the second of these */
    bool multicast;       /* the box has multicast ... */
    int no_multicast;     /* ... but not for this rank; -1: all ranks have it */
    int asks;             /* calls of ncclGetLsaMultimemDevicePointer */
    bool hung;
    int depth;                       /* groups open now, of all threads */
    int live;                        /* memory and windows not given back */
    int gathers;                     /* gathers so far */
    int reduces;                     /* calls of ncclAllReduce and ncclReduceScatter so far */
    int scatters;                    /* calls of ncclReduceScatter so far */
    int reduce_op;                   /* of the latest of these calls */
    int ops_made, ops_destroyed;     /* operators */
    const char *rule_of[FAKE_RANKS]; /* SYMTUNER_RULE in the process of each rank */
    const char *machine_of_last;     /* "no": the last rank's machine has no multicast */
    int keep, say;                   /* numbers of gathers. keep: store what rank 1 sends; say: send
                                        that instead */
    char said[FAKE_CARD];
    /* communicators with blocking = 0; creating one counts as the first call on it */
    int polls;    /* each call is ncclInProgress this often; 0: calls block */
    int odd_rank; /* on this rank the odd_call-th call ends with odd_end: an error; */
    int odd_call; /* ncclInProgress: it never ends; ncclSuccess: its gather's kernel never ends.
                     Where calls block, that kernel never ends, and odd_end is the async error */
    ncclResult_t odd_end;
    int calls; /* calls on the communicator of odd_rank so far */
    int early; /* calls on a communicator in progress, which breaks it */
};

extern struct fake_nccl fake_nccl;

void fake_nccl_reset(int ranks); /* all fields but said */

/* Run ${body}(rank) in a thread for each rank. A rank has left when ${body} returns. */
void fake_nccl_threads(void (*body)(int rank));

#endif
