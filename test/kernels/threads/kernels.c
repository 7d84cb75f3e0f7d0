/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - addresses that stand for the compiled kernels, for a fake CUDA that runs none. */
#include "kernels/choose/families.h"
#include "kernels/shared/args.h"

/* Each kernel family has two addresses instead of compiled kernels: one for kernels that add, and
 * one for kernels that multiply first. */
#define ROW(half, name)                                                                            \
    const struct ar_kernel_row ar_##half##_##name = {                                              \
        {[0 ... AR_R_PREMUL - 1] = {&name##_kernel[0]},                                            \
         [AR_R_PREMUL... AR_REDUCERS - 1] = {&name##_kernel[1]}}};
#define X(family, name, ...)                                                                       \
    static const char name##_kernel[2];                                                            \
    ROW(kernels, name)
AR_FAMILY_MAP(X)
#undef X

#define X(family, name) ROW(scatter, name)
AR_SCATTER_MAP(X)
#undef X
#define X(family, name) const struct ar_kernel_row ar_gather_##name = {{{&name##_kernel}}};
AR_GATHER_MAP(X)
#undef X

static const char signal_kernel, await_kernel, probe_kernel;
const void *const ar_kernel_signal = &signal_kernel, *const ar_kernel_await = &await_kernel;
const void *const ar_kernel_probe = &probe_kernel;
