/* SPDX-License-Identifier: Apache-2.0 */
/* engines.h - all-gather by the copy engines. Only one small kernel runs on multiprocessors. */
#ifndef AR_ENGINES_H_
#define AR_ENGINES_H_

#include "kernels/group/handle.h"

/* Run one piece of an all-gather. ${kernel} is the kernel watch of
 * kernels/device/halves/engines.cu. If ${mapped}, the peers can read send. Otherwise the piece is
 * first copied to this rank's gather slot, which must have room for args->bytes. */
ncclResult_t ar_engines_gather(symtuner_ar *h, const struct ar_args *args, const void *kernel,
                               bool mapped, cudaStream_t stream);

/* Free the streams and events that the calls of ${h} have made. */
void ar_engines_free(symtuner_ar *h);

#endif
