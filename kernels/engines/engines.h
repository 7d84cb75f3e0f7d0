/* SPDX-License-Identifier: Apache-2.0 */
/* engines.h - all-gather by the copy engines, which takes no multiprocessor. */
#ifndef AR_ENGINES_H_
#define AR_ENGINES_H_

#include "kernels/group/handle.h"

/* Run one piece of an all-gather. ${kernel}: that of kernels/device/halves/engines.cu. ${mapped}: the
 * peers can read send; else it goes through this rank's gather slot, of args->bytes at most. */
ncclResult_t ar_engines_gather(symtuner_ar *h, const struct ar_args *args, const void *kernel,
                               bool mapped, cudaStream_t stream);

/* Free what the calls of ${h} have made. */
void ar_engines_free(symtuner_ar *h);

#endif
