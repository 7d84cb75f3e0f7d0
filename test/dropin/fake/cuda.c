/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - the few functions of the CUDA driver that the drop-in uses, on host memory. With
 * NO_MEMORY in the environment, allocations fail. Each GPU has as many multiprocessors as
 * MULTIPROCESSORS says; 132 if it is not set.
 *
 * Streams are small numbers. Stream 2 is always being captured, and so are streams 32 to 63, eight
 * into each graph. Nothing runs, but the fake knows which work comes before which. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/verify/cuda.h"
#include "test/dropin/fake/cuda.h"

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
EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph,
                                     const void ***dependencies, size_t *count);
EXPORT int cuEventCreate(void **event, unsigned flags);
EXPORT int cuEventRecord(void *event, void *stream);
EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
EXPORT int cuEventDestroy_v2(void *event);
EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);

static _Thread_local int mode_now, contexts;  /* contexts: how many were pushed */
static int held, alive;                       /* primary contexts retained, events that exist */
static _Atomic uint64_t behind[FAKE_STREAMS]; /* a bit for each work in the stream, or before it */
static int works;

/* Return which graph the stream is captured into; 0: none. */
static uint64_t graph_of(void *stream)
{
    return (uintptr_t)stream == 2 ? 1 : (uintptr_t)stream >= 32 ? (uintptr_t)stream / 8 : 0;
}

uint64_t fake_work(void *stream)
{
    uint64_t earlier = behind[(uintptr_t)stream];

    behind[(uintptr_t)stream] |= UINT64_C(1) << works++;
    return earlier;
}

int fake_left(void)
{
    return held + alive + contexts;
}

struct event {
    uint64_t before, graph;
};

int cuEventCreate(void **event, unsigned flags)
{
    if (contexts == 0 || flags != 2)
        return 1;
    *event = calloc(1, sizeof(struct event));
    __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    return 0;
}

int cuEventRecord(void *event, void *stream)
{
    struct event *e = event;

    if (getenv("NO_EVENTS"))
        return 1;
    e->before = behind[(uintptr_t)stream];
    e->graph = graph_of(stream);
    return 0;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    struct event *e = event;

    behind[(uintptr_t)stream] |= e->before;
    return flags != 0 || e->graph != graph_of(stream);
}

int cuEventDestroy_v2(void *event)
{
    free(event);
    __atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    *status = graph_of(stream) != 0;
    return 0;
}

int cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph,
                              const void ***dependencies, size_t *count)
{
    *status = graph_of(stream) != 0;
    *id = graph_of(stream);
    return contexts == 0 || graph || dependencies || count;
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
    contexts += context != NULL;
    return context == NULL;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = NULL;
    contexts--;
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
    __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    __atomic_sub_fetch(&held, 1, __ATOMIC_RELAXED);
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    return context == NULL;
}
