/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - libsymtuner_ar.so, opened when the first communicator of a process is made.
 *
 * The drop-in is built without CUDA's and NCCL's headers, so it declares what it uses of
 * include/symtuner_ar.h itself; test/dropin/headers.c compares the two.
 */
#ifndef ST_KERNELS_H_
#define ST_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dropin/entry/real.h"

struct symtuner_ar;

/* struct symtuner_ar_plan */
struct st_plan {
    size_t size;
    const char *kernel;
    int ctas, threads, zero_copy, pieces;
    char why[192];
};

/* X(function without symtuner_ar_, result, parameters). The library must have the functions of the
 * first map; an older one may lack those of the second. */
#define ST_KERNELS_MAP(X)                                                                          \
    X(use_nccl, int, (void *library))                                                              \
    X(create, int, (struct symtuner_ar * *handles, void *const *comms, int n, const void *config)) \
    X(destroy, int, (struct symtuner_ar * *handles, int n))                                        \
    X(register, int,                                                                               \
      (struct symtuner_ar * *handles, void *const *buffers, void *const *windows, int n,           \
       size_t bytes))                                                                              \
    X(deregister, int, (struct symtuner_ar * *handles, void *const *buffers, int n))               \
    X(all_reduce, int,                                                                             \
      (const void *send, void *recv, size_t count, int dtype, int op, struct symtuner_ar *handle,  \
       void *stream))                                                                              \
    X(query, int,                                                                                  \
      (const void *send, const void *recv, size_t count, int dtype, int op,                        \
       struct symtuner_ar *handle, struct st_plan *plan))                                          \
    X(status, int, (struct symtuner_ar * handle))                                                  \
    X(abort, int, (struct symtuner_ar * handle))                                                   \
    X(error, const char *, (const struct symtuner_ar *handle))                                     \
    X(version, int, (void))
#define ST_KERNELS_LATER_MAP(X)                                                                    \
    X(reduce_scatter, int,                                                                         \
      (const void *send, void *recv, size_t count, int dtype, int op, struct symtuner_ar *handle,  \
       void *stream))                                                                              \
    X(all_gather, int,                                                                             \
      (const void *send, void *recv, size_t count, int dtype, struct symtuner_ar *handle,          \
       void *stream))                                                                              \
    X(query_coll, int,                                                                             \
      (int coll, const void *send, const void *recv, size_t count, int dtype, int op,              \
       struct symtuner_ar *handle, struct st_plan *plan))

struct st_kernels {
#define X(name, result, params) result(*name##_) params;
    ST_KERNELS_MAP(X)
    ST_KERNELS_LATER_MAP(X)
#undef X
};

/* Return the functions of the library that lies beside this one, told to use NCCL ${real}; NULL,
 * with one warning, if it cannot be loaded, and NULL for a second copy of NCCL. Threads: any. */
const struct st_kernels *st_kernels_for(const struct st_real *real);

/* Has st_kernels_for loaded the library? */
bool st_kernels_loaded(void);

#endif
