/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - see memory.h. */
#include "test/kernels/fake/memory.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 4096 };

struct fake_memory fake_memory;

static struct {
    char *base;
    size_t bytes;
    int device;
    unsigned long long id;
} list[MOST];
static int count;
static unsigned long long ids;

void fake_allocation(void *base, size_t bytes, int device)
{
    int at = 0;

    while (at < count && list[at].base != base)
        at++;
    count += at == count;
    list[at].base = base;
    list[at].bytes = bytes;
    list[at].device = device;
    list[at].id = ++ids;
}

void fake_memory_clear(void)
{
    count = 0;
    memset(&fake_memory, 0, sizeof fake_memory);
}

/* The numbers are those of enum CUpointer_attribute. */
static int get_attributes(unsigned n, const int *attributes, void **values, unsigned long long p)
{
    int at = 0;

    while (at < count &&
           (p < (uintptr_t)list[at].base || p >= (uintptr_t)list[at].base + list[at].bytes))
        at++;
    if (at == count)
        return 1;
    for (unsigned i = 0; i < n; i++) {
        const struct {
            int attribute;
            const void *value;
            size_t bytes;
        } known[] = {{7, &list[at].id, sizeof list[at].id},
                     {9, &list[at].device, sizeof list[at].device},
                     {11, &list[at].base, sizeof list[at].base},
                     {12, &list[at].bytes, sizeof list[at].bytes}};

        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (known[k].attribute == attributes[i])
                memcpy(values[i], known[k].value, known[k].bytes);
    }
    return 0;
}

void (*fake_driver(const char *name))(void)
{
    return strcmp(name, "cuPointerGetAttributes") == 0 ? (void (*)(void))get_attributes : NULL;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p)
{
    __atomic_add_fetch(&fake_memory.handles, 1, __ATOMIC_RELAXED);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &p, sizeof p);
    return fake_memory.no_handles ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags)
{
    if (fake_memory.no_open || flags != cudaIpcMemLazyEnablePeerAccess)
        return cudaErrorInvalidValue;
    __atomic_add_fetch(&fake_memory.opened, 1, __ATOMIC_RELAXED);
    memcpy(p, &handle, sizeof *p);
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
    (void)p;
    __atomic_add_fetch(&fake_memory.closed, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}
