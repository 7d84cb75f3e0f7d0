/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - libsymtuner_ar.so, opened when the first communicator of a process is made.
 *
 * The drop-in is built without CUDA's and NCCL's headers; test/dropin/headers.c checks that their
 * types are passed as the plain ones are.
 */
#ifndef ST_KERNELS_H_
#define ST_KERNELS_H_

#include <stdatomic.h>
#include <stdbool.h>

#include "dropin/entry/real.h"

#define SYMTUNER_AR_PLAIN_TYPES
#include "symtuner_ar.h"

/* X(function without symtuner_ar_). The library must have the functions of the first map; an older
 * one may lack those of the second. */
#define ST_KERNELS_MAP(X)                                                                          \
    X(use_nccl)                                                                                    \
    X(create)                                                                                      \
    X(destroy)                                                                                     \
    X(register)                                                                                    \
    X(deregister)                                                                                  \
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
    X(discard)

struct st_kernels {
#define X(name) __typeof__(symtuner_ar_##name) *name##_;
    ST_KERNELS_MAP(X)
    ST_KERNELS_LATER_MAP(X)
#undef X
};

/* Return the functions of the library that lies beside this one, told to use NCCL ${real}; NULL,
 * with one warning, if it cannot be loaded, and NULL for a second copy of NCCL. Threads: any. */
const struct st_kernels *st_kernels_for(const struct st_real *real);

/* Has st_kernels_for loaded the library? */
bool st_kernels_loaded(void);

/* ---- the kernels that follow ours on a stream -------------------------------------------------
 *
 * Our kernels let the next kernel start early if the drop-in promises that it waits for ours. NCCL's
 * symmetric kernels of some releases do not wait (enum st_pdl_rule). The drop-in sees every
 * communicator and every window that the program makes with any NCCL that it stands in front of. So
 * it promises as long as none of these kernels can run, and then takes the promise back for good,
 * before NCCL hears of what lets them run. What was launched or captured before may still let the
 * next kernel start early; therefore each later call of such an NCCL is separated from it. */

/* Called when NCCL ${real} has made a communicator. */
void st_followers_comm(const struct st_real *real);
/* Called when NCCL ${real} is about to make a symmetric window. */
void st_followers_window(const struct st_real *real);

extern atomic_bool st_promise_gone; /* given once, and taken back */
void st_separate_now(const struct st_real *real, void *stream);

/* Called when a call goes to NCCL ${real}. */
static inline void st_separate(const struct st_real *real, void *stream)
{
    if (atomic_load_explicit(&st_promise_gone, memory_order_relaxed))
        st_separate_now(real, stream);
}

#endif
