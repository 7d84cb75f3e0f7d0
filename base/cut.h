/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut.h - how a message is cut into pieces when an all-reduce over several machines (boxes) first
 * adds up in each box (docs/nodes.md).
 *
 * A piece has one part for each rank of a box, and that rank adds up the part. Every part is a
 * number of whole 16-byte words. What remains after the last piece is less than a word per rank.
 * libsymtuner_ar.so runs the pieces, and libsymtuner_nccl.so counts them for the ledger.
 *
 * The functions are pure.
 */
#ifndef ST_CUT_H_
#define ST_CUT_H_

#include <stdint.h>

enum { ST_CUT_WORD = 16 }; /* bytes */

struct st_cut {
    uint64_t words; /* words that one rank of a box adds up, in all pieces together */
    int pieces, ranks;
};

/* Cut ${bytes} for ${ranks} ranks of a box into at most ${pieces} pieces. */
static inline struct st_cut st_cut(uint64_t bytes, int ranks, int pieces)
{
    struct st_cut cut = {bytes / ST_CUT_WORD / (uint64_t)ranks, pieces, ranks};

    if (cut.words < (uint64_t)pieces)
        cut.pieces = (int)cut.words;
    return cut;
}

/* Return at which byte ${piece} starts. If ${piece} is cut->pieces, return where the last piece
 * ends. */
static inline uint64_t st_cut_start(const struct st_cut *cut, int piece)
{
    return cut->pieces == 0 ? 0
                            : cut->words * (uint64_t)piece / (uint64_t)cut->pieces *
                                  (uint64_t)cut->ranks * ST_CUT_WORD;
}

/* Return the bytes of each part of ${piece}. */
static inline uint64_t st_cut_part(const struct st_cut *cut, int piece)
{
    return (st_cut_start(cut, piece + 1) - st_cut_start(cut, piece)) / (uint64_t)cut->ranks;
}

#endif
