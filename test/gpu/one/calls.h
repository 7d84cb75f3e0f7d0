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
    long seed, calls, rounds, aborts, comms;
    size_t most; /* bytes of the longest message */
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

#endif
