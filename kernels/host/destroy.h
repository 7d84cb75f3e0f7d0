/* SPDX-License-Identifier: Apache-2.0 */
/* destroy.h - free handles later that could not be freed when the program destroyed or discarded
 * them. */
#ifndef AR_DESTROY_H_
#define AR_DESTROY_H_

#include "kernels/group/handle.h"

/* The bit of GPU ${device} in a set of GPUs. */
#define AR_GPU(device) (UINT64_C(1) << (device) % 64)

/* Return the GPUs of these handles, some of which may be NULL. */
uint64_t ar_gpus_of(symtuner_ar *const *handles, int n);

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
 *
 * To free memory of a GPU, CUDA may wait for all kernels on that GPU. If another thread drives the
 * GPU, one of these kernels may wait for a call that this thread has yet to make. So
 * ar_deferred_free() frees only handles on ${gpus}, and of a local group all or none. These are the
 * GPUs of the handles that this thread is just now making or destroying. If a program destroys a
 * list in which all entries are NULL, they are all GPUs.
 */
void ar_deferred_free(uint64_t gpus);

#endif
