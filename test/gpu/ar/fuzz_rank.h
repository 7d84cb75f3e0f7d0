/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rank.h - one rank of ar_fuzz: its state, its random numbers, and its errors. */
#ifndef AR_FUZZ_RANK_H_
#define AR_FUZZ_RANK_H_

#include <cuda_runtime.h>

#include "test/gpu/ar/fuzz_options.h"
#include "test/gpu/ar/fuzz_team.h"
#include "symtuner_ar.h"

enum { GRAPHS = 4, NOTES = 1 << 14, TYPES = 12 };
#define LANE_BYTES ((size_t)68 << 20)

extern struct team *team;

struct rank {
    int me;
    ncclComm_t comm[2];
    symtuner_ar *handle[2];
    ncclRedOp_t premul[2][TYPES];   /* [group][type]: the operator of FUZZ_PREMUL */
    void *weights;                  /* [type]: this rank's weight, 8 bytes each, in device memory */
    unsigned long long common, own; /* states of fuzz_draw(): common is the same on all ranks */
    char *buffer[2][2];             /* [plain, registered][send, recv] */
    struct fuzz_lane *lane[LANES];
    unsigned long long seen[LANES];
    struct fuzz_record *record[LANES];
    cudaStream_t stream[LANES], aside;
    cudaEvent_t event;
    cudaGraphExec_t graph[GRAPHS];
    int graph_calls[GRAPHS];
    unsigned tag;
    long issued;
    char note[NOTES][128]; /* [tag % NOTES]: description of the call with this tag */
    /* [tag % NOTES]: the kernel's number for symtuner_ar_kernel_name() */
    unsigned char kernel[NOTES];
};

/* [plain, registered][send, recv][rank]: the buffers of all ranks. Used only if the ranks are
 * threads of one process. */
extern char *buffer_of[2][2][MOST_RANKS];

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t e_ = (cudaError_t)(call);                                                      \
        if (e_ != cudaSuccess)                                                                     \
            team_fail(team, "rank %d: %s: %s", r->me, #call, cudaGetErrorString(e_));              \
    } while (0)
#define NCCL(call)                                                                                 \
    do {                                                                                           \
        ncclResult_t e_ = (call);                                                                  \
        if (e_ != ncclSuccess)                                                                     \
            team_fail(team, "rank %d: %s: %s", r->me, #call, ncclGetErrorString(e_));              \
    } while (0)
#define AR(call, handle)                                                                           \
    do {                                                                                           \
        if ((call) != ncclSuccess)                                                                 \
            team_fail(team, "rank %d: %s: %s", r->me, #call, symtuner_ar_error(handle));           \
    } while (0)

/* Draw a random number below ${below}. ${state} is the common or the own state of a rank. */
unsigned fuzz_draw(unsigned long long *state, unsigned below);

/* Launch a random call, or up to four in a row, on stream number ${lane}, together with the kernels
 * that check them. ${captured}: the stream is being captured. ${bounded}: use few blocks. Returns
 * the number of calls. */
int fuzz_call_some(struct rank *r, int lane, int captured, int bounded);

#endif
