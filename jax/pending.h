/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.h - calls of groups across processes that have not ended on the GPU. An event is recorded
 * after each call that is launched. A replay of a CUDA graph has no such event.
 */
#ifndef FFI_PENDING_H_
#define FFI_PENDING_H_

#include "jax/groups.h"

/* Record an event on ${stream} after a call of ${member}, for ffi_pending(). Does nothing if the
 * stream is captured. */
void ffi_pending_mark(struct ffi_member *member, void *stream);

/* Is the last call that was marked, or a call before it, still running on the GPU? */
int ffi_pending(struct ffi_member *member);

#endif
