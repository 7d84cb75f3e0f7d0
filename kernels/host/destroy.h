/* SPDX-License-Identifier: Apache-2.0 */
/* destroy.h - free handles later that could not be freed when the program destroyed or discarded
 * them. */
#ifndef AR_DESTROY_H_
#define AR_DESTROY_H_

/*
 * symtuner_ar_destroy() does not free a handle while a CUDA graph exists that contains its calls.
 * In a local group, all handles of the group then stay as they are, so the graph still works. If
 * the handle belongs to a communicator, its windows and scratch are freed at once, because the
 * communicator may end before the graph. Only the counters stay: they tell a replayed kernel that
 * the handle is gone, and the kernel traps.
 *
 * symtuner_ar_discard() frees nothing, because it must not wait.
 *
 * ar_deferred_free() frees these handles later. It leaves out the handles that a graph still needs,
 * and the discarded handles whose GPU is busy. Every create and destroy calls it.
 */
void ar_deferred_free(void);

#endif
