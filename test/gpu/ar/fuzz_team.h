/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_team.h - starts the ranks of a test as threads or processes, lets them wait for each other,
 * and ends all if one fails. */
#ifndef AR_FUZZ_TEAM_H_
#define AR_FUZZ_TEAM_H_

#include <nccl.h>
#include <stdatomic.h>

#include "test/gpu/ar/fuzz.h"

enum { MOST_RANKS = 16, LANES = 4, MOST_KERNELS = 32 };

struct team {
    int ranks, apart; /* apart 1: one process per rank; 0: threads */
    atomic_uint arrived, round, failed;
    ncclUniqueId id[2];
    /* hashes of the outputs that each rank has checked since the ranks last compared hashes */
    unsigned long long hash[MOST_RANKS][LANES][FUZZ_RING];
    unsigned long long verified;
    /* number of calls of each kernel, in the order of symtuner_ar_kernel_name() */
    unsigned long long ran[MOST_KERNELS];
};

/* Make the state of a test with ${ranks} ranks, in memory that forked processes share. */
struct team *team_make(int ranks, int apart);

/* Wait for all ranks. Ends this process if one has failed. */
void team_meet(struct team *t);

/* Make communicator ${g} of rank ${me}. Returns NCCL's result. With ${nonblocking} the communicator
 * may still be in progress, so that the library has to wait for it. */
ncclResult_t team_comm(struct team *t, int g, int me, int nonblocking, ncclComm_t *comm_out);

/* Print what is wrong, and end all ranks. */
void team_fail(struct team *t, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Run ${body}(rank) for all ranks, in threads of this process. If ${forked} is set, run it in child
 * processes instead: one for each rank if t->apart is set, else one with a thread for each rank. In
 * this case the caller must not have used CUDA. Returns 0, or 1 if a rank failed or not all ended
 * within ${seconds}. */
int team_run(struct team *t, void (*body)(int rank), int seconds, int forked);

/* Return the number of GPUs. If ${forked} is set, count them in a child process, so that this
 * process can still fork. */
int team_gpus(int forked);

#endif
