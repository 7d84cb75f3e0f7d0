/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - the few NCCL types that its plugin interfaces share, declared in our own words.
 *
 * NCCL hands plugins plain C: int-sized enums, pointers, a printf-like logger. These declarations
 * are layout-compatible with NCCL 2.27 to 2.32; test/plugin/check_abi.c asserts sizes and offsets.
 */
#ifndef NCCL_ABI_BASE_H_
#define NCCL_ABI_BASE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ncclResult_t: int-sized. Only the values that we return are named. */
typedef int nccl_abi_result;
enum {
    NCCL_ABI_SUCCESS       = 0,
    NCCL_ABI_INVALID_USAGE = 5,
};

/* The values of ncclDebugLogLevel and the subsystem bits that we use. */
enum {
    NCCL_ABI_LOG_WARN = 2,
    NCCL_ABI_LOG_INFO = 3,
};
enum {
    NCCL_ABI_SUB_INIT   = 0x1,
    NCCL_ABI_SUB_TUNING = 0x40,
};

/* ncclDebugLogger_t. May be NULL: an interface that has no logger (env v1) passes none. */
typedef void (*nccl_abi_logger)(int level, unsigned long flags, const char *file, int line,
                                const char *fmt, ...);

#endif
