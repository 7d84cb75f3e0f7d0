/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - memory of the CUDA runtime on the CPU (cuda.c), and the properties of its GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/kernels/fake/capture_info.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/memory.h"
#include "test/whole/stream.h"

/* SHARED_MOST: largest shared memory of a block, in bytes */
enum { MULTIPROCESSORS = 8, SHARED_MOST = 227 << 10 };

struct fake_cuda fake = {.peers = 1}; /* test/kernels/fake/links.c reads this */
_Thread_local int whole_current;
static _Thread_local cudaError_t last_error;

void whole_live(int more)
{
    __atomic_add_fetch(&fake.live, more, __ATOMIC_RELAXED);
}

cudaError_t whole_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

int whole_captures;

void whole_prohibited(void)
{
    if (!fake_capture_relaxed() && __atomic_load_n(&whole_captures, __ATOMIC_RELAXED) > 0)
        __atomic_add_fetch(&whole_cuda.prohibited, 1, __ATOMIC_RELAXED);
}

/* The kernels for which cudaFuncSetAttribute has allowed more shared memory. A kernel must be in
 * this list if its launch asks for any dynamic shared memory. CUDA checks only launches above 48
 * KiB. Here that would not show that a call of cudaFuncSetAttribute is missing, because emulated
 * kernels need less than kernels on a GPU. */
static const void *large[1024];

bool whole_may_share(const void *kernel)
{
    bool found = false;

    pthread_mutex_lock(&whole_lock);
    for (int i = 0; large[i] != NULL && !found; i++)
        found = large[i] == kernel;
    pthread_mutex_unlock(&whole_lock);
    return found;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    int i = 0;

    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value > SHARED_MOST)
        return whole_error(cudaErrorInvalidValue);
    pthread_mutex_lock(&whole_lock);
    while (large[i] != NULL && large[i] != func)
        i++;
    large[i] = func;
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

/* ---- memory ---------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    whole_prohibited();
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    whole_live(*p != NULL);
    if (*p != NULL)
        fake_allocation(*p, bytes, whole_current);
    return whole_error(*p != NULL ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *p)
{
    whole_prohibited();
    cudaDeviceSynchronize();
    whole_live(-(p != NULL));
    fake_allocation_gone(p);
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(p, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    whole_live(1);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    (void)p;
    whole_live(-1);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = (size_t)8 << 30;
    return cudaSuccess;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = DEVICES;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= DEVICES)
        return whole_error(cudaErrorInvalidDevice);
    whole_current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = whole_current;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    (void)device;
    *value = attr == cudaDevAttrMaxSharedMemoryPerBlockOptin ? SHARED_MOST
             : attr == cudaDevAttrMultiProcessorCount        ? MULTIPROCESSORS
             : attr == cudaDevAttrComputeCapabilityMinor     ? 0
                                                             : 9;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    (void)func;
    memset(attr, 0, sizeof *attr);
    attr->ptxVersion = 90;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    *device = (int)strtol(text + 5, NULL, 16);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int from, int to)
{
    (void)attr, (void)from, (void)to;
    *value = 1;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error";
}
