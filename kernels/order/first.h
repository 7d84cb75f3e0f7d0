/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - of the handles that this process has on a GPU, the one that was made first.
 *
 * Only the first handle lets other kernels start early behind its own kernels. A kernel that starts
 * early takes all multiprocessors that our kernel leaves free, and keeps them while it waits for
 * our kernel. Suppose that two ranks start the calls of two handles in different order, and that a
 * kernel starts early behind each of these calls. Then neither rank has room for its second call.
 * But each rank's first call waits for the other rank's second call, so both ranks wait for ever.
 * If only one handle lets kernels start early, the call of the other handle leaves room on the rank
 * that starts it first. All ranks must choose the same handle as the first. They do, because they
 * make their handles in the same order.
 *
 * Threads    any.
 */
#ifndef AR_FIRST_H_
#define AR_FIRST_H_

#include "kernels/group/handle.h"

/* Set h->first. h->device must be set. */
void ar_first_join(symtuner_ar *h);
/* Called when ${h} launches no kernels, now and later, and no graph with its calls runs any more.
 * The oldest of the other handles on its GPU becomes the first. Does nothing if ${h} has not
 * joined, or has left before. */
void ar_first_leave(symtuner_ar *h);

#endif
