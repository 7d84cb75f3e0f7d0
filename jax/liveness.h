/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.h - notice when the process of another rank has ended. */
#ifndef FFI_LIVENESS_H_
#define FFI_LIVENESS_H_

#include "jax/groups.h"
#include "jax/symtuner_ffi.h"

#ifndef FFI_LIVENESS_STUCK_MS /* tests set shorter times */
/* after a rank has gone, we give up a call that makes no progress for this time */
#define FFI_LIVENESS_STUCK_MS 5000
/* after we have given up a call, the process has this time to end by itself; then we call _exit().
 * A goodbye may also arrive this long after the death of the rank that said it */
#define FFI_LIVENESS_LEAVE_MS 5000
/* a process that ends may wait this long for a dead rank in jax.distributed's shutdown */
#define FFI_LIVENESS_END_MS 15000
#endif
#define FFI_LIVENESS_EXIT 71

/* Start a thread that watches the processes of the other ranks of ${member} until this process
 * ends. ${pids}[i] is rank i's process. Returns 0, or -1 with a sentence in ${why}. */
int ffi_liveness_watch(struct ffi_member *member, const int *pids, char *why, size_t why_size);

/* The next functions are in pending.c. They find out whether the GPU has finished the calls of
 * groups across processes, by an event that we record after each call. In a replay of a CUDA graph
 * nobody records such an event. */

/* Is ${stream} being captured, that is, does XLA record the calls on it into a CUDA graph? Returns
 * 1 or 0, or -1 if the driver does not tell. */
int ffi_is_captured(void *stream);

/* Record an event on ${stream} after a call of ${member}, for ffi_pending(). Does nothing if the
 * stream is being captured, or if the driver does not tell whether it is. */
void ffi_pending_mark(struct ffi_member *member, void *stream);

/* Is the last call that was marked, or a call before it, still running on the GPU? */
int ffi_pending(struct ffi_member *member);

#endif
