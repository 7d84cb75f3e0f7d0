/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coll.h - the collectives.
 *
 * A message of reduce-scatter and of all-gather has one part per rank, all of the same length: the
 * part of rank r begins at r times that length. The two collectives are the halves of an
 * all-reduce: the reduce-scatter adds up one part on each rank, and the all-gather sends each part
 * to all ranks.
 */
#ifndef AR_COLL_H_
#define AR_COLL_H_

enum ar_coll { AR_ALL_REDUCE, AR_REDUCE_SCATTER, AR_ALL_GATHER, AR_COLLS };

/* Return how many parts a message has: one in an all-reduce, else one per rank. */
static inline int ar_coll_parts(int coll, int ranks)
{
    return coll == AR_ALL_REDUCE ? 1 : ranks;
}

#endif
