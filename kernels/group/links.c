/* SPDX-License-Identifier: Apache-2.0 */
/* links.c - finds out whether NVLink or PCIe connects two GPUs. */
#include "kernels/group/links.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#include "kernels/choose/select.h"

#define NVML_P2P_CAPS_NVLINK 2 /* a value of nvmlGpuP2PCapsIndex_t */

static int ask_nvml(const char *a, const char *b)
{
    int (*init)(void), (*by_bus)(const char *, void **), (*status)(void *, void *, int, int *);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *first, *second;
    int verdict = 1;

    if (library == NULL)
        return AR_LINKS_PCIE;
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&status = dlsym(library, "nvmlDeviceGetP2PStatus");
    if (init != NULL && by_bus != NULL && status != NULL && init() == 0 && by_bus(a, &first) == 0 &&
        by_bus(b, &second) == 0 && status(first, second, NVML_P2P_CAPS_NVLINK, &verdict) != 0)
        verdict = 1;
    /* Do not unload NVML, because NCCL uses it. */
    return verdict == 0 ? AR_LINKS_NVLINK : AR_LINKS_PCIE;
}

int ar_links_between(const char *a, const char *b)
{
    int x, y, atomics = 0;

    if (strcmp(a, b) == 0)
        return AR_LINKS_NVLINK;
    if (cudaDeviceGetByPCIBusId(&x, a) == cudaSuccess &&
        cudaDeviceGetByPCIBusId(&y, b) == cudaSuccess) {
        if (cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, x, y) ==
            cudaSuccess)
            return atomics ? AR_LINKS_NVLINK : AR_LINKS_PCIE;
    }
    cudaGetLastError(); /* clear the error, which is normal if the process does not see both GPUs */
    return ask_nvml(a, b);
}
