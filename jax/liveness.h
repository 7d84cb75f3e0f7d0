/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.h - notice when the process of another rank is gone. */
#ifndef FFI_LIVENESS_H_
#define FFI_LIVENESS_H_

#include "jax/groups.h"
#include "jax/symtuner_ffi.h"

#ifndef FFI_LIVENESS_STUCK_MS /* a test is less patient */
/* a call without progress this long after a rank went is given up */
#define FFI_LIVENESS_STUCK_MS 5000
/* then the process has this long to end by itself */
#define FFI_LIVENESS_LEAVE_MS 5000
/* an ending process gives JAX this long to end without the lost */
#define FFI_LIVENESS_END_MS 15000
#endif
#define FFI_LIVENESS_EXIT 71

/* Watch the processes of the other ranks of ${member} until the process ends. 0, or -1 with a
 * sentence. */
int ffi_liveness_watch(struct ffi_member *member, const int *pids, char *why, size_t why_size);

/* Remember that a call has been put on ${stream}. */
void ffi_liveness_mark(struct ffi_member *member, void *stream);

/* Whether the call of the last mark, or one before it, has not ended. */
int ffi_liveness_pending(struct ffi_member *member);

#endif
