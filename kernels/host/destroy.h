/* SPDX-License-Identifier: Apache-2.0 */
/* destroy.h - handles that could not be freed when they ended. */
#ifndef AR_DESTROY_H_
#define AR_DESTROY_H_

/*
 * symtuner_ar_destroy() does not free a handle while a CUDA graph with its calls lives. A local
 * group stays whole, so its graphs still work. A communicator may end before the graph, so its
 * handles free windows and scratch immediately, but keep the counters. In the counters a replayed
 * kernel reads that it must not run, and traps. symtuner_ar_discard() frees nothing, because it must
 * not wait. ar_deferred_free() frees the handles whose graphs are gone, and of the discarded ones
 * those whose GPU is idle; every create and destroy calls it.
 */
void ar_deferred_free(void);

#endif
