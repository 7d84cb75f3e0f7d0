/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - which of the handles that this process has on a GPU is the first.
 *
 * Only the first handle lets other kernels start early after its own kernels. A kernel that starts
 * early takes all multiprocessors that our kernel leaves free, and keeps them while it waits for
 * our kernel. Suppose that two ranks start the calls of two handles in different order, and that a
 * kernel starts early after each of these calls. Then no multiprocessor is free for the second call
 * of either rank. But each rank's first call waits for the other rank's second call, so both ranks
 * wait for ever. If only one handle lets kernels start early, a rank that starts the call of the
 * other handle first has free multiprocessors for its second call.
 *
 * So of two handles that two ranks share, both ranks must choose the same one. The order in which a
 * rank made its handles does not tell which, because threads of a process may make handles at the
 * same time. Instead all ranks of a group give their handles the same place: each rank proposes a
 * number above the places of all handles that it has, and the place is the largest proposal. Of two
 * handles with one place, that with the smaller group number comes before the other. The first
 * handle of a GPU is the one that comes before all others. A new handle without a place may come
 * before some of the others. As long as it has no place, none of those becomes the first.
 *
 * Threads    any.
 */
#ifndef AR_FIRST_H_
#define AR_FIRST_H_

#include "kernels/group/handle.h"

/* Set h->place to the place that this rank proposes for ${h}. h->device must be set. */
void ar_first_join(symtuner_ar *h);
/* Give ${h} its place, the largest h->place of all ranks of its group, and set h->first. h->group
 * must be set. */
void ar_first_place(symtuner_ar *h, uint64_t place);
/* Called when ${h} will launch no more kernels, and no graph with its calls will run any more.
 * Another handle on its GPU may become the first. Does nothing without an earlier ar_first_join, or
 * if called a second time. */
void ar_first_leave(symtuner_ar *h);

#endif
