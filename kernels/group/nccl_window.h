/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_window.h - register buffers as NCCL windows, and deregister them. */
#ifndef AR_NCCL_WINDOW_H_
#define AR_NCCL_WINDOW_H_

#include "kernels/group/handle.h"

/* Collective: register buffers[i], of ${bytes}, with the communicator of handles[i]. *windows[i]
 * becomes its window, NULL if NCCL made none. windows[i] must point into the handle: after a
 * timeout, and between ncclGroupStart and ncclGroupEnd, NCCL writes there later. */
ncclResult_t ar_windows_make(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                             ncclWindow_t *const *windows, char *why);
/* Deregister ${window} on the GPU of ${h}; the caller's GPU stays current. After a timeout this
 * does nothing: the window stays, and its memory must stay, too. */
ncclResult_t ar_window_drop(symtuner_ar *h, ncclWindow_t window);

#endif
