/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - find the kernel for a piece of a call, fill its arguments; or run it by copies. */
#ifndef AR_LAUNCH_H_
#define AR_LAUNCH_H_

#include "kernels/group/handle.h"

/* Clear ${args} and fill the fields that do not depend on the call. */
void ar_args_start(const symtuner_ar *h, struct ar_args *args);

/* The kernel for a piece, NULL if there is none. Reads ranks, bytes and alignments of ${args}. */
const void *ar_kernel_find(int family, int reducer, const struct ar_args *args);

/* Load every kernel now. Loading one later, while a peer's kernel spins, would deadlock ranks that
 * share a GPU, and is not allowed in a stream capture. ${arch}: compiled for it; 90: sm_90. */
cudaError_t ar_kernels_load(int *arch);

/* Run one piece by copy engines (copy.c). In a graph call the guard first: it stops a graph that
 * outlives the handle before any copy runs. */
ncclResult_t ar_copy_guard(symtuner_ar *h, cudaStream_t stream);
ncclResult_t ar_copy_run(symtuner_ar *h, const struct ar_args *args, const void *kernel, int ctas,
                         int threads, cudaStream_t stream);

#endif
