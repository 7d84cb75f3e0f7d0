/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - what the CUDA runtime on the CPU (cuda.c) offers to tests besides CUDA's own API. */
#ifndef TEST_WHOLE_CUDA_H_
#define TEST_WHOLE_CUDA_H_

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Put a call of ${host} into the stream. Its argument points to a copy of the ${size} bytes at
 * ${what}, at most 256. */
cudaError_t whole_host(cudaStream_t stream, void (*host)(void *what), const void *what,
                       size_t size);

#ifdef __cplusplus
}
#endif

#endif
