/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_window.h - register buffers as NCCL windows, and deregister them. */
#ifndef AR_NCCL_WINDOW_H_
#define AR_NCCL_WINDOW_H_

#include "kernels/group/handle.h"

/* Collective: register buffers[i], of ${bytes}, with the communicator of handles[i], and set
 * *windows[i] to the new window, or to NULL if NCCL made none. windows[i] must point into the
 * handle, because NCCL may write *windows[i] after this function has returned. That happens after a
 * timeout, or if the caller is between ncclGroupStart and ncclGroupEnd. */
ncclResult_t ar_windows_make(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                             ncclWindow_t *const *windows, char *why);
/* Deregister ${window} on the GPU of ${h}. The caller's GPU stays current. If the communicator of
 * ${h} has timed out, the window stays registered, so its memory must not be freed. */
ncclResult_t ar_window_drop(symtuner_ar *h, ncclWindow_t window);

#endif
