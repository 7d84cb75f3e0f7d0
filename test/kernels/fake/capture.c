/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - more of the fake CUDA (cuda.h): stream captures, the driver's functions, work on
 * streams, and which kernels are loaded. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/kernels/fake/capture_info.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/event_nodes.h"
#include "test/kernels/fake/memory.h"
#include "test/whole/cuda.h"

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = fake.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    if (fake_prohibited())
        return cudaErrorStreamCaptureUnsupported;
    __atomic_add_fetch(&fake.queries, 1, __ATOMIC_RELAXED);
    if (fake.unreached == 0)
        return cudaSuccess;
    fake.unreached -= fake.unreached > 0;
    return cudaErrorNotReady;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "some error";
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = fake.driver != 0 ? fake.driver : 13000;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    void (*known)(void) = fake_driver(symbol);

    (void)version, (void)flags;
    memcpy(function, &known, sizeof *function);
    *found = known != NULL ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
#endif

/* ---- what separates a kernel from the kernels before it -------------------------------------- */

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *what)
{
    (void)stream, (void)function, (void)what;
    __atomic_add_fetch(&fake.host_functions, 1, __ATOMIC_RELAXED);
    return fake.fails != NULL && strcmp(fake.fails, "cudaLaunchHostFunc") == 0 ? cudaErrorUnknown
                                                                               : cudaSuccess;
}

cudaError_t fake_capture_after(cudaStream_t stream, cudaGraphNode_t node)
{
    (void)stream;
    if (fake.capture != 0 && (struct fake_node *)node >= fake_nodes &&
        (struct fake_node *)node < fake_nodes + FAKE_NODES)
        return fake_named("cudaStreamUpdateCaptureDependencies");
    if (fake.capture == 0 || node != (cudaGraphNode_t)(uintptr_t)fake.capture)
        return cudaErrorIllegalState;
    __atomic_add_fetch(&fake.empty_nodes, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return cudaMemset(p, value, bytes);
}

/* Streams are always idle here, so work that is put into a stream runs at once. */
cudaError_t whole_host(cudaStream_t stream, void (*host)(void *what), const void *what, size_t size)
{
    max_align_t copy[16];

    (void)stream;
    memcpy(copy, what, size);
    host(copy);
    return cudaSuccess;
}

void fake_probe(void *seen, unsigned ctas)
{
    struct ar_probe_seen *out = seen;

    for (unsigned b = 0; b < ctas; b++)
        out[b] = (struct ar_probe_seen){fake.probed.bytes * (b + 1), fake.probed.ns * (b + 1),
                                        b + 1 == ctas ? fake.probed.wrong : 0};
}

/* ---- kernels --------------------------------------------------------------------------------- */

enum { KERNELS = 1 << 13 };
static const void *loaded[KERNELS];
static int kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* needed because ranks are threads */

static bool is_loaded(const void *kernel)
{
    for (int i = 0; i < kernels; i++)
        if (loaded[i] == kernel)
            return true;
    return false;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *kernel)
{
    pthread_mutex_lock(&lock);
    if (!is_loaded(kernel) && kernels < KERNELS)
        loaded[kernels++] = kernel;
    pthread_mutex_unlock(&lock);
    memset(attr, 0, sizeof *attr);
    attr->ptxVersion = fake.arch;
    return cudaSuccess;
}

void fake_must_be_loaded(const void *kernel)
{
    bool fine;

    pthread_mutex_lock(&lock);
    fine = is_loaded(kernel);
    pthread_mutex_unlock(&lock);
    if (fine)
        return;
    fputs("fake_cuda: a kernel is launched that was not loaded\n", stderr);
    abort();
}
