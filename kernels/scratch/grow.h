/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.h - scratch that grows when a call needs more.
 *
 * Scratch consists of arenas (kernels/choose/arenas.h). A handle begins with AR_ARENA_SMALL. The
 * first call outside of captures that needs another arena makes that arena, on all ranks in the
 * same call. The ranks of a communicator meet before they make an arena (meeting.h): each waits on
 * the host for the others, but only AR_GROW_WAIT_MS. If not all ranks come in time, the call runs
 * without the arena on all ranks. Of the calls that need the arena, numbers 2, 4, 8, ... try again.
 * Without the short limit, the ranks would hang if they called two handles in different order, or
 * if one thread made the calls of all ranks. In a local group the first rank that needs the arena
 * makes it for all ranks, and waits for nobody.
 *
 * If a graph captures a call that needs an arena, and the arena does not exist yet, the arena is
 * refused for good: no rank ever makes it. On all ranks such calls are then cut into more pieces,
 * or another kernel runs them. Suppose that the arena were made later. Then another rank could
 * replay the old graph, which works without the arena, while this rank makes the same call with the
 * arena. But all ranks must run the same kernels.
 */
#ifndef AR_GROW_H_
#define AR_GROW_H_

#include "kernels/scratch/meeting.h"
#include "kernels/scratch/members.h"

enum { AR_GROW_WAIT_MS = 200 };

/* Fill the fields of ${ask} that do not depend on the call. Arenas (parts of the scratch) that may
 * still be made count as if they were there. */
void ar_grow_ask(const symtuner_ar *h, struct ar_ask *ask);

/* Return the arena (part of the scratch) that the call ${ask} needs if it runs as ${choice}
 * says. */
int ar_grow_arena_of(const symtuner_ar *h, const struct ar_ask *ask,
                     const struct ar_choice *choice);

/* Return the phase of ${arena}: AR_HERE if the arena exists, a lower phase if it may still be made,
 * a higher phase if it never will be. */
enum ar_phase ar_grow_phase(const symtuner_ar *h, int arena);

/* Set ask->half[r] for each region r of the scratch: the bytes of the longest half that any arena
 * has for this region. Arenas in ask->without do not count. */
void ar_grow_halves(const symtuner_ar *h, struct ar_ask *ask);

/* Return whether a call may use ${arena}. If the arena does not exist yet, first try to make it.
 * But if ${captured}, the call goes into a graph: then refuse the arena for good. If ${forced}, no
 * other kernel can run the call: then wait for the peers up to the handle's time limit, not only
 * AR_GROW_WAIT_MS. */
bool ar_grow_use(symtuner_ar *h, int arena, bool captured, bool forced);

/* Try once to make ${arena}. In a communicator this is collective, and waits up to ${limit_ns} for
 * the other ranks. */
void ar_grow_now(symtuner_ar *h, int arena, uint64_t limit_ns);

/* Collective: prepare the ranks of a communicator to make arenas later. ${m} has one rank. Fails on
 * all ranks if they cannot share host memory. Then m->why says why, and the caller makes all arenas
 * at once. */
ncclResult_t ar_grow_in_comm(struct ar_members *m);

/* Prepare the ${n} ranks of a local group to make arenas later. Returns false if host memory ran
 * out. */
bool ar_grow_local(symtuner_ar *const *handles, int n);

/* Called when ${h} is freed. */
void ar_grow_end(symtuner_ar *h);

#endif
