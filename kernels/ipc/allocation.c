/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.c - finds the allocation in a GPU's memory that holds a buffer. */
#include "kernels/ipc/allocation.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>

/* Constants of the driver's interface (cuda.h), with which the library is not linked: the version
 * of the function to look up, and values of enum CUpointer_attribute. */
enum {
    DRIVER = 12000,
    BUFFER_ID = 7,
    DEVICE_ORDINAL = 9,
    IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    RANGE_START_ADDR = 11,
    RANGE_SIZE = 12
};

typedef int ask_function(unsigned n, int *attributes, void **values, unsigned long long p);

static ask_function *find_function(void)
{
    static _Atomic(ask_function *) known;
    ask_function *ask = atomic_load_explicit(&known, memory_order_relaxed);
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult found;

    if (ask == NULL &&
        cudaGetDriverEntryPointByVersion("cuPointerGetAttributes", (void **)&ask, DRIVER,
                                         cudaEnableDefault, &found) != cudaSuccess) {
        cudaGetLastError();
        ask = NULL;
    }
    atomic_store_explicit(&known, ask, memory_order_relaxed);
#endif
    return ask;
}

bool ar_allocation_find(const void *p, size_t bytes, int device, struct ar_allocation *found)
{
    ask_function *ask = find_function();
    int attributes[] = {BUFFER_ID, DEVICE_ORDINAL, RANGE_START_ADDR, RANGE_SIZE}, on = -1;
    void *values[] = {&found->id, &on, &found->base, &found->bytes};
    const char *at = p;

    *found = (struct ar_allocation){0};
    return ask != NULL && ask(4, attributes, values, (uintptr_t)p) == 0 && on == device &&
           found->base != NULL && at >= found->base &&
           bytes <= found->bytes - (size_t)(at - found->base);
}

bool ar_allocation_can_map(const void *p)
{
    ask_function *ask = find_function();
    int attribute = IS_LEGACY_CUDA_IPC_CAPABLE, can = 0;
    void *value = &can;

    return ask != NULL && ask(1, &attribute, &value, (uintptr_t)p) == 0 && (can & 0xff) != 0;
}
