/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_access.c - ask the CUDA driver which GPUs can access an address.
 *
 * Access depends on how XLA allocates. XLA's own mapped pools list the GPUs that have access.
 * Memory from cudaMalloc is accessible where peer access is enabled. Memory of CUDA's
 * stream-ordered pools (XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async) has no such list, and enabled peer
 * access does not apply to it, so ffi_peer_access() returns 0 for it. The constants and the
 * structure are copied from cuda.h, so that no CUDA header is needed.
 */
#include "jax/peer_access.h"

#include <stdint.h>

#include "base/set_once.h"
#include "jax/library.h"

#define LOCATION_DEVICE       1  /* CU_MEM_LOCATION_TYPE_DEVICE */
#define ACCESS_READWRITE      3  /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
#define ATTRIBUTE_MEMORY_TYPE 2  /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define ATTRIBUTE_MEMPOOL     17 /* CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE */
#define TYPE_DEVICE           2  /* CU_MEMORYTYPE_DEVICE */

struct location {
    int type, id;
};

static struct driver {
    int (*get_access)(unsigned long long *, const struct location *, uint64_t);
    int (*get_attribute)(void *, int, uint64_t);
} driver;

static void load(void)
{
    static atomic_bool known;
    struct driver found;

    if (st_is_set(&known))
        return;
    *(void **)&found.get_access = ffi_driver("cuMemGetAccess");
    *(void **)&found.get_attribute = ffi_driver("cuPointerGetAttribute");
    st_set_once(&known, &driver, &found, sizeof found);
}

static int ask_driver(const void *p, const int *gpus, int n)
{
    uint64_t at = (uint64_t)(uintptr_t)p;
    unsigned long long flags;
    unsigned type = 0;
    void *pool = NULL;

    load();
    if (driver.get_access == NULL || driver.get_attribute == NULL ||
        driver.get_attribute(&type, ATTRIBUTE_MEMORY_TYPE, at) != 0 || type != TYPE_DEVICE)
        return 0;
    for (int i = 0; i < n; i++) {
        struct location where = {LOCATION_DEVICE, gpus[i]};

        if (driver.get_access(&flags, &where, at) != 0)
            /* the memory has no list of GPUs. So it is from cudaMalloc, which all GPUs can access,
             * or from a stream-ordered pool, which they cannot */
            return driver.get_attribute(&pool, ATTRIBUTE_MEMPOOL, at) != 0 || pool == NULL;
        if (flags != ACCESS_READWRITE)
            return 0;
    }
    return 1;
}

int (*ffi_peer_access)(const void *p, const int *gpus, int n) = ask_driver;
