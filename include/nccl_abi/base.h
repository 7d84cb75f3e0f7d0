/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - the few types that all of NCCL's plugin interfaces use, declared in our own words.
 *
 * The interfaces are plain C: enums with the size of int, pointers, and a logger like printf. The
 * layout is that of NCCL 2.27 to 2.32; test/plugin/check_abi.c checks sizes and offsets.
 */
#ifndef NCCL_ABI_BASE_H_
#define NCCL_ABI_BASE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ncclResult_t, an enum with the size of int. These are only the values that we return. */
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

/* ncclDebugLogger_t. The pointer may be NULL: version 1 of the env interface passes no logger. */
typedef void (*nccl_abi_logger)(int level, unsigned long flags, const char *file, int line,
                                const char *fmt, ...);

#endif
