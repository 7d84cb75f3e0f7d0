/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - the few functions of the CUDA driver that the drop-in uses, on host memory. Stream 2 is
 * always being captured. With NO_MEMORY in the environment, allocations fail. Each GPU has as many
 * multiprocessors as MULTIPROCESSORS says; 132 if it is not set. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/verify/cuda.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuStreamIsCapturing(void *stream, int *status);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer);
EXPORT int cuCtxPushCurrent_v2(void *context);
EXPORT int cuCtxPopCurrent_v2(void **context);
EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);
EXPORT int cuMemFree_v2(uint64_t pointer);
EXPORT int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream);
EXPORT int cuStreamSynchronize(void *stream);
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);

static _Thread_local int mode_now;

int cuStreamIsCapturing(void *stream, int *status)
{
    *status = (uintptr_t)stream == 2;
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = mode_now;

    mode_now = *mode;
    *mode = before;
    return 0;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
    *(uint64_t *)value = pointer;
    return attribute != 1;
}

int cuCtxPushCurrent_v2(void *context)
{
    return context == NULL;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = NULL;
    return 0;
}

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    *pointer = (uint64_t)(uintptr_t)malloc(bytes);
    return mode_now != ST_CUDA_RELAXED || getenv("NO_MEMORY");
}

int cuMemFree_v2(uint64_t pointer)
{
    free((void *)(uintptr_t)pointer);
    return 0;
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

int cuStreamSynchronize(void *stream)
{
    (void)stream;
    return 0;
}

/* The driver's number of a GPU need not equal its ordinal, so the fake returns another number. */
int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal + 100;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const char *count = getenv("MULTIPROCESSORS");

    *value = count ? atoi(count) : 132;
    return attribute != 16 || device < 100;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(1 + (intptr_t)device);
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    return context == NULL;
}
