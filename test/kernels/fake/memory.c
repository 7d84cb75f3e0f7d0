/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - a fake of the driver's knowledge of allocations, of its stream memory operations, and
 * of CUDA IPC. */
#include "test/kernels/fake/memory.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

struct fake_memory fake_memory;

static struct {
    char *base;
    size_t bytes;
    int device;
    unsigned long long id, handle; /* handle: that of memory from cuMemCreate, or 0 */
    uint64_t types;                /* the types of shareable handles that it can have */
} list[MOST];
static int count;
static unsigned long long ids;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Put the allocation in the place of one that is gone, or at the end of the list. */
static void add(void *base, size_t bytes, int device, unsigned long long handle, unsigned types)
{
    int at = 0;

    pthread_mutex_lock(&lock);
    while (at < count && list[at].base != NULL)
        at++;
    if (at == MOST)
        abort();
    count += at == count;
    list[at].base = base;
    list[at].bytes = bytes;
    list[at].device = device;
    list[at].id = ++ids;
    list[at].handle = handle;
    list[at].types = types;
    pthread_mutex_unlock(&lock);
}

void fake_allocation(void *base, size_t bytes, int device)
{
    fake_allocation_gone(base);
    add(base, bytes, device, 0, 0);
}

void fake_created(void *base, size_t bytes, int device, unsigned types)
{
    fake_allocation_gone(base);
    add(base, bytes, device, fake_handle_new(base), types);
}

void fake_created_also(void *also, void *base)
{
    struct fake_found found;

    if (!fake_find((uintptr_t)base, &found))
        abort();
    fake_handle_keep(found.handle);
    add(also, found.bytes, 0, found.handle, 1);
}

void fake_allocation_gone(void *base)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++)
        if (list[i].base == base && base != NULL) {
            list[i].base = NULL;
            fake_handle_free(list[i].handle);
        }
    pthread_mutex_unlock(&lock);
}

void fake_memory_clear(void)
{
    count = 0;
    fake_handles_clear();
    memset(&fake_memory, 0, sizeof fake_memory);
}

/* Return the index of the allocation in the list that holds ${p}, or -1. */
static int find(uintptr_t p)
{
    for (int i = 0; i < count; i++)
        if (list[i].base != NULL && p >= (uintptr_t)list[i].base &&
            p < (uintptr_t)list[i].base + list[i].bytes)
            return i;
    return -1;
}

bool fake_find(unsigned long long p, struct fake_found *found)
{
    int at;

    pthread_mutex_lock(&lock);
    at = find(p);
    if (at >= 0)
        *found = (struct fake_found){list[at].base, list[at].bytes, list[at].handle};
    pthread_mutex_unlock(&lock);
    return at >= 0;
}

/* The attributes are numbers of enum CUpointer_attribute. */
static int get_attributes(unsigned n, const int *attributes, void **values, unsigned long long p)
{
    static void *const reserved = (void *)4096;
    void *const pool = fake_memory.pool ? &list : NULL;
    static const size_t most = (size_t)1 << 47;
    int at;

    pthread_mutex_lock(&lock);
    at = find(p);
    for (unsigned i = 0; i < n && at >= 0; i++) {
        const bool created = list[at].handle != 0;
        const int can_map = !fake_memory.no_handles && !created;
        const struct {
            int attribute;
            const void *value;
            size_t bytes;
        } known[] = {{7, &list[at].id, sizeof list[at].id},
                     {9, &list[at].device, sizeof list[at].device},
                     {10, &can_map, sizeof can_map},
                     {11, created ? &reserved : (const void *)&list[at].base, sizeof reserved},
                     {12, created ? &most : &list[at].bytes, sizeof most},
                     {14, &list[at].types, sizeof list[at].types},
                     {17, &pool, sizeof pool}};

        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (known[k].attribute == attributes[i])
                memcpy(values[i], known[k].value, known[k].bytes);
    }
    pthread_mutex_unlock(&lock);
    return at < 0;
}

static int get_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 122 && !fake_memory.no_memops; /* 122 is CAN_USE_64_BIT_STREAM_MEM_OPS */
    return 0;
}

static int wait_value(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags)
{
    (void)stream, (void)word;
    __atomic_add_fetch(&fake_memory.waits, 1, __ATOMIC_RELAXED);
    return value != 1 || flags != 0;
}

static int write_value(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags)
{
    (void)stream, (void)word;
    __atomic_add_fetch(&fake_memory.writes, 1, __ATOMIC_RELAXED);
    return value != 0 || flags != 0;
}

void (*fake_driver(const char *name))(void)
{
    static const struct {
        const char *name;
        void (*function)(void);
        bool memops;
    } known[] = {
        {"cuPointerGetAttributes", (void (*)(void))get_attributes, false},
        {"cuDeviceGetAttribute", (void (*)(void))get_attribute, true},
        {"cuStreamWaitValue64", (void (*)(void))wait_value, true},
        {"cuStreamWriteValue64", (void (*)(void))write_value, true},
    };

    if (fake_memory.look_up != NULL)
        fake_memory.look_up();
    if (fake_memory.lacks != NULL && strcmp(name, fake_memory.lacks) == 0)
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0 && (fake_memory.memops || !known[i].memops))
            return known[i].function;
    return fake_vmm_function(name);
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
