/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - makes struct ar_ask: it describes a call, for which ar_select then chooses a kernel.
 * Comments and tests call it a question. */
#ifndef ST_TEST_AR_ASK_H_
#define ST_TEST_AR_ASK_H_

#include <string.h>

#include "kernels/choose/select.h"

static const struct ar_force free_choice = {.family = -1};

/* Describe a call with both buffers registered, without a communicator. The GPUs have 132
 * multiprocessors, and nothing else runs on them. */
static inline struct ar_ask ask_for(int ranks, int links, uint64_t bytes, int dtype, int op)
{
    struct ar_ask ask = {.bytes = bytes,
                         .ranks = ranks,
                         .links = links,
                         .dtype = dtype,
                         .op = op,
                         .dst_mapped = 1,
                         .src_mapped = 1,
                         .registered = 1,
                         .has_copy = links != AR_LINKS_HOST,
                         .has_tma = 1,
                         .max_ctas = 132,
                         .beside = AR_BESIDE_NOTHING};
    uint64_t half[AR_REGIONS] = {1 << 19, 16 << 20, 32 << 20, 256 << 20, 64 << 20};

    if (links == AR_LINKS_HOST)
        half[AR_REGION_LL128] = half[AR_REGION_BULK] = half[AR_REGION_GATHER] = 0;
    memcpy(ask.half, half, sizeof half);
    return ask;
}

#endif
