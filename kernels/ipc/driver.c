/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - see driver.h. */
#include "kernels/ipc/driver.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* DRIVER is the version of the driver's interface that we use, NOT_FOUND is a value of CUresult. */
enum { DRIVER = 12000, NOT_FOUND = 500 };

bool ar_driver_find(const char *name, void *function)
{
    void *found = NULL;
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult how;

    if (cudaGetDriverEntryPointByVersion(name, &found, DRIVER, cudaEnableDefault, &how) !=
        cudaSuccess) {
        cudaGetLastError();
        found = NULL;
    }
#endif
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

int ar_driver_ask(unsigned n, int *attributes, void **values, const void *p)
{
    typedef int ask_function(unsigned n, int *attributes, void **values, unsigned long long p);
    static _Atomic(ask_function *) known;
    ask_function *ask = atomic_load_explicit(&known, memory_order_relaxed);

    if (ask == NULL && ar_driver_find("cuPointerGetAttributes", &ask))
        atomic_store_explicit(&known, ask, memory_order_relaxed);
    return ask != NULL ? ask(n, attributes, values, (uintptr_t)p) : NOT_FOUND;
}
