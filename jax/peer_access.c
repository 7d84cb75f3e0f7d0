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

#include <pthread.h>
#include <stdint.h>

#include "jax/library.h"

#define LOCATION_DEVICE       1  /* CU_MEM_LOCATION_TYPE_DEVICE */
#define ACCESS_READWRITE      3  /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
#define ATTRIBUTE_MEMORY_TYPE 2  /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define ATTRIBUTE_MEMPOOL     17 /* CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE */
#define TYPE_DEVICE           2  /* CU_MEMORYTYPE_DEVICE */

struct location {
    int type, id;
};

static int (*get_access)(unsigned long long *, const struct location *, uint64_t);
static int (*get_attribute)(void *, int, uint64_t);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    *(void **)&get_access = ffi_driver("cuMemGetAccess");
    *(void **)&get_attribute = ffi_driver("cuPointerGetAttribute");
}

static int ask_driver(const void *p, const int *gpus, int n)
{
    uint64_t at = (uint64_t)(uintptr_t)p;
    unsigned long long flags;
    unsigned type = 0;
    void *pool = NULL;

    pthread_once(&once, load);
    if (get_access == NULL || get_attribute == NULL ||
        get_attribute(&type, ATTRIBUTE_MEMORY_TYPE, at) != 0 || type != TYPE_DEVICE)
        return 0;
    for (int i = 0; i < n; i++) {
        struct location where = {LOCATION_DEVICE, gpus[i]};

        if (get_access(&flags, &where, at) != 0)
            /* the memory has no list of GPUs. So it is from cudaMalloc, which all GPUs can access,
             * or from a stream-ordered pool, which they cannot */
            return get_attribute(&pool, ATTRIBUTE_MEMPOOL, at) != 0 || pool == NULL;
        if (flags != ACCESS_READWRITE)
            return 0;
    }
    return 1;
}

int (*ffi_peer_access)(const void *p, const int *gpus, int n) = ask_driver;
