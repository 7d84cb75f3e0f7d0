/* SPDX-License-Identifier: Apache-2.0 */
/* scratch_bytes.h - computes how much scratch memory a call needs. It does not use the library's
 * own calculation, so that the tests can compare the two. */
#ifndef TEST_KERNELS_SCRATCH_BYTES_H_
#define TEST_KERNELS_SCRATCH_BYTES_H_

#include "kernels/shared/layout.h"

/* Return the number of bytes in one of the two halves of the scratch memory. The one-shot kernels
 * have one slot for each rank. The two-shot kernels have two slots for each rank: one for the
 * reduce-scatter, and one for the all-gather. */
static inline uint64_t oneshot_scratch(int form, uint64_t bytes, int ranks)
{
    return ar_round_up(ar_words(form, bytes), AR_LINE) * AR_WORD * (uint64_t)ranks;
}

static inline uint64_t twoshot_scratch(int form, uint64_t bytes, int ranks)
{
    return ar_words(form, ar_shard_stride(form, bytes, ranks)) * AR_WORD * 2 * (uint64_t)ranks;
}

/* Return the number of bytes in the slots of the kernels "chunked" and "copy", which move plain
 * 16-byte words. */
static inline uint64_t bulk_scratch(uint64_t bytes, int ranks)
{
    return ar_shard_stride(AR_LAMPORT, bytes, ranks) * (uint64_t)ranks;
}

#endif
