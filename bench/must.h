/* SPDX-License-Identifier: Apache-2.0 */
/* must.h - CUDA and NCCL calls that end the program if they fail. */
#ifndef BENCH_MUST_H_
#define BENCH_MUST_H_

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST_(type, good, text, call)                                                              \
    do {                                                                                           \
        type e_ = (call);                                                                          \
        if (e_ != good) {                                                                          \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text(e_));               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CUDA(call) MUST_(cudaError_t, cudaSuccess, cudaGetErrorString, call)
#define NCCL(call) MUST_(ncclResult_t, ncclSuccess, ncclGetErrorString, call)

#endif
