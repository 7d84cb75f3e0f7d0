/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - lets the streams of a group wait for each other, as NCCL does.
 *
 * If the calls of one communicator in a group use several streams, NCCL's kernel waits for the
 * earlier work of all these streams, and later work of each of them waits for the kernel
 * (enqueue.cc of 2.30.7). Programs rely on that. Our kernels wait only for their own stream. So if
 * our kernels run calls of such a communicator, the streams wait for each other, through CUDA's
 * events, before the group's calls and again after them. The host does not wait. The streams that
 * wait are those of all calls of the communicator, also of those that NCCL runs.
 *
 * If some of the streams are captured, and not all into the same graph, they do not wait, because
 * CUDA would report an error. NCCL refuses such groups.
 */
#ifndef ST_STREAMS_H_
#define ST_STREAMS_H_

#include "dropin/group.h"

/* Remember that a call of ${c} in the open group ${g} uses ${stream}. If memory is short, the
 * stream is forgotten, and does not wait for the others. */
void st_streams_add(struct st_group *g, const struct st_comm *c, void *stream);

/* Let the streams of each communicator that has calls in the queue of ${g} wait for each other.
 * Call this before NCCL's ncclGroupEnd. Our kernels then do not wait for NCCL's kernels of the
 * group, for example for a large send, for which a peer may not wait either. Returns false if CUDA
 * fails. */
bool st_streams_before(struct st_group *g);
/* Let the same streams wait for each other again, after all calls of the group. */
bool st_streams_after(const struct st_group *g);

#endif
