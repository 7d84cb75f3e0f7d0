/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.h - scratch that grows when a call needs more.
 *
 * A handle begins with AR_ARENA_SMALL. The first eager call that needs another arena makes it, on
 * all ranks in the same call. The ranks of a communicator meet before they make it (meeting.h):
 * each waits on the host for the others, but only AR_GROW_WAIT_MS. So if ranks call two handles in
 * different order, or if one thread calls all ranks, they wait that long, but nothing hangs. If not
 * all come in time, the call runs without the arena on all ranks, and calls 2, 4, 8, ... of this
 * kind try again. In a local group the first rank makes the arena for all, and waits for nobody.
 *
 * If a graph captures such a call first, the arena is refused for good. Other ranks may replay a
 * graph without the arena while this rank captures anew or calls eagerly, and all ranks must run
 * the same kernels. Without the arena a call is cut into more pieces, or another kernel runs it.
 */
#ifndef AR_GROW_H_
#define AR_GROW_H_

#include "kernels/group/handle.h"
#include "kernels/scratch/meeting.h"

enum { AR_GROW_WAIT_MS = 200 };

/* Fill the fields of ${ask} that do not depend on the call. Arenas that may still be made count as
 * scratch. */
void ar_grow_ask(const symtuner_ar *h, struct ar_ask *ask);

/* Return the arena that ${choice} needs. */
int ar_grow_arena_of(const symtuner_ar *h, const struct ar_ask *ask,
                     const struct ar_choice *choice);

/* Return AR_HERE if the arena is there; a lower phase: it may come; a higher one: it never will. */
enum ar_phase ar_grow_phase(const symtuner_ar *h, int arena);

/* Set ask->half according to ask->without. */
void ar_grow_halves(const symtuner_ar *h, struct ar_ask *ask);

/* Return whether a call may use ${arena}, and make it if it may grow. ${captured}: the call goes
 * into a graph. ${forced}: no other kernel will do, so wait up to the time limit for the peers. */
bool ar_grow_use(symtuner_ar *h, int arena, bool captured, bool forced);

/* Collective, in a communicator: try once to make ${arena}, and wait that long for the other
 * ranks. */
void ar_grow_now(symtuner_ar *h, int arena, uint64_t limit_ns);

/*
 * ar_grow_in_comm(h, met, why):
 * Collective: let the ranks of a communicator grow, this thread's only rank ${h} with them. Returns
 * false, on all ranks, if they share no memory of this machine; then the caller makes all arenas at
 * once. *met is false if the ranks could not even agree on that; ${why} (AR_WHY bytes) says why.
 */
bool ar_grow_in_comm(symtuner_ar *h, bool *met, char *why);

/* Let the ${n} ranks of a local group grow. Returns false if there is no memory for that. */
bool ar_grow_local(symtuner_ar *const *handles, int n);

/* Called when ${h} is freed. */
void ar_grow_end(symtuner_ar *h);

#endif
