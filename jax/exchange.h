/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - the ranks of a local group, all in this process, tell each other the addresses of
 * their buffers.
 *
 * XLA fixes the addresses of all buffers of a run (one execution of a program) before the run's
 * first kernel. Then it calls the initialize stage of each custom call on each device, from one
 * thread per device. In that stage the ranks of a group meet, once for each all-reduce in the
 * program. When all ranks have come to a meeting, each knows the addresses of all, and the
 * all-reduce may run a zero-copy kernel. If a meeting fails, the call is *staged*: it copies its
 * data through memory of libsymtuner_ar.so. The next list says what can go wrong in a meeting, and
 * what this file does about it:
 *
 *   the ranks decide differently  the decision is one word, set once under a lock: "agreed" by the
 *                                 last rank to come, "refused" by the first one that times out
 *   two calls look alike          a rank recognises a call by the addresses of its own buffers. If
 *                                 two calls have the same addresses on some ranks and different
 *                                 ones on other ranks, the whole run is staged
 *   a rank never comes            after FFI_EXCHANGE_MS the rest of the run is staged. The ranks
 *                                 meet again in the next run. If a rank is late again, more and
 *                                 more runs pass before the next try, up to FFI_EXCHANGE_PAUSE
 *   no memory, too many calls     the remaining calls of the run are staged, on all ranks
 *
 * This file keeps no address for the next run, so it never uses the address of a buffer that was
 * donated or freed after a run.
 */
#ifndef FFI_EXCHANGE_H_
#define FFI_EXCHANGE_H_

#include <stddef.h>
#include <stdint.h>

#define FFI_EXCHANGE_RANKS 16
#ifndef FFI_EXCHANGE_MS /* tests set a shorter time */
#define FFI_EXCHANGE_MS 5000
#endif
#define FFI_EXCHANGE_SITES 1024 /* at most this many all-reduces of a run exchange addresses */
#define FFI_EXCHANGE_PAUSE 256 /* at most this many runs exchange nothing after a late rank */

/* What a rank tells the others before an all-reduce: its buffers, and which all-reduce it calls. */
struct ffi_offer {
    const void *send;
    void *recv;
    size_t count;
    int dtype, op;
};

/* The result of an exchange: the buffers of all ranks for one all-reduce. Index r is rank r. */
struct ffi_site {
    const void *sends[FFI_EXCHANGE_RANKS];
    void *recvs[FFI_EXCHANGE_RANKS];
    size_t count;
    int dtype, op;
};

/* The exchanges of one group, in all runs that are in flight. */
struct ffi_exchange;

struct ffi_exchange *ffi_exchange_new(int ranks);
void ffi_exchange_free(struct ffi_exchange *m);

/* Exchange buffers for the next all-reduce of rank ${me} in run ${run}: show the other ranks
 * ${offer}, and wait for theirs. Returns 1 if all ranks came with the same all-reduce, else 0. */
int ffi_exchange_come(struct ffi_exchange *m, int64_t run, int me, const struct ffi_offer *offer);

/* Look up what the ranks exchanged when rank ${me} brought ${offer} in run ${run}. If all ranks
 * agreed, fills ${site} and returns 1. Otherwise, or if ${me} brought no such offer, returns 0. All
 * ranks that look up the same all-reduce get the same result. */
int ffi_exchange_find(struct ffi_exchange *m, int64_t run, int me, const struct ffi_offer *offer,
                      struct ffi_site *site);

/* How often a rank of one group was late, and what follows from it. */
struct ffi_exchange_state {
    uint64_t late; /* exchanges that timed out, since the group was opened */
    int skip;      /* how many of the next runs exchange nothing, because a rank was late */
};

void ffi_exchange_state(struct ffi_exchange *m, struct ffi_exchange_state *state);

/* A rank's cache of the last answer of ffi_exchange_find(). The answer does not change once the
 * run's first kernel has started. So if a program has a call in a loop, only the first iteration
 * has to ask ffi_exchange_find(), which takes a lock. */
struct ffi_found {
    int64_t run;
    int known, agreed;
    struct ffi_offer offer;
    struct ffi_site site;
};

/* Do what ffi_exchange_find() does, with the rank's own ${found} as a cache. Returns the buffers of
 * all ranks (inside ${found}), or NULL if the ranks have not agreed. */
const struct ffi_site *ffi_exchange_look(struct ffi_exchange *m, int64_t run, int me,
                                         const struct ffi_offer *offer, struct ffi_found *found);

#endif
