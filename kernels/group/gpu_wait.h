/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_wait.h - wait until a GPU is idle, up to a time limit.
 *
 * Our kernels end by themselves when a peer is gone; NCCL's end only when its communicator is
 * aborted. CUDA has no timed wait, so a helper thread waits and is abandoned on timeout. Because
 * that thread may live on, the library is linked so that dlclose does not unload it (kernels.mk).
 */
#ifndef AR_GPU_WAIT_H_
#define AR_GPU_WAIT_H_

#include <cuda_runtime.h>
#include <stdint.h>

/* Wait until ${device} is idle. Returns cudaSuccess, CUDA's error, or cudaErrorNotReady if it is
 * still busy after ${limit_ns}. */
cudaError_t ar_gpu_wait(int device, uint64_t limit_ns);

#endif
