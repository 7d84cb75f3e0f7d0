/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.h - what one rank needs to exchange data with the other ranks of its communicator. */
#ifndef AR_ENDPOINT_H_
#define AR_ENDPOINT_H_

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define AR_WHY 200 /* bytes of a text that says why something failed */

/* Print the reason of a failure into ${text}, and return ${result}. */
static inline ncclResult_t __attribute__((format(printf, 4, 5)))
ar_why(char *text, size_t size, ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    return result;
}

/* Made before anything else, so that a rank that fails later can still tell the other ranks. */
struct ar_endpoint {
    ncclComm_t comm;
    int device, ranks;
    cudaStream_t stream;
    char *memory; /* what this rank sends, then what all ranks sent; NULL: none yet */
    void *heard;  /* on the host: room for a card of each rank */
    bool on_host; /* ${memory} is pinned host memory: the GPU has none left */
    uint64_t limit_ns; /* of waits for other ranks (nccl_wait.h) */
    /* for nonblocking communicators */
    bool threaded; /* the communicator is nonblocking: after an error it refuses every call */
    const uint32_t *abort;  /* the host's abort word; NULL: none yet */
    ncclWindow_t window;    /* NCCL's thread writes the new window here */
    char timed_out[AR_WHY]; /* which NCCL call timed out; empty: none */
};

#endif
