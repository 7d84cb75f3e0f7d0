/* SPDX-License-Identifier: Apache-2.0 */
/* destroy.h - handles that could not be freed when the program destroyed or discarded them. */
#ifndef AR_DESTROY_H_
#define AR_DESTROY_H_

/*
 * symtuner_ar_destroy() does not free a handle while a CUDA graph lives that holds its calls. All
 * handles of a local group then stay as they are, so the graph still works. A handle of a
 * communicator frees its windows and scratch immediately, because the communicator may end before
 * the graph, and keeps only its counters. A replayed kernel reads in the counters that it must not
 * run, and traps.
 *
 * symtuner_ar_discard() frees nothing, because it must not wait.
 *
 * ar_deferred_free() frees all these handles, but not those that a graph still needs, and no
 * discarded handle whose GPU is busy. Every create and destroy calls it.
 */
void ar_deferred_free(void);

#endif
