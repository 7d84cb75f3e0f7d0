/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_window.h - windows of this library's own: make them with NCCL, and drop them. */
#ifndef AR_NCCL_WINDOW_H_
#define AR_NCCL_WINDOW_H_

#include "kernels/group/handle.h"

/* Collective: a window for each of this thread's buffers; NULL where NCCL made none. */
ncclResult_t ar_windows_make(symtuner_ar **handles, void *const *buffers, int n, size_t bytes,
                             ncclWindow_t *windows, char *why);
/* Not when the communicator is late: then the window stays, and so must the memory. */
ncclResult_t ar_window_drop(symtuner_ar *h, ncclWindow_t window);

#endif
