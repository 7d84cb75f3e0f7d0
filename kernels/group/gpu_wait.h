/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_wait.h - wait until a GPU is idle, up to a time limit.
 *
 * If a peer is gone, our kernels end by themselves, but NCCL's kernels end only after
 * ncclCommAbort. So the host must not wait for the GPU without a limit. CUDA has no wait with a
 * time limit, so a helper thread waits for the GPU, and the caller waits for the thread. When the
 * time is over, the caller goes on, but the thread still waits, in code of this library. So dlclose
 * must not unload the library: kernels.mk links it with -z nodelete.
 */
#ifndef AR_GPU_WAIT_H_
#define AR_GPU_WAIT_H_

#include <cuda_runtime.h>
#include <stdint.h>

/* Wait until ${device} is idle. Returns cudaSuccess, CUDA's error, or cudaErrorNotReady if the GPU
 * is still busy after ${limit_ns}. If no helper thread can be started, waits without a limit. */
cudaError_t ar_gpu_wait(int device, uint64_t limit_ns);

#endif
