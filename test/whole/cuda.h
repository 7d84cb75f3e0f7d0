/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - what the CUDA runtime on the CPU (cuda.c) offers to tests besides CUDA's own API. */
#ifndef TEST_WHOLE_CUDA_H_
#define TEST_WHOLE_CUDA_H_

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a test can change in the runtime, and see there. All members are 0 at first. */
extern struct whole_cuda {
    size_t fills;  /* a fill writes only so many bytes; 0: all */
    int no_copies; /* 1: copies between GPUs move nothing */
    /* How often a thread has made a call that CUDA prohibits as long as another thread captures: in
     * any capture mode but relaxed, it may neither wait for the GPU nor allocate memory. */
    int prohibited;
} whole_cuda;

/* Put a call of ${host} into the stream. Its argument points to a copy of the ${size} bytes at
 * ${what}, at most 256. */
cudaError_t whole_host(cudaStream_t stream, void (*host)(void *what), const void *what,
                       size_t size);

#ifdef __cplusplus
}
#endif

#endif
