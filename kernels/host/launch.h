/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - find the kernel for a piece of a call and fill its arguments, or run it by copies. */
#ifndef AR_LAUNCH_H_
#define AR_LAUNCH_H_

#include "kernels/group/handle.h"

/* Clear ${args} and fill the fields that do not depend on the call. ${arena}: enum ar_arena_kind. */
void ar_args_start(const symtuner_ar *h, int arena, struct ar_args *args);

/* Return the kernel that runs a piece of a call, NULL if there is none. Reads only the fields
 * ranks, bytes, in_align and out_align of ${args}. */
const void *ar_kernel_find(int family, int reducer, const struct ar_args *args);

/* Load every kernel now. Loading one later, while a peer's kernel spins, would deadlock ranks that
 * share a GPU, and is not allowed in a stream capture. *arch: what they were compiled for, 90 for
 * sm_90. */
cudaError_t ar_kernels_load(int *arch, bool *tma);

/* ar_copy_run runs one piece by copy engines (copy.c). In a stream capture call ar_copy_guard
 * before it: if the graph outlives the handle, the guard's kernel stops it before any copy runs. */
ncclResult_t ar_copy_guard(symtuner_ar *h, cudaStream_t stream);
ncclResult_t ar_copy_run(symtuner_ar *h, const struct ar_args *args, const void *kernel, int ctas,
                         int threads, cudaStream_t stream);

#endif
