/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - libsymtuner_ar.so, opened when the first communicator of a process is made.
 *
 * The drop-in is built without CUDA's and NCCL's headers. It declares the library's functions with
 * plain integers and pointers instead of the types of those headers. test/dropin/headers.c checks
 * that a call passes both kinds of types in the same way.
 */
#ifndef ST_KERNELS_H_
#define ST_KERNELS_H_

#include <stdatomic.h>
#include <stdbool.h>

#include "dropin/entry/real.h"

#define SYMTUNER_AR_PLAIN_TYPES
#include "symtuner_ar.h"

/* X(name of a function, without symtuner_ar_). The library must have the functions of the first
 * map. An older version of the library may lack functions of the second map. */
#define ST_KERNELS_MAP(X)                                                                          \
    X(use_nccl)                                                                                    \
    X(create)                                                                                      \
    X(destroy)                                                                                     \
    X(register)                                                                                    \
    X(all_reduce)                                                                                  \
    X(query)                                                                                       \
    X(status)                                                                                      \
    X(abort)                                                                                       \
    X(error)                                                                                       \
    X(version)
#define ST_KERNELS_LATER_MAP(X)                                                                    \
    X(reduce_scatter)                                                                              \
    X(all_gather)                                                                                  \
    X(query_coll)                                                                                  \
    X(op_create_premul_sum)                                                                        \
    X(op_destroy)                                                                                  \
    X(followers_wait)                                                                              \
    X(boxes_asked)                                                                                 \
    X(separate)                                                                                    \
    X(deregister_window)                                                                           \
    X(registered)                                                                                  \
    X(discard)                                                                                     \
    X(synchronize)                                                                                 \
    X(decide)

struct st_kernels {
#define X(name) __typeof__(symtuner_ar_##name) *name##_;
    ST_KERNELS_MAP(X)
    ST_KERNELS_LATER_MAP(X)
#undef X
};

/* Load libsymtuner_ar.so from the drop-in's own folder, make it use the copy of NCCL ${real}, and
 * return its functions. Returns NULL, with one warning, if that fails. Also returns NULL if the
 * library already uses another copy of NCCL. Threads: any. */
const struct st_kernels *st_kernels_for(const struct st_real *real);

/* Has st_kernels_for loaded the library? */
bool st_kernels_loaded(void);

/* ---- the kernels that follow ours on a stream -------------------------------------------------
 *
 * Our kernels can let the next kernel of their stream start early, before they end (programmatic
 * dependent launch). They do so if the drop-in promises that the next kernel itself waits for them
 * (symtuner_ar_followers_wait). But NCCL's symmetric kernels of some releases do not wait (enum
 * st_pdl_rule in nccl/release.h). Such a kernel can run only after the program has made a
 * communicator, or in some releases only after it has made a window. The drop-in sees the program
 * make both, with each copy of NCCL whose functions it intercepts. (Of copies that it does not
 * follow, it sees at most the communicators.) So it gives the promise at first, and takes it back
 * for good before such a kernel can run. Kernels of ours that were launched or captured earlier
 * still let the next kernel start early. Therefore, once the promise is gone, the drop-in calls
 * symtuner_ar_separate before each call that goes to an NCCL with such kernels. */

/* Withdraw the promise if NCCL ${real} has a kernel that does not wait for ours and can run on
 * every communicator. Called when NCCL ${real} is about to make a communicator, or has made one. */
void st_followers_comm(const struct st_real *real);
/* Withdraw the promise if NCCL ${real} has a kernel that does not wait for ours and can run on a
 * symmetric window. Called before NCCL ${real} makes such a window. */
void st_followers_window(const struct st_real *real);

/* The drop-in gave the promise, and then withdrew it. A thread that finds this true may use the
 * functions of the kernels' library, which another thread has loaded. */
extern atomic_bool st_promise_gone;
void st_separate_now(const struct st_real *real, void *stream);

/* Call this before each call on ${stream} that goes to NCCL ${real}. If the promise is gone, that
 * call's kernel then waits for the end of our kernels. */
static inline void st_separate(const struct st_real *real, void *stream)
{
    if (atomic_load_explicit(&st_promise_gone, memory_order_acquire))
        st_separate_now(real, stream);
}

#endif
