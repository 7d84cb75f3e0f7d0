/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - the ranks of a local group tell each other where their buffers are.
 *
 * XLA fixes all addresses of a run before its first kernel, and asks each device's handlers to
 * initialize, one thread per device. There the ranks meet, once per call site and run; when all
 * have come, each knows all addresses, and the zero-copy kernels may use them. Hazards, and what is
 * done:
 *
 *   one rank decides otherwise  the decision is one word, set once under a lock: by the last to
 *                               come (agreed) or by the first to lose patience (refused)
 *   two sites look alike        a call is recognised by its rank's addresses; when that would pick
 *                               different sites on two ranks, the whole run does without
 *   a rank never comes          after ST_MEET_MS the run goes on without meetings; the next run
 *                               meets again, or, while ranks stay late, one of ST_MEET_PAUSE
 *   no memory, too many sites   the run's further calls are staged, on all ranks
 *
 * Nothing is kept between runs, so a donated or freed buffer cannot linger.
 */
#ifndef ST_FFI_MEET_H_
#define ST_FFI_MEET_H_

#include <stddef.h>
#include <stdint.h>

#define ST_MEET_RANKS 16
#ifndef ST_MEET_MS /* a test is less patient */
#define ST_MEET_MS 5000
#endif
#define ST_MEET_SITES 1024 /* meetings in one run; further calls are staged */
#define ST_MEET_PAUSE 256  /* runs without meetings, at the most, after one that a rank missed */

/* What one rank brings. */
struct st_offer {
    const void *send;
    void *recv;
    size_t count;
    int dtype, op;
};

/* What all have brought. */
struct st_site {
    const void *sends[ST_MEET_RANKS];
    void *recvs[ST_MEET_RANKS];
    size_t count;
    int dtype, op;
};

/* The meetings of one group. */
struct st_meet;

struct st_meet *st_meet_new(int ranks);
void st_meet_free(struct st_meet *m);

/* Rank ${me} comes to its next meeting of run ${run}; waits for the others. Returns whether they
 * agreed. */
int st_meet_come(struct st_meet *m, int64_t run, int me, const struct st_offer *offer);

/* The agreed site of run ${run} that ${offer} is rank ${me}'s part of; 0 when there is none. Same
 * answer on all ranks. */
int st_meet_find(struct st_meet *m, int64_t run, int me, const struct st_offer *offer,
                 struct st_site *site);

/* What became of the meetings. */
struct st_meet_state {
    uint64_t late; /* how often ranks waited in vain */
    int skip;      /* so many runs will not meet because of that */
};

void st_meet_state(struct st_meet *m, struct st_meet_state *state);

/* One rank's latest answer. A loop asks for the same call again and again, from all ranks at once;
 * the answer is settled before the run's first kernel, so the lock is needed once. */
struct st_found {
    int64_t run;
    int known, agreed;
    struct st_offer offer;
    struct st_site site;
};

/* st_meet_find() through the rank's own ${found}; NULL: they have not agreed. */
const struct st_site *st_meet_look(struct st_meet *m, int64_t run, int me,
                                   const struct st_offer *offer, struct st_found *found);

#endif
