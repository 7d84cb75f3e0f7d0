/* SPDX-License-Identifier: Apache-2.0 */
/* scratch_bytes.h - computes how much scratch a message needs. It does not use the library's own
 * calculation, so that the tests can compare the two. */
#ifndef TEST_KERNELS_SCRATCH_BYTES_H_
#define TEST_KERNELS_SCRATCH_BYTES_H_

#include "kernels/shared/layout.h"

/* Return the bytes of one half of scratch. One-shot has one slot per rank; two-shot has one slot
 * per rank and hop. */
static inline uint64_t oneshot_scratch(int form, uint64_t bytes, int ranks)
{
    return ar_round_up(ar_words(form, bytes), AR_LINE) * AR_WORD * (uint64_t)ranks;
}

static inline uint64_t twoshot_scratch(int form, uint64_t bytes, int ranks)
{
    return ar_words(form, ar_shard_stride(form, bytes, ranks)) * AR_WORD * 2 * (uint64_t)ranks;
}

/* Return the bytes of the slots of chunked and of copy, which move plain 16-byte words. */
static inline uint64_t bulk_scratch(uint64_t bytes, int ranks)
{
    return ar_shard_stride(AR_LAMPORT, bytes, ranks) * (uint64_t)ranks;
}

#endif
