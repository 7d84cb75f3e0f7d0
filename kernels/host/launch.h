/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - find the kernel for a piece of a call and fill its arguments; run a piece by copies. */
#ifndef AR_LAUNCH_H_
#define AR_LAUNCH_H_

#include "kernels/group/handle.h"

/* Fill the fields of ${args} that do not depend on the call. */
void ar_args_start(const symtuner_ar *h, struct ar_args *args);

/* The kernel for a piece, NULL when there is none. Reads ranks, bytes and alignments of ${args}. */
const void *ar_kernel_find(int family, int reducer, const struct ar_args *args);

/* Load every kernel now: lazy loading while a peer's kernel spins would deadlock one-GPU groups,
 * and must not happen inside a stream capture. ${arch}: what they were compiled for, 90: sm_90. */
cudaError_t ar_kernels_load(int *arch);

/* One piece by copy engines (kernels/host/copy.c). In a graph the guard goes in front: copies of a graph that
 * outlives the handle must not run. */
ncclResult_t ar_copy_guard(symtuner_ar *h, cudaStream_t stream);
ncclResult_t ar_copy_run(symtuner_ar *h, const struct ar_args *args, const void *kernel, int ctas,
                         int threads, cudaStream_t stream);

#endif
