/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - which of the handles that this process has on a GPU is the first.
 *
 * Only the kernels of the first handle let the next kernel of their stream start early, that is,
 * before they have ended (programmatic dependent launch). A kernel that starts early takes all
 * multiprocessors that our kernel leaves free, and keeps them while it waits for our kernel.
 * Suppose that two ranks start the calls of two handles in different order, and that a kernel
 * starts early after each of these calls. Then no multiprocessor is free for the second call of
 * either rank. But each rank's first call waits for the other rank's second call, so both ranks
 * wait for ever. If only one of the handles lets kernels start early, the rank that starts with the
 * call of the other handle has free multiprocessors for its second call.
 *
 * So if two ranks are in two groups, both ranks must let the handle of the same group be the first.
 * The order in which a rank made its handles does not tell which one, because threads of a process
 * may make handles at the same time. Instead all ranks of a group give their handles the same
 * number, the place: each rank proposes a number above the places of all handles that it has, and
 * the place is the largest proposal. The first handle of a GPU is the one with the lowest place, or
 * if several have that place, the one of these with the lowest group number. A new handle has no
 * place at first, and may get one that makes it the first. So until it has its place, no handle
 * that it may precede becomes the first.
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
