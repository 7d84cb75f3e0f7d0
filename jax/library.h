/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.h - find libsymtuner_ar.so, NVIDIA's driver and the drop-in at run time, to call them by
 * function pointers. Also find the slot in which this process counts its calls.
 *
 * The XLA handler is built with XLA's header only. In place of the types of CUDA and NCCL it
 * declares plain integers and pointers. test/jax/same_types.c checks that these are passed to
 * functions in the same way as the types of CUDA and NCCL.
 */
#ifndef FFI_AR_H_
#define FFI_AR_H_

#include <stdarg.h>
#include <stdio.h>

#define SYMTUNER_AR_PLAIN_TYPES
#include "include/symtuner_ar.h"

typedef symtuner_ar ffi_handle;

/* The value of config.beside for our handles: nothing runs beside our calls, because XLA runs our
 * calls and its own kernels one after another, on one stream. */
enum { FFI_BESIDE = SYMTUNER_AR_ALONE };

/* The names of the functions that we use, without the prefix "symtuner_ar_". */
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
    X(query_coll)                                                                                  \
    X(describe)                                                                                    \
    X(status)                                                                                      \
    X(abort)                                                                                       \
    X(waits)                                                                                       \
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
 * Allocate all scratch of new handles now, before XLA can capture a call. XLA itself decides when
 * it captures a call, and may capture it on one rank and not on another. If a call is captured
 * before its scratch exists, the library never allocates that scratch (include/symtuner_ar.h,
 * Scratch). If there is no memory for the scratch, the library prints a warning, and sends the data
 * of a long call in several pieces.
 */
static inline void ffi_ar_reserve(const struct ffi_ar *ar, ffi_handle **handles, int n)
{
    (void)ar->reserve(handles, n, SIZE_MAX);
}

/* Return the configuration for new handles of JAX's groups on ${n} GPUs. The kernels of these
 * handles give up after ${timeout_ms}; 0: the default. If NCCL communicators of the program already
 * have handles on one of these GPUs, the calls of JAX's handles get fewer thread blocks
 * (dropin/entry/jax.h). */
struct symtuner_ar_config ffi_ar_config(uint32_t timeout_ms, const int *devices, int n);

/* Return the functions of the loaded library, or NULL before it is loaded. */
const struct ffi_ar *ffi_ar_get(void);

/* Return a function of libcuda.so.1, or NULL. We use the driver's library, because it is always
 * there. libsymtuner_ar.so contains a static CUDA runtime, which we cannot call. */
void *ffi_driver(const char *name);

/* The drop-in lets only a few communicators of the program use our kernels on a GPU
 * (SYMTUNER_MAX_COMMS). Ask it to keep the place of one of them on each GPU for our groups
 * (dropin/entry/jax.h). Returns 1 if this place is free on the GPU ${device}, if ${device} is below
 * 0, or if there is no drop-in. Otherwise returns 0. */
int ffi_keep_place(int device);

/* Return this process's slot in the file in which a job under `symtuner run` counts its calls
 * (dropin/tally.h), or NULL if this process has none. A forked child has none until it opens a
 * group itself. */
struct st_tally_slot *ffi_slot(void);

/* Count in the slot that a group of ${ranks} was opened, in which this process has rank ${rank}. If
 * this process has no slot, claim one first. If the drop-in is loaded, get the slot from it, so
 * that the drop-in and this library count in the same slot. If there is no file to count in,
 * nothing is counted. */
void ffi_slot_claim(int rank, int ranks);

/* Write a reason to ${why}, with a format as for printf, and return -1. */
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
