/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - which of the handles that this process has on a GPU was made first.
 *
 * Only the first handle lets other kernels start early after its own kernels. A kernel that starts
 * early takes all multiprocessors that our kernel leaves free, and keeps them while it waits for
 * our kernel. Suppose that two ranks start the calls of two handles in different order, and that a
 * kernel starts early after each of these calls. Then no multiprocessor is free for the second call
 * of either rank. But each rank's first call waits for the other rank's second call, so both ranks
 * wait for ever. If only one handle lets kernels start early, a rank that starts the call of the
 * other handle first has free multiprocessors for its second call. All ranks must choose the same
 * handle as the first. They do, because they make their handles in the same order.
 *
 * Threads    any.
 */
#ifndef AR_FIRST_H_
#define AR_FIRST_H_

#include "kernels/group/handle.h"

/* Set h->first. h->device must be set. */
void ar_first_join(symtuner_ar *h);
/* Called when ${h} will launch no more kernels, and no graph with its calls will run any more. The
 * oldest of the other handles on its GPU becomes the first. Does nothing without an earlier
 * ar_first_join, or if called a second time. */
void ar_first_leave(symtuner_ar *h);

#endif
