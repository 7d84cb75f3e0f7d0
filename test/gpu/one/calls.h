/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h - what the parts of calls.c share. */
#ifndef TEST_GPU_ONE_CALLS_H_
#define TEST_GPU_ONE_CALLS_H_

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/must.h"

enum { MAX_RANKS = 8 };

/* What all ranks share, in shared memory. */
struct job {
    int ranks;
    int colours; /* 0: no communicator is split */
    int box;     /* how many ranks NCCL takes for one machine; 0: all */
    int only;    /* number of the only collective (kind_named()); -1: all collectives */
    long seed, calls, rounds, aborts, comms, kills;
    long windows; /* 1: random calls use buffers that are registered as windows */
    size_t most; /* bytes of the longest message */
    int victim;  /* the rank that is killed, or -1 */
    _Atomic int died;
    double ended[MAX_RANKS]; /* by rank: seconds from the abort until the rank's calls had ended */
    pthread_barrier_t all;
    ncclUniqueId id;
};

extern struct job *job;

/* One rank, which is a process. */
struct rank {
    int rank;
    long made; /* number of calls that were checked */
};

/* Collective: make a communicator of all ranks. */
ncclComm_t join(const struct rank *r);

/* All ranks run each of these functions. A function ends the program if something is wrong. */
void random_calls(struct rank *r); /* job->calls random calls                                    */
void opposite_calls(
    struct rank *r);                /* job->rounds calls of two communicators, in opposite order  */
void aborted_calls(struct rank *r); /* job->aborts calls that only rank 0 makes                   */
void many_comms(struct rank *r);    /* job->comms communicators, one after the other              */
void killed_call(struct rank *r);   /* job->victim is killed, and the others abort                */

/* Return the number of the collective ${name}, such as "all-reduce". Returns -1 if there is no such
 * collective. */
int kind_named(const char *name);

#endif
