/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.c - finds out how the ranks of a communicator are distributed over boxes. */
#include "kernels/nodes/boxes.h"

#include <stdio.h>

#include "kernels/group/endpoint.h"
#include "kernels/shared/layout.h"

/* Return the first rank of the box of rank ${r}. */
static int first_of(const struct ar_box_card *cards, int r)
{
    int first = 0;

    while (cards[first].host != cards[r].host)
        first++;
    return first;
}

static int ranks_with(const struct ar_box_card *cards, int ranks, uint64_t host)
{
    int n = 0;

    for (int r = 0; r < ranks; r++)
        n += cards[r].host == host;
    return n;
}

/* Return a rank whose box has another number of ranks than the box of rank 0, or -1. */
static int uneven(const struct ar_box_card *cards, int ranks)
{
    int want = ranks_with(cards, ranks, cards[0].host);

    for (int r = 1; r < ranks; r++)
        if (first_of(cards, r) == r && ranks_with(cards, ranks, cards[r].host) != want)
            return r;
    return -1;
}

/* Return the first rank whose SYMTUNER_AR_NODES differs from that of rank 0, or -1. */
static int other_asked(const struct ar_box_card *cards, int ranks)
{
    for (int r = 1; r < ranks; r++)
        if (cards[r].asked != cards[0].asked)
            return r;
    return -1;
}

static int refuse(const struct ar_box_card *cards, int ranks, char *why)
{
    const int least = ranks_with(cards, ranks, cards[0].host);
    int r = other_asked(cards, ranks);

    if (r >= 0)
        return snprintf(why, AR_WHY, ", and SYMTUNER_AR_NODES differs between ranks 0 and %d", r);
    if (!cards[0].asked && !cards[0].ruled)
        return snprintf(why, AR_WHY, "; SYMTUNER_AR_NODES=1 adds up box by box (docs/nodes.md)");
    for (r = 0; r < ranks; r++) {
        if (cards[r].unable & AR_BOX_NO_SPLIT)
            return snprintf(why, AR_WHY, ", and the NCCL of rank %d has no ncclCommSplit", r);
        if (cards[r].unable & AR_BOX_UNBLOCKED)
            return snprintf(why, AR_WHY, ", and the communicator of rank %d does not block", r);
        if (cards[r].handles != 1)
            return snprintf(why, AR_WHY, ", and the thread of rank %d drives %u ranks", r,
                            cards[r].handles);
    }
    r = uneven(cards, ranks);
    if (r >= 0)
        return snprintf(why, AR_WHY,
                        " with unequal numbers of ranks: %d where rank 0 is, %d where "
                        "rank %d is",
                        least, ranks_with(cards, ranks, cards[r].host), r);
    if (least == 1)
        return snprintf(why, AR_WHY, " with one rank each");
    if (least > AR_MAX_RANKS)
        return snprintf(why, AR_WHY, " with more than %d ranks each", AR_MAX_RANKS);
    return 0;
}

bool ar_boxes_find(const struct ar_box_card *cards, int ranks, int me, struct ar_boxes *boxes,
                   char *why)
{
    int mine = first_of(cards, me);

    *boxes = (struct ar_boxes){.count = 1, .ranks = ranks, .at = me};
    if (ranks_with(cards, ranks, cards[0].host) == ranks)
        return true;
    if (refuse(cards, ranks, why) != 0)
        return false;
    *boxes = (struct ar_boxes){.ranks = ranks_with(cards, ranks, cards[0].host)};
    boxes->count = ranks / boxes->ranks;
    for (int r = 0; r < ranks; r++) {
        boxes->box += first_of(cards, r) == r && r < mine;
        boxes->at += cards[r].host == cards[me].host && r < me;
    }
    return true;
}
