/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes.h - how the ranks of a communicator are distributed over boxes, and whether they can add up
 * box by box.
 *
 * The functions are pure, and every rank passes the same cards, so all ranks get the same answer.
 */
#ifndef AR_BOXES_H_
#define AR_BOXES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What each rank tells all others about itself. There is no padding between the fields, so all
 * bytes are set. */
struct ar_box_card {
    uint64_t host;    /* hash of the name by which NCCL tells boxes apart (host_id.h) */
    uint32_t asked;   /* 1 with SYMTUNER_AR_NODES=1, else 0 */
    uint32_t ruled;   /* 1 if a rule for this communicator has the key network-pieces, else 0 */
    uint32_t handles; /* how many handles the rank's thread makes in one call */
    uint32_t unable;  /* bits of enum ar_box_unable */
};

enum ar_box_unable {
    AR_BOX_NO_SPLIT = 1, /* NCCL has no ncclCommSplit */
    AR_BOX_UNBLOCKED = 2 /* the communicator is nonblocking */
};

struct ar_boxes {
    int count;   /* number of boxes; 1: all ranks are on one box */
    int ranks;   /* ranks on each box */
    int box, at; /* number of this rank's box, and number of this rank in that box; both from 0 */
};

/*
 * ar_boxes_find(cards, ranks, me, boxes_out, why):
 * Set *boxes_out for rank ${me}. There are ${ranks} ranks. Returns false if they span several boxes
 * but cannot add up box by box, or were not asked to. Then ${why} (AR_WHY bytes) is the end of a
 * sentence that begins with "the ranks span several nodes". The text is the same on all ranks.
 */
bool ar_boxes_find(const struct ar_box_card *cards, int ranks, int me, struct ar_boxes *boxes_out,
                   char *why);

#endif
