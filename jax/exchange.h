/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - the ranks of a local group tell each other the addresses of their buffers.
 *
 * XLA fixes all addresses of a run before its first kernel. It then calls the initialize stage of
 * each device's handlers, with one thread per device. There the ranks meet, once per call site and
 * run. When all have come, each knows all addresses, and the zero-copy kernels may use them.
 * What can go wrong, and what is done about it:
 *
 *   the ranks decide differently  the decision is one word, set once under a lock: "agreed" by the
 *                                 last rank to come, "refused" by the first one that times out
 *   two sites look alike          a call is recognised by its rank's addresses; if that could pick
 *                                 different sites on two ranks, the whole run is staged
 *   a rank never comes            after FFI_EXCHANGE_MS the rest of the run is staged; the ranks
 *                                 meet again in the next run, and, as long as a rank stays late,
 *                                 after more and more runs, up to FFI_EXCHANGE_PAUSE
 *   no memory, too many sites     the remaining calls of the run are staged, on all ranks
 *
 * A staged call copies through the library's own memory. Nothing is kept between runs, so addresses
 * of donated or freed buffers are never used.
 */
#ifndef FFI_EXCHANGE_H_
#define FFI_EXCHANGE_H_

#include <stddef.h>
#include <stdint.h>

#define FFI_EXCHANGE_RANKS 16
#ifndef FFI_EXCHANGE_MS /* tests set a shorter time */
#define FFI_EXCHANGE_MS 5000
#endif
#define FFI_EXCHANGE_SITES 1024 /* most meetings in one run; further calls are staged */
#define FFI_EXCHANGE_PAUSE 256  /* most runs without meetings after a rank missed one */

/* One rank's buffers and call. */
struct ffi_offer {
    const void *send;
    void *recv;
    size_t count;
    int dtype, op;
};

/* The buffers of all ranks at one call site. */
struct ffi_site {
    const void *sends[FFI_EXCHANGE_RANKS];
    void *recvs[FFI_EXCHANGE_RANKS];
    size_t count;
    int dtype, op;
};

/* All meetings of one group. */
struct ffi_exchange;

struct ffi_exchange *ffi_exchange_new(int ranks);
void ffi_exchange_free(struct ffi_exchange *m);

/* Bring rank ${me}'s ${offer} to its next meeting of run ${run} and wait for the other ranks.
 * Returns whether they agreed. */
int ffi_exchange_come(struct ffi_exchange *m, int64_t run, int me, const struct ffi_offer *offer);

/* Find the agreed site of run ${run} in which rank ${me} brought ${offer}. Returns 0 if there is
 * none. The answer is the same on all ranks. */
int ffi_exchange_find(struct ffi_exchange *m, int64_t run, int me, const struct ffi_offer *offer,
                      struct ffi_site *site);

/* How the meetings have gone so far. */
struct ffi_exchange_state {
    uint64_t late; /* meetings that timed out because a rank did not come */
    int skip;      /* runs that will do without meetings because of that */
};

void ffi_exchange_state(struct ffi_exchange *m, struct ffi_exchange_state *state);

/* One rank's latest answer, kept because a loop looks up the same call again and again, on all
 * ranks at once. The answer is fixed before the run's first kernel, so the lock is taken only
 * once. */
struct ffi_found {
    int64_t run;
    int known, agreed;
    struct ffi_offer offer;
    struct ffi_site site;
};

/* ffi_exchange_find() with the rank's own ${found} as a cache. NULL: the ranks have not agreed. */
const struct ffi_site *ffi_exchange_look(struct ffi_exchange *m, int64_t run, int me,
                                         const struct ffi_offer *offer, struct ffi_found *found);

#endif
