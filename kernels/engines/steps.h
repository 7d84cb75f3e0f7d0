/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - the steps of a call by the copy engines: copies, flags, streams, and the kernel watch.
 * Pass the error of a step to AR_TRY. */
#ifndef AR_STEPS_H_
#define AR_STEPS_H_

#include "kernels/engines/memops.h"
#include "kernels/group/handle.h"

struct ar_engines {
    struct ar_side *sides[AR_MAX_RANKS]; /* [r]: for copies from rank r; [me]: for kernel watch */
    cudaStream_t stream[AR_MAX_RANKS];   /* [r]: the stream of sides[r] that this call uses */
    cudaEvent_t begin, end[AR_MAX_RANKS];
    struct ar_memops ops;
    bool has_ops;
};

/* Make h->engines if it is not there yet, and find the streams for a call. ${capture} is the id of
 * the capture that the call is in; 0: no capture. */
ncclResult_t ar_step_prepare(symtuner_ar *h, unsigned long long capture);

/* Return the address of the flag that rank ${writer} sets in the scratch of rank ${owner}. ${row}
 * is an enum ar_engine_row (kernels/shared/layout.h). In a row the flags of the owner's peers come
 * first, and the flag that the owner sets itself is the last one. */
char *ar_step_flag(const struct ar_args *a, int owner, int row, int writer);

cudaError_t ar_step_copy(void *to, const void *from, uint64_t bytes, cudaStream_t stream);

/* Set this rank's flag of ${row} at rank ${owner}. */
cudaError_t ar_step_raise(const struct ar_args *a, int owner, int row, cudaStream_t stream);

/* Copy ${bytes} from a buffer of rank ${r}, and then set FETCHED at that rank. */
cudaError_t ar_step_fetch(const struct ar_args *a, int r, char *to, const char *from,
                          uint64_t bytes, cudaStream_t stream);

/* Make the stream ${next} wait for all work that was submitted to the stream ${before} so far. Uses
 * ${event} for this. */
cudaError_t ar_step_follow(cudaStream_t next, cudaStream_t before, cudaEvent_t event);

/* Launch the kernel watch (kernels/device/halves/engines.cu) for the first ${flags} flags of
 * ${row} in this rank's scratch. With 0 flags, watch only checks whether the handle was
 * destroyed. */
cudaError_t ar_step_watch(const struct ar_args *call, const void *kernel, int flags, int row,
                          cudaStream_t stream);

#endif
