/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm.c - a fake of the driver's functions for memory from cuMemCreate; see memory.h.
 *
 * A handle is a number, from 1 on. When a handle has no more users, another allocation may get its
 * number, as in the driver. A shareable descriptor is a file that contains the number.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/kernels/fake/memory.h"

enum { HANDLES = 1024, MAPPINGS = 4096, INVALID = 1 };

typedef unsigned long long address;

static struct {
    char *base; /* the address at which its owner has the memory */
    int kept;   /* number of its users: its owner, all who retained or imported it, and mappings */
} handles[HANDLES];

static struct {
    address at, handle; /* handle 0: reserved only */
    size_t bytes;       /* 0: unused */
    bool access;
} mappings[MAPPINGS];
static address next = (address)1 << 46;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool fails(const char *name)
{
    return fake_memory.fails != NULL && strcmp(fake_memory.fails, name) == 0;
}

address fake_handle_new(char *base)
{
    address n = 1;

    pthread_mutex_lock(&lock);
    while (n < HANDLES && handles[n].kept != 0)
        n++;
    if (n == HANDLES)
        abort();
    handles[n].base = base;
    handles[n].kept = 1;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Add ${by} to the number of users of a handle. Returns false if there is no such handle. */
static bool keep(address handle, int by)
{
    bool valid;

    pthread_mutex_lock(&lock);
    valid = handle > 0 && handle < HANDLES && handles[handle].kept > 0;
    if (valid)
        handles[handle].kept += by;
    pthread_mutex_unlock(&lock);
    return valid;
}

void fake_handle_keep(address handle)
{
    keep(handle, 1);
}

void fake_handle_free(address handle)
{
    keep(handle, -1);
}

void fake_handles_clear(void)
{
    memset(handles, 0, sizeof handles);
    memset(mappings, 0, sizeof mappings);
}

char *fake_mapped_at(const char *at)
{
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i].at == (uintptr_t)at && mappings[i].bytes != 0 && mappings[i].access)
            return handles[mappings[i].handle].base;
    return NULL;
}

/* ---- the driver's functions ------------------------------------------------------------------ */

static int get_range(address *base, size_t *bytes, address p)
{
    struct fake_found found;

    if (fails("cuMemGetAddressRange") || !fake_find(p, &found))
        return INVALID;
    *base = (uintptr_t)found.base;
    *bytes = found.bytes;
    return 0;
}

static int retain(address *handle, void *p)
{
    struct fake_found found;

    if (fails("cuMemRetainAllocationHandle") || !fake_find((uintptr_t)p, &found) ||
        !keep(found.handle, 1))
        return INVALID;
    *handle = found.handle;
    __atomic_add_fetch(&fake_memory.kept, 1, __ATOMIC_RELAXED);
    return 0;
}

static int release(address handle)
{
    if (!keep(handle, -1))
        return INVALID;
    __atomic_sub_fetch(&fake_memory.kept, 1, __ATOMIC_RELAXED);
    return 0;
}

static int export_to(int *fd, address handle, int type, address flags)
{
    __atomic_add_fetch(&fake_memory.exported, 1, __ATOMIC_RELAXED);
    if (fails("cuMemExportToShareableHandle") || type != 1 || flags != 0)
        return INVALID;
    *fd = memfd_create("fake", 0);
    return *fd < 0 || write(*fd, &handle, sizeof handle) != sizeof handle;
}

static int import_from(address *handle, void *fd, int type)
{
    if (fails("cuMemImportFromShareableHandle") || type != 1 ||
        pread((int)(intptr_t)fd, handle, sizeof *handle, 0) != sizeof *handle || !keep(*handle, 1))
        return INVALID;
    __atomic_add_fetch(&fake_memory.kept, 1, __ATOMIC_RELAXED);
    return 0;
}

static int find_mapping(address at)
{
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i].bytes != 0 && mappings[i].at == at)
            return i;
    abort();
}

static int reserve(address *at, size_t bytes, size_t alignment, address wish, address flags)
{
    int i = 0;

    if (fails("cuMemAddressReserve") || bytes == 0 || alignment + wish + flags != 0)
        return INVALID;
    pthread_mutex_lock(&lock);
    while (i < MAPPINGS && mappings[i].bytes != 0)
        i++;
    if (i == MAPPINGS)
        abort();
    mappings[i].at = *at = next;
    mappings[i].bytes = bytes;
    mappings[i].handle = 0;
    mappings[i].access = false;
    next += bytes + 4096;
    fake_memory.reserved++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int unreserve(address at, size_t bytes)
{
    int i, failed;

    pthread_mutex_lock(&lock);
    i = find_mapping(at);
    failed = mappings[i].bytes != bytes || mappings[i].handle != 0;
    mappings[i].bytes = 0;
    fake_memory.reserved--;
    pthread_mutex_unlock(&lock);
    if (failed)
        abort();
    return 0;
}

static int map(address at, size_t bytes, size_t offset, address handle, address flags)
{
    if (fails("cuMemMap") || offset + flags != 0 || bytes != mappings[find_mapping(at)].bytes ||
        !keep(handle, 1))
        return INVALID;
    mappings[find_mapping(at)].handle = handle;
    __atomic_add_fetch(&fake_memory.mapped, 1, __ATOMIC_RELAXED);
    return 0;
}

static int unmap(address at, size_t bytes)
{
    const int i = find_mapping(at);

    if (bytes != mappings[i].bytes || !keep(mappings[i].handle, -1))
        abort();
    mappings[i].handle = 0;
    __atomic_sub_fetch(&fake_memory.mapped, 1, __ATOMIC_RELAXED);
    return 0;
}

static int set_access(address at, size_t bytes, const int *access, size_t count)
{
    const int i = find_mapping(at);

    if (fails("cuMemSetAccess") || bytes != mappings[i].bytes || count != 1 || access[0] != 1 ||
        access[2] != 3)
        return INVALID;
    mappings[i].access = true;
    return 0;
}

void (*fake_vmm_function(const char *name))(void)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } known[] = {
        {"cuMemGetAddressRange", (void (*)(void))get_range},
        {"cuMemRetainAllocationHandle", (void (*)(void))retain},
        {"cuMemRelease", (void (*)(void))release},
        {"cuMemExportToShareableHandle", (void (*)(void))export_to},
        {"cuMemImportFromShareableHandle", (void (*)(void))import_from},
        {"cuMemAddressReserve", (void (*)(void))reserve},
        {"cuMemAddressFree", (void (*)(void))unreserve},
        {"cuMemMap", (void (*)(void))map},
        {"cuMemUnmap", (void (*)(void))unmap},
        {"cuMemSetAccess", (void (*)(void))set_access},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].function;
    return NULL;
}
