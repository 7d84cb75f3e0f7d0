/* SPDX-License-Identifier: Apache-2.0 */
/* ffi_watch.h - notice when the process of another rank is gone. */
#ifndef ST_FFI_WATCH_H_
#define ST_FFI_WATCH_H_

#include "ffi_groups.h"
#include "symtuner_ffi.h"

#ifndef ST_WATCH_STUCK_MS /* a test is less patient */
/* a call without progress this long after a rank went is given up */
#define ST_WATCH_STUCK_MS 5000
/* then the process has this long to end by itself */
#define ST_WATCH_LEAVE_MS 5000
/* an ending process gives JAX this long to end without the lost */
#define ST_WATCH_END_MS 15000
#endif
#define ST_WATCH_EXIT 71

/* Watch the processes of the other ranks of ${seat} until the process ends. 0, or -1 with a
 * sentence. */
int st_watch(struct st_seat *seat, const int *pids, char *why, size_t why_size);

/* Remember that a call has been put on ${stream}. */
void st_watch_mark(struct st_seat *seat, void *stream);

/* Whether the call of the last mark, or one before it, has not ended. */
int st_watch_pending(struct st_seat *seat);

/* Rank ${rank} has said that it leaves: its process may live on, but will make no more calls. */
void st_watch_left(struct st_seat *seat, int rank);

/* The same for all groups of these ids, also those that are closed here: the rank that has said it
 * is not missed when this process ends. */
SYMTUNER_FFI_API int symtuner_ffi_goodbye(const int64_t *ids, int ranks, int rank, char *why,
                                          size_t why_size);

/* All goodbyes that were said in these groups until ${until_ms} (CLOCK_MONOTONIC) are known here;
 * later ones will not be. So a rank that is lost later is not missed for want of a goodbye. */
SYMTUNER_FFI_API int symtuner_ffi_told(const int64_t *ids, int ranks, int64_t until_ms, char *why,
                                       size_t why_size);

/* At ${at_ms} this process waited for all others in jax.distributed: it misses the ranks whose
 * processes had ended, even if they had said goodbye here. */
SYMTUNER_FFI_API int symtuner_ffi_waiting(int64_t at_ms, char *why, size_t why_size);

#endif
