/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_wait.h - wait until a GPU is idle, but not for ever.
 *
 * Our kernels leave by themselves when a peer is gone, NCCL's only when somebody aborts its
 * communicator. CUDA has no wait with a limit, so a thread waits, and is left to it after that;
 * for its sake the library is linked so that dlclose leaves it in memory (kernels/kernels.mk).
 */
#ifndef AR_GPU_WAIT_H_
#define AR_GPU_WAIT_H_

#include <cuda_runtime.h>
#include <stdint.h>

/* cudaSuccess, CUDA's error, or cudaErrorNotReady when ${device} is not idle within ${limit_ns}. */
cudaError_t ar_gpu_wait(int device, uint64_t limit_ns);

#endif
