/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h - what the parts of calls.c share. */
#ifndef TEST_GPU_ONE_CALLS_H_
#define TEST_GPU_ONE_CALLS_H_

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/must.h"

enum { MAX_RANKS = 8 };

/* In memory that all ranks share. */
struct job {
    int ranks;
    int colours; /* 0: no communicator is split */
    int only;    /* the kind_named() collective, or -1: all */
    long seed, calls, rounds, aborts, comms, kills;
    size_t most; /* bytes of the longest message */
    int victim;  /* the rank that is killed, or -1 */
    _Atomic int died;
    double ended[MAX_RANKS]; /* seconds that the abort took, by rank */
    pthread_barrier_t all;
    ncclUniqueId id;
};

extern struct job *job;

/* One rank, which is a process. */
struct rank {
    int rank;
    long made; /* calls checked */
};

/* Collective: make a communicator of all ranks. */
ncclComm_t join(const struct rank *r);

/* Each is run by all ranks, and ends the program if something is wrong. */
void random_calls(struct rank *r); /* job->calls random calls                                    */
void opposite_calls(
    struct rank *r);                /* job->rounds calls of two communicators, in opposite order  */
void aborted_calls(struct rank *r); /* job->aborts calls that only rank 0 makes                   */
void many_comms(struct rank *r);    /* job->comms communicators, one after the other              */
void killed_call(struct rank *r);   /* job->victim is killed, and the others abort                */

/* Return the number of the collective ${name}, as "all-reduce", or -1. */
int kind_named(const char *name);

#endif
