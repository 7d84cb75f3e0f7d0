/* SPDX-License-Identifier: Apache-2.0 */
/* memops.c - the driver's stream memory operations, which wait for a word in memory or write it. */
#include "kernels/engines/memops.h"

/* The first constant is the version of the oldest driver that can capture the operations into
 * graphs. The others are from cuda.h: the attribute of a GPU that has the operations for 64-bit
 * words, and the flag of a wait that ends when the word is at least as large as the given value. */
enum { DRIVER_OF_MEMOPS = 12000, CAN_USE_64_BIT_STREAM_MEM_OPS = 122, WAIT_VALUE_GEQ = 0 };

static bool find(const char *name, void **function)
{
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult found;

    return cudaGetDriverEntryPointByVersion(name, function, DRIVER_OF_MEMOPS, cudaEnableDefault,
                                            &found) == cudaSuccess &&
           found == cudaDriverEntryPointSuccess && *function != NULL;
#else
    (void)name, (void)function;
    return false;
#endif
}

bool ar_memops_find(struct ar_memops *ops, int device)
{
    int (*ask)(int *value, int attribute, int device) = NULL;
    int driver = 0, can = 0;
    bool found = cudaDriverGetVersion(&driver) == cudaSuccess && driver >= DRIVER_OF_MEMOPS &&
                 find("cuDeviceGetAttribute", (void **)&ask) &&
                 ask(&can, CAN_USE_64_BIT_STREAM_MEM_OPS, device) == 0 && can != 0 &&
                 find("cuStreamWaitValue64", (void **)&ops->wait) &&
                 find("cuStreamWriteValue64", (void **)&ops->write);

    if (!found)
        cudaGetLastError();
    return found;
}

static cudaError_t told(int result)
{
    return result == 0 ? cudaSuccess : cudaErrorUnknown;
}

cudaError_t ar_memops_await(const struct ar_memops *ops, cudaStream_t stream, void *word)
{
    const unsigned long long at = (uintptr_t)word;
    cudaError_t error = told(ops->wait(stream, at, 1, WAIT_VALUE_GEQ));

#ifndef ST_BREAK_RESET
    if (error == cudaSuccess)
        error = told(ops->write(stream, at, 0, 0));
#endif
    return error;
}
