/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - a small fake of NCCL. Communicators are the numbers 1, 2, ...; their ranks are 0, 1, ...
 * on GPUs 0, 1, ...
 *
 * One thread may drive all ranks, or each rank may have a thread. A collective call waits for the
 * other ranks, as in NCCL. If a rank is in another collective call or has ended, the call would
 * wait for ever. Then all ranks get an error, and ${hung} is set.
 *
 * If ${polls} is set, the communicators do not block: ncclCommGetAsyncError returns ncclInProgress
 * that many times before a call ends, and until then the results of the call are garbage.
 */
#ifndef ST_TEST_FAKE_NCCL_H_
#define ST_TEST_FAKE_NCCL_H_

#include <nccl.h>
#include <stdbool.h>

enum { FAKE_RANKS = 4, FAKE_WINDOWS = 8, FAKE_CARD = 4096 };

struct fake_nccl {
    int ranks;
    int version;          /* release of NCCL; 0: 2.29.1 */
    bool one_gpu;         /* all ranks are on one GPU */
    int no_memory;        /* ncclMemAlloc fails on this rank; -1: on none */
    int no_window;        /* ncclCommWindowRegister gives this rank no window; -1: each rank gets
                             one */
    bool no_symmetric;    /* no peer access: registering succeeds, but gives no window */
    bool refuses;         /* ncclAllGather and ncclCommWindowRegister fail at once */
    bool refuses_windows; /* only ncclCommWindowRegister fails at once */
    bool multicast;       /* the machine has multicast */
    int no_multicast;     /* the rank that has no multicast; -1: all ranks have it */
    int asks;             /* number of calls of ncclGetLsaMultimemDevicePointer */
    bool hung;
    int depth; /* number of groups that are open now, in all threads */
    /* number of allocations and windows that were not given back */
    int live;
    size_t allocated[FAKE_RANKS]; /* bytes that ncclMemAlloc gave each GPU so far */
    int gathers;                  /* number of calls of ncclAllGather that have run */
    /* number of calls of ncclAllReduce and ncclReduceScatter so far */
    int reduces;
    int scatters;  /* number of calls of ncclReduceScatter so far */
    int reduce_op; /* the operator of the latest call that reduces */
    /* numbers of operators that were created, and that were destroyed */
    int ops_made, ops_destroyed;
    const char *rule_of[FAKE_RANKS]; /* SYMTUNER_RULE in the process of each rank */
    const char *machine_of_last;     /* "no": the last rank's machine has no multicast */
    int keep, say;                   /* numbers of all-gathers. In all-gather ${keep}, what rank 1
                                        sends is stored. In all-gather ${say}, rank 1 sends the
                                        stored data. */
    char said[FAKE_CARD];
    /* How call odd_call on odd_rank ends. Creating a communicator with blocking = 0 is call 1.
     *   an error        the call ends with it
     *   ncclInProgress  the call never ends
     *   ncclSuccess     the call ends well, but the kernel of its all-gather never ends
     * If ${polls} is 0, call odd_call must be an all-gather. Its kernel never ends, and
     * ncclCommGetAsyncError returns odd_end. */
    int polls; /* how often ncclInProgress is returned for each call; 0: calls block */
    int odd_rank;
    int odd_call;
    ncclResult_t odd_end;
    int calls; /* number of calls on the communicator of odd_rank so far */
    int early; /* number of calls on a communicator in progress, which break it */
};

extern struct fake_nccl fake_nccl;

void fake_nccl_reset(int ranks); /* clears all fields except ${said} */

/* Run ${body}(rank) in a thread for each rank. Once its ${body} has returned, a rank makes no more
 * calls. */
void fake_nccl_threads(void (*body)(int rank));

#endif
