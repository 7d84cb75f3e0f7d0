/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.h - notice when the process of another rank has ended. */
#ifndef FFI_LIVENESS_H_
#define FFI_LIVENESS_H_

#include "jax/groups.h"
#include "jax/symtuner_ffi.h"

#ifndef FFI_LIVENESS_STUCK_MS /* tests set shorter times */
/* after a rank has gone, a call that makes no progress for so long is given up */
#define FFI_LIVENESS_STUCK_MS 5000
/* then the process has so long to end by itself */
#define FFI_LIVENESS_LEAVE_MS 5000
/* an ending process may wait so long in jax.distributed for a rank that has died */
#define FFI_LIVENESS_END_MS 15000
#endif
#define FFI_LIVENESS_EXIT 71

/* Watch the processes of the other ranks of ${member} until this process ends. Returns 0, or -1
 * with a sentence in ${why}. */
int ffi_liveness_watch(struct ffi_member *member, const int *pids, char *why, size_t why_size);

/* Remember that a call was started on ${stream}. */
void ffi_liveness_mark(struct ffi_member *member, void *stream);

/* Is the last call that was marked, or one before it, still running? */
int ffi_liveness_pending(struct ffi_member *member);

#endif
