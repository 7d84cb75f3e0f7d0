/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - the functions of the CUDA driver that the drop-in uses, if the program has loaded it. */
#ifndef ST_CUDA_H_
#define ST_CUDA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ST_CUDA_RELAXED = 2 }; /* CU_STREAM_CAPTURE_MODE_RELAXED */

/* X(our name, the driver's name, parameters). All return 0 for success. */
#define ST_CUDA_MAP(X)                                                                             \
    X(capturing, "cuStreamIsCapturing", (void *stream, int *status))                               \
    X(capture, "cuStreamGetCaptureInfo_v2",                                                        \
      (void *stream, int *status, uint64_t *graph_id, void **graph, const void ***dependencies,    \
       size_t *count))                                                                             \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                              \
    X(context_of, "cuPointerGetAttribute", (void *value, int attribute, uint64_t pointer))         \
    X(push, "cuCtxPushCurrent_v2", (void *context))                                                \
    X(pop, "cuCtxPopCurrent_v2", (void **context))                                                 \
    X(retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                            \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                       \
    X(event_create, "cuEventCreate", (void **event, unsigned flags))                               \
    X(event_record, "cuEventRecord", (void *event, void *stream))                                  \
    X(event_wait, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))                \
    X(event_destroy, "cuEventDestroy_v2", (void *event))                                           \
    X(alloc, "cuMemAlloc_v2", (uint64_t * pointer, size_t bytes))                                  \
    X(free, "cuMemFree_v2", (uint64_t pointer))                                                    \
    X(copy, "cuMemcpyAsync", (uint64_t to, uint64_t from, size_t bytes, void *stream))             \
    X(wait, "cuStreamSynchronize", (void *stream))                                                 \
    X(device, "cuDeviceGet", (int *device, int ordinal))                                           \
    X(attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))

struct st_cuda {
#define X(name, symbol, params) int(*name) params;
    ST_CUDA_MAP(X)
#undef X
};

/* Return the functions, or NULL if the driver is not loaded or lacks one of them. Threads: any. */
const struct st_cuda *st_cuda(void);

/* Is ${stream} being captured into a graph? */
static inline bool st_cuda_captures(const struct st_cuda *cuda, void *stream)
{
    int status = 0;

    return cuda && cuda->capturing(stream, &status) == 0 && status != 0;
}

/* Return how many multiprocessors this process can use of GPU number ${ordinal}, 0 if the driver
 * does not tell. ${cuda} may be NULL. */
static inline int st_cuda_multiprocessors(const struct st_cuda *cuda, int ordinal)
{
    enum { MULTIPROCESSORS = 16 }; /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    int device, count;

    return cuda && cuda->device(&device, ordinal) == 0 &&
                   cuda->attribute(&count, MULTIPROCESSORS, device) == 0
               ? count
               : 0;
}

#endif
