/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.h - libsymtuner_ar.so and NVIDIA's driver, loaded at run time and called by function
 * pointers.
 *
 * The XLA handler needs only a C compiler and XLA's header, neither CUDA's nor NCCL's.
 * test/jax/same_types.c checks that their types are passed as the plain ones are.
 */
#ifndef FFI_AR_H_
#define FFI_AR_H_

#include <stdarg.h>
#include <stdio.h>

#define SYMTUNER_AR_PLAIN_TYPES
#include "include/symtuner_ar.h"

typedef symtuner_ar ffi_handle;

/* What runs beside our calls: nothing, because XLA runs them in turn with its kernels, on one
 * stream. */
enum { FFI_BESIDE = SYMTUNER_AR_ALONE };

/* The functions that we use, without "symtuner_ar_". */
#define FFI_AR_FUNCTIONS(X)                                                                        \
    X(create)                                                                                      \
    X(create_local)                                                                                \
    X(destroy)                                                                                     \
    X(reserve)                                                                                     \
    X(all_reduce)                                                                                  \
    X(all_reduce_at)                                                                               \
    X(reduce_scatter)                                                                              \
    X(all_gather)                                                                                  \
    X(query)                                                                                       \
    X(describe)                                                                                    \
    X(status)                                                                                      \
    X(abort)                                                                                       \
    X(error)                                                                                       \
    X(version)

struct ffi_ar {
#define X(name) __typeof__(symtuner_ar_##name) *name;
    FFI_AR_FUNCTIONS(X)
#undef X
};

/* Load the library from ${path}. Returns 0, or -1 with a sentence in ${why}. Once a library is
 * loaded, another path is an error. */
int ffi_ar_load(const char *path, char *why, size_t why_size);

/*
 * Make all scratch of new handles now. XLA captures calls at times of its own, on one rank and not
 * on another, and a capture before the scratch is there would refuse it for good. If there is no
 * memory for the scratch, the library has already warned, and cuts long messages into short pieces.
 */
static inline void ffi_ar_reserve(const struct ffi_ar *ar, ffi_handle **handles, int n)
{
    (void)ar->reserve(handles, n, SIZE_MAX);
}

/* Return the functions of the loaded library, or NULL before it is loaded. */
const struct ffi_ar *ffi_ar_get(void);

/* Return a function of libcuda.so.1, or NULL. libsymtuner_ar.so contains a static CUDA runtime, which
 * we cannot call; the driver's library is always there. */
void *ffi_driver(const char *name);

/* Write the reason, and return -1. */
static inline int __attribute__((format(printf, 3, 4)))
ffi_fail(char *why, size_t why_size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_size, format, args);
    va_end(args);
    return -1;
}

#endif
