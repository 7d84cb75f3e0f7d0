/* SPDX-License-Identifier: Apache-2.0 */
/* engines.h - collectives in which the copy engines move data. In the all-gather only one small
 * kernel runs on multiprocessors. In the all-reduce a kernel with TMA first adds up, and then the
 * copy engines gather the sums. */
#ifndef AR_ENGINES_H_
#define AR_ENGINES_H_

#include "kernels/group/handle.h"

/* Run one piece of an all-gather. ${kernel} is the kernel watch of
 * kernels/device/halves/engines.cu. If ${mapped}, the peers can read send. Otherwise the piece is
 * first copied to this rank's gather slot, which must have room for args->bytes. */
ncclResult_t ar_engines_gather(symtuner_ar *h, const struct ar_args *args, const void *kernel,
                               bool mapped, cudaStream_t stream);

/* The kernel that adds up the shard of this rank, and how to launch it. */
struct ar_engines_adder {
    const void *kernel; /* the kernel of a reduce-scatter (kernels/device/halves/tma.cu) */
    int ctas, threads;
    int shared; /* bytes of dynamic shared memory per block */
};

/* Run one piece of an all-reduce. Its length must be a multiple of 16 bytes, and the peers must be
 * able to read send and recv. ${watch} is the kernel watch. */
ncclResult_t ar_engines_reduce(symtuner_ar *h, const struct ar_args *args,
                               const struct ar_engines_adder *adder, const void *watch,
                               cudaStream_t stream);

/* Free the streams and events that the calls of ${h} have made. */
void ar_engines_free(symtuner_ar *h);

#endif
