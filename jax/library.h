/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.h - libsymtuner_ar.so, loaded at run time and called by function pointers.
 *
 * The types repeat those of include/symtuner_ar.h without CUDA's and NCCL's headers, so that the
 * XLA handler needs only a C compiler and XLA's header. test/jax/same_types.c compares the two.
 */
#ifndef FFI_AR_H_
#define FFI_AR_H_

#include <stddef.h>
#include <stdint.h>

typedef struct symtuner_ar ffi_handle;

struct ffi_ar_config {
    size_t size;
    int transport;
    uint32_t timeout_ms;
    size_t bulk_bytes;
    uint64_t first_epoch;
    int one_stream;
    int max_ctas;
};

struct ffi_ar_plan {
    size_t size;
    const char *kernel;
    int ctas;
    int threads;
    int zero_copy;
    int pieces;
    char why[192];
};

/* Each function as X(result, name without "symtuner_ar_", arguments). NCCL's enums are int here. */
#define FFI_AR_FUNCTIONS(X)                                                                        \
    X(int, create, (ffi_handle **, void *const *, int, const struct ffi_ar_config *))              \
    X(int, create_local, (ffi_handle **, const int *, int, const struct ffi_ar_config *))          \
    X(int, destroy, (ffi_handle **, int))                                                          \
    X(int, reserve, (ffi_handle **, int, size_t))                                                  \
    X(int, all_reduce, (const void *, void *, size_t, int, int, ffi_handle *, void *))             \
    X(int, all_reduce_at,                                                                          \
      (const void *const *, void *const *, size_t, int, int, ffi_handle *, void *))                \
    X(int, query,                                                                                  \
      (const void *, const void *, size_t, int, int, ffi_handle *, struct ffi_ar_plan *))          \
    X(size_t, describe, (ffi_handle *, char *, size_t))                                            \
    X(int, status, (ffi_handle *))                                                                 \
    X(int, abort, (ffi_handle *))                                                                  \
    X(const char *, error, (const ffi_handle *))                                                   \
    X(int, version, (void))

struct ffi_ar {
#define X(result, name, args) result(*name) args;
    FFI_AR_FUNCTIONS(X)
#undef X
};

/* Load the library from ${path}. Returns 0, or -1 with a sentence in ${why}. Once a library is
 * loaded, another path is an error. */
int ffi_ar_load(const char *path, char *why, size_t why_size);

/*
 * Make all scratch of new handles now. XLA captures calls at times of its own, on one rank and not
 * on another, and a capture before the scratch is there would refuse it for good. If there is no
 * memory for it, the library has said so, and cuts long messages into short pieces.
 */
static inline void ffi_ar_reserve(const struct ffi_ar *ar, ffi_handle **handles, int n)
{
    (void)ar->reserve(handles, n, SIZE_MAX);
}

/* Return the functions of the loaded library, or NULL before it is loaded. */
const struct ffi_ar *ffi_ar_get(void);

#endif
