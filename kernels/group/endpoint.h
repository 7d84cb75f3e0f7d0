/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.h - one rank's end of the communicator, over which the ranks talk between calls. */
#ifndef AR_ENDPOINT_H_
#define AR_ENDPOINT_H_

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

#define AR_WHY 200 /* bytes of a sentence */

/* What one rank needs to meet the others; made first, so that nothing later keeps it away. */
struct ar_endpoint {
    ncclComm_t comm;
    int device, ranks;
    cudaStream_t stream;
    char *memory; /* what this rank says, then what all said; NULL: none */
    bool on_host; /* the GPU is full to the last page */
    /* of a communicator that does not block (nccl_wait.h) */
    bool threaded; /* it is one: a rank that failed cannot come to the next meeting */
    uint64_t limit_ns;
    const uint32_t *abort;  /* the host's abort word; NULL: none yet */
    ncclWindow_t window;    /* where NCCL's thread writes the window that is being made */
    char timed_out[AR_WHY]; /* what NCCL did not end in time; empty: nothing */
};

#endif
