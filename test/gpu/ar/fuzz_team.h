/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_team.h - the ranks of one test, threads or processes alike: start, meet, fail together.
 */
#ifndef AR_FUZZ_TEAM_H_
#define AR_FUZZ_TEAM_H_

#include <nccl.h>
#include <stdatomic.h>

#include "test/gpu/ar/fuzz.h"

enum { MOST_RANKS = 16, LANES = 4, MOST_KERNELS = 32 };

struct team {
    int ranks, apart; /* apart: one process per rank */
    atomic_uint arrived, round, failed;
    ncclUniqueId id[2];
    /* what every rank has found since the last meeting */
    unsigned long long hash[MOST_RANKS][LANES][FUZZ_RING];
    unsigned long long verified;
    unsigned long long ran[MOST_KERNELS]; /* of these, by symtuner_ar_kernel_name()'s numbers */
};

/* In memory that forked processes share. */
struct team *team_make(int ranks, int apart);

/* Wait for all ranks; ends this process when one has failed. */
void team_meet(struct team *t);

/* Communicator ${g} of rank ${me}. With ${nonblocking} it may still be in progress, and is left so:
 * the library has to wait. What NCCL answered. */
ncclResult_t team_comm(struct team *t, int g, int me, int nonblocking, ncclComm_t *comm_out);

/* Say what is wrong and end everybody. */
void team_fail(struct team *t, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Run ${body}(rank) on all ranks; with ${forked} the caller must not have used CUDA, without it all
 * are threads of this process. 0: all well, 1: not, or not within ${seconds}. */
int team_run(struct team *t, void (*body)(int rank), int seconds, int forked);

/* GPUs here; ${forked}: found by a child, so that this process stays free to fork. */
int team_gpus(int forked);

#endif
