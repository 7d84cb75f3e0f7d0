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
 *   a rank never comes          after FFI_EXCHANGE_MS the run goes on without meetings; the next
 *                               run meets again, or, while ranks stay late, one run in at most
 *                               FFI_EXCHANGE_PAUSE
 *   no memory, too many sites   the run's further calls are staged, on all ranks
 *
 * Nothing is kept between runs, so a donated or freed buffer cannot linger.
 */
#ifndef FFI_EXCHANGE_H_
#define FFI_EXCHANGE_H_

#include <stddef.h>
#include <stdint.h>

#define FFI_EXCHANGE_RANKS 16
#ifndef FFI_EXCHANGE_MS /* a test is less patient */
#define FFI_EXCHANGE_MS 5000
#endif
#define FFI_EXCHANGE_SITES 1024 /* meetings in one run; further calls are staged */
#define FFI_EXCHANGE_PAUSE 256  /* most runs without meetings after a rank missed one */

/* What one rank brings. */
struct ffi_offer {
    const void *send;
    void *recv;
    size_t count;
    int dtype, op;
};

/* What all have brought. */
struct ffi_site {
    const void *sends[FFI_EXCHANGE_RANKS];
    void *recvs[FFI_EXCHANGE_RANKS];
    size_t count;
    int dtype, op;
};

/* The meetings of one group. */
struct ffi_exchange;

struct ffi_exchange *ffi_exchange_new(int ranks);
void ffi_exchange_free(struct ffi_exchange *m);

/* Rank ${me} comes to its next meeting of run ${run}; waits for the others. Returns whether they
 * agreed. */
int ffi_exchange_come(struct ffi_exchange *m, int64_t run, int me, const struct ffi_offer *offer);

/* The agreed site of run ${run} that ${offer} is rank ${me}'s part of; 0 when there is none. Same
 * answer on all ranks. */
int ffi_exchange_find(struct ffi_exchange *m, int64_t run, int me, const struct ffi_offer *offer,
                      struct ffi_site *site);

/* What became of the meetings. */
struct ffi_exchange_state {
    uint64_t late; /* how often ranks waited in vain */
    int skip;      /* so many runs will not meet because of that */
};

void ffi_exchange_state(struct ffi_exchange *m, struct ffi_exchange_state *state);

/* One rank's latest answer. A loop asks for the same call again and again, from all ranks at once;
 * the answer is settled before the run's first kernel, so the lock is needed once. */
struct ffi_found {
    int64_t run;
    int known, agreed;
    struct ffi_offer offer;
    struct ffi_site site;
};

/* ffi_exchange_find() through the rank's own ${found}; NULL: they have not agreed. */
const struct ffi_site *ffi_exchange_look(struct ffi_exchange *m, int64_t run, int me,
                                         const struct ffi_offer *offer, struct ffi_found *found);

#endif
