/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffers.c - registered buffers and scratch of a handle over several boxes.
 *
 * The buffers and the scratch belong to the handle of the rank's box, h->nodes->box. If a step
 * fails in one box, it must fail in all boxes, so the ranks of all boxes agree on the outcome.
 */
#include <stdio.h>

#include "kernels/group/error.h"
#include "kernels/nodes/nodes.h"

static ncclResult_t agree(symtuner_ar *h, ncclResult_t result)
{
    bool lost = false;
    char why[AR_WHY];

    snprintf(why, sizeof why, "%.*s", AR_WHY - 1, symtuner_ar_error(h->nodes->box));
    result = ar_nodes_agree(h, result, why, &lost);
    return result == ncclSuccess ? result : ar_handles_fail(&h, 1, result, "in a box: %s", why);
}

static ncclResult_t refuse(symtuner_ar *h)
{
    return ar_handles_fail(&h, 1, ncclInvalidUsage, "the handle was aborted");
}

ncclResult_t ar_nodes_register(symtuner_ar *h, void *buffer, size_t bytes)
{
    symtuner_ar **box = &h->nodes->box;
    ncclResult_t mine, result;

    if (!ar_nodes_enter(h->nodes))
        return refuse(h);
    mine = symtuner_ar_register(box, &buffer, NULL, 1, bytes);
    result = agree(h, mine);
    if (result != ncclSuccess && mine == ncclSuccess)
        symtuner_ar_deregister(box, &buffer, 1);
    ar_nodes_leave(h->nodes);
    return result;
}

ncclResult_t ar_nodes_deregister(symtuner_ar *h, void *buffer, ncclResult_t allowed, char *why)
{
    ncclResult_t result = ncclSuccess;
    bool lost = false;

    if (!ar_nodes_enter(h->nodes))
        return ncclSuccess; /* the windows are gone with the communicator */
    /* If the box has no window at this address, the program had passed a window of its own to
     * symtuner_ar_register, which had no effect. */
    if (ar_window_at(h->nodes->box, buffer) != NULL) {
        /* If the handle has an error, do not ask the other ranks: a lost one would never answer. */
        if (ar_status(h) == ncclSuccess)
            result = ar_nodes_agree(h, allowed, why, &lost);
        if (result != ncclSuccess)
            ar_handles_fail(&h, 1, result, "in a box: %s", why);
        else if ((result = symtuner_ar_deregister(&h->nodes->box, &buffer, 1)) != ncclSuccess)
            ar_handles_fail(&h, 1, result, "in the box: %.200s", symtuner_ar_error(h->nodes->box));
    }
    ar_nodes_leave(h->nodes);
    return result;
}

ncclResult_t ar_nodes_reserve(symtuner_ar *h, size_t bytes)
{
    ncclResult_t result;

    if (!ar_nodes_enter(h->nodes))
        return refuse(h);
    result = agree(h, symtuner_ar_reserve(&h->nodes->box, 1, bytes));
    ar_nodes_leave(h->nodes);
    return result;
}
