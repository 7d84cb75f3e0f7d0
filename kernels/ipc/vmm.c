/* SPDX-License-Identifier: Apache-2.0 */
/* vmm.c - see vmm.h. */
#include "kernels/ipc/vmm.h"

#include <fcntl.h>
#include <stdint.h>

#include "base/set_once.h"
#include "kernels/ipc/driver.h"

/* Constants of the driver's interface (cuda.h). The comment behind each one names its
 * enumeration. */
enum { ALLOWED_HANDLE_TYPES = 14, MEMPOOL_HANDLE = 17 }; /* CUpointer_attribute */
enum { POSIX_FILE_DESCRIPTOR = 1 };                      /* CUmemAllocationHandleType */
enum { ON_DEVICE = 1 };                                  /* CUmemLocationType */
enum { READ_AND_WRITE = 3 };                             /* CUmemAccess_flags */

/* CUmemAccessDesc */
struct access {
    int location, id, flags;
};

typedef unsigned long long address; /* CUdeviceptr, and CUmemGenericAllocationHandle */

/* The driver's functions. We always pass 0 for ${offset}, ${alignment}, ${wish} (an address) and
 * ${flags}: it is the only value that is allowed, or it lets the driver choose. */
static struct driver {
    int (*get_range)(address *base, size_t *bytes, address p);
    int (*retain)(address *handle, void *p);
    int (*release)(address handle);
    int (*export_to)(void *fd, address handle, int type, address flags);
    int (*import_from)(address *handle, void *fd, int type);
    int (*reserve)(address *at, size_t bytes, size_t alignment, address wish, address flags);
    int (*unreserve)(address at, size_t bytes);
    int (*map)(address at, size_t bytes, size_t offset, address handle, address flags);
    int (*unmap)(address at, size_t bytes);
    int (*set_access)(address at, size_t bytes, const struct access *list, size_t count);
    bool has_all; /* the driver has all of these functions */
} driver;

static void find_functions(struct driver *d)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"cuMemGetAddressRange", &d->get_range},
        {"cuMemRetainAllocationHandle", &d->retain},
        {"cuMemRelease", &d->release},
        {"cuMemExportToShareableHandle", &d->export_to},
        {"cuMemImportFromShareableHandle", &d->import_from},
        {"cuMemAddressReserve", &d->reserve},
        {"cuMemAddressFree", &d->unreserve},
        {"cuMemMap", &d->map},
        {"cuMemUnmap", &d->unmap},
        {"cuMemSetAccess", &d->set_access},
    };

    d->has_all = true;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        d->has_all = ar_driver_find(wanted[i].name, wanted[i].function) && d->has_all;
}

static bool is_there(void)
{
    static atomic_bool known;

    if (!st_is_set(&known)) {
        struct driver found;

        find_functions(&found);
        st_set_once(&known, &driver, &found, sizeof found);
    }
    return driver.has_all;
}

/* This does not find memory of a pool (cudaMallocAsync), because its file descriptor would stand
 * for the whole pool. */
bool ar_vmm_find(const void *p, struct ar_vmm *found)
{
    uint64_t types = 0; /* the driver may write only the lower half */
    void *pool = NULL;
    int attributes[] = {ALLOWED_HANDLE_TYPES, MEMPOOL_HANDLE};
    void *values[] = {&types, &pool};
    address base = 0;

    *found = (struct ar_vmm){0};
    if (!is_there() || ar_driver_ask(2, attributes, values, p) != 0 ||
        (types & POSIX_FILE_DESCRIPTOR) == 0 || pool != NULL ||
        driver.get_range(&base, &found->bytes, (uintptr_t)p) != 0 || base > (uintptr_t)p ||
        (uintptr_t)p - base >= found->bytes ||
        driver.retain(&found->handle, (void *)(uintptr_t)p) != 0)
        return false;
    driver.release(found->handle);
    found->base = (char *)(uintptr_t)base;
    return true;
}

int ar_vmm_export(const void *p, unsigned long long *handle)
{
    int fd = -1;

    if (!is_there() || driver.retain(handle, (void *)(uintptr_t)p) != 0)
        return -1;
    if (driver.export_to(&fd, *handle, POSIX_FILE_DESCRIPTOR, 0) != 0) {
        driver.release(*handle);
        return -1;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

void ar_vmm_release(unsigned long long handle)
{
    driver.release(handle);
}

void *ar_vmm_map(int fd, size_t bytes, int device, int *error)
{
    const struct access access = {ON_DEVICE, device, READ_AND_WRITE};
    address handle, at = 0;

    *error = 0;
    if (!is_there())
        return NULL;
    *error = driver.import_from(&handle, (void *)(intptr_t)fd, POSIX_FILE_DESCRIPTOR);
    if (*error != 0)
        return NULL;
    *error = driver.reserve(&at, bytes, 0, 0, 0);
    if (*error == 0) {
        *error = driver.map(at, bytes, 0, handle, 0);
        if (*error == 0 && (*error = driver.set_access(at, bytes, &access, 1)) != 0)
            driver.unmap(at, bytes);
        if (*error != 0)
            driver.unreserve(at, bytes);
    }
    driver.release(handle); /* the mapping keeps the memory allocated */
    return *error == 0 ? (void *)(uintptr_t)at : NULL;
}

void ar_vmm_unmap(void *at, size_t bytes)
{
    driver.unmap((uintptr_t)at, bytes);
    driver.unreserve((uintptr_t)at, bytes);
}
