/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - of the handles that this process has on a GPU, the one that was made first.
 *
 * Only that one lets other kernels start early behind its own. Such a kernel takes all
 * multiprocessors that ours leaves free, and keeps them while it waits for ours. Suppose two ranks
 * start the calls of two handles in different order, and each of the two calls has such a kernel
 * behind it. Then neither rank has room for its second call, for which the other rank waits, and
 * both wait for ever. With one such handle, the other handle's call leaves room on its rank. All
 * ranks must mean the same handle. They do, because they make their handles in the same order.
 *
 * Threads    any.
 */
#ifndef AR_FIRST_H_
#define AR_FIRST_H_

#include "kernels/group/handle.h"

/* Set h->first. h->device must be set. */
void ar_first_join(symtuner_ar *h);
/* ${h} makes no more calls, and no graph with its calls runs any more. The oldest of the others on
 * its GPU becomes the first. Does nothing if ${h} has not joined. */
void ar_first_leave(symtuner_ar *h);

#endif
