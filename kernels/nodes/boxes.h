/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes.h - how the ranks of a communicator are distributed over boxes, and whether they can add up
 * box by box.
 *
 * Pure: every rank computes it from the same cards, so all ranks get the same answer.
 */
#ifndef AR_BOXES_H_
#define AR_BOXES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What each rank tells all others. The fields are of one size, so that no byte is left unset. */
struct ar_box_card {
    uint64_t host;    /* of NCCL's name for the box */
    uint32_t asked;   /* SYMTUNER_AR_NODES=1 */
    uint32_t ruled;   /* its rules have network-pieces for this communicator */
    uint32_t handles; /* that its thread makes together */
    uint32_t unable;  /* bits: enum ar_box_unable */
};

enum ar_box_unable {
    AR_BOX_NO_SPLIT = 1, /* NCCL has no ncclCommSplit */
    AR_BOX_UNBLOCKED = 2 /* the communicator does not block */
};

struct ar_boxes {
    int count;   /* boxes; 1: all ranks are on one */
    int ranks;   /* ranks on each box */
    int box, at; /* this rank's box, in the order of their first ranks; its place in its box */
};

/*
 * ar_boxes_find(cards, ranks, me, boxes_out, why):
 * Set *boxes_out to what rank ${me} of ${ranks} sees. Returns false if the ranks span boxes and
 * cannot, or shall not, add up box by box: then ${why} (AR_WHY bytes) ends the sentence "the ranks
 * span several nodes", the same on all ranks.
 */
bool ar_boxes_find(const struct ar_box_card *cards, int ranks, int me, struct ar_boxes *boxes_out,
                   char *why);

#endif
