/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - registers the application's NCCL windows with our kernels, too. */
#ifndef ST_WINDOW_H_
#define ST_WINDOW_H_

#include "dropin/group.h"

/* A window that NCCL is making. */
struct st_seen {
    void *comm, *buffer;
    size_t bytes;
    void **window; /* where NCCL writes the window's handle */
};

/* Register a symmetric window with our kernels: at once, or at the end of the group if one is open.
 * Waits for the other ranks, as ncclCommWindowRegister does. */
void st_seen(struct st_comm *c, struct st_seen seen);
/* Register ${n} symmetric windows with our kernels now. Waits for the other ranks. */
void st_seen_settle(struct st_seen *seen, int n);

/* Forget ${window}, because the application is about to deregister it. */
void st_window_forget(struct st_comm *c, void *window);

/* Do these bytes lie in a window of ${c}, so that our kernels can use them where they are? */
bool st_window_holds(struct st_comm *c, const void *buffer, size_t bytes);

/* Return the class of this buffer. The kernels' library decides alike for all buffers of a class,
 * so we need to ask it only once for each class.
 *   0  the buffer lies in no window. Then its address must not matter, because other ranks have
 *      other addresses
 *   1  it lies in a window, and its address is a multiple of 16
 *   2  it lies in a window, and its address is not a multiple of 16 */
uint64_t st_window_class(struct st_comm *c, const void *buffer, size_t bytes);

#endif
