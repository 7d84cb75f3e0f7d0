/* SPDX-License-Identifier: Apache-2.0 */
/* destroy.h - handles that were destroyed while a graph held calls of theirs. */
#ifndef AR_DESTROY_H_
#define AR_DESTROY_H_

/*
 * symtuner_ar_destroy() puts off freeing a handle while a CUDA graph with its calls lives. A local
 * group stays whole, so its graphs still work. Of a communicator, which may end before the graph,
 * everything is freed but the counters, in which a replayed kernel finds that it must not run (it
 * traps). This frees the handles whose graphs are gone; every create and destroy calls it.
 */
void ar_deferred_free(void);

#endif
