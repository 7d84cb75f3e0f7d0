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

/* Write the reason of a failure to ${text}, and return ${result}. */
static inline ncclResult_t __attribute__((format(printf, 4, 5)))
ar_why(char *text, size_t size, ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    return result;
}

/* A rank makes its endpoint first, so that it can tell the other ranks if a later step fails. */
struct ar_endpoint {
    ncclComm_t comm;
    int device, ranks;
    cudaStream_t stream;
    char *memory;      /* what this rank sends, then what all ranks sent; NULL: not allocated yet */
    void *received;    /* host memory for what all ranks sent, AR_INFO_BYTES for each rank */
    bool on_host;      /* ${memory} is pinned host memory, because GPU memory was short */
    uint64_t limit_ns; /* time limit of waits for other ranks (nccl_wait.h) */
    uint64_t number;   /* nearly unique; shows which endpoints are of one group (${stranger}) */
    bool stranger;     /* it is of another group of ranks than this thread's first endpoint */
    /* The fields below are for waits that may end early, mostly on nonblocking communicators. */
    bool threaded;          /* the communicator is nonblocking, and refuses calls after an error */
    const uint32_t *abort;  /* symtuner_ar_abort sets this word; NULL: there is none yet */
    ncclWindow_t window;    /* NCCL's thread writes a new window here */
    char timed_out[AR_WHY]; /* error message about the NCCL call that timed out; empty: none did */
};

#endif
