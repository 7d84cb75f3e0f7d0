/* SPDX-License-Identifier: Apache-2.0 */
/* created.c - takes GPU memory by cuMemCreate (created.h). It looks up the driver's functions at
 * run time, because the programs that use this file are not linked with the driver. */
#include "test/gpu/ipc/created.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_OF(x)          #x
#define NAME_OF(function)   TEXT_OF(function) /* cuda.h maps some names to names with _v2 */
#define DRIVER(function)    ((__typeof__(&function))look_up(NAME_OF(function)))
#define MUST(function, ...) must(#function, DRIVER(function)(__VA_ARGS__))

static void *look_up(const char *name)
{
    static void *cuda;
    void *found;

    if (cuda == NULL)
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
    found = cuda != NULL ? dlsym(cuda, name) : NULL;
    if (found == NULL) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return found;
}

static void must(const char *name, CUresult result)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", name, (int)result);
        exit(1);
    }
}

char *created_reserve(size_t bytes)
{
    CUdeviceptr at;

    MUST(cuMemAddressReserve, &at, bytes, 0, 0, 0);
    return (char *)(uintptr_t)at;
}

char *created_map(char *at, size_t bytes, int device)
{
    const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    const CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = location};
    const CUmemAccessDesc access = {.location = location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;

    MUST(cuMemCreate, &handle, bytes, &kind, 0);
    MUST(cuMemMap, (uintptr_t)at, bytes, 0, handle, 0);
    MUST(cuMemRelease, handle); /* the mapping keeps the memory */
    MUST(cuMemSetAccess, (uintptr_t)at, bytes, &access, 1);
    return at;
}

void created_free(char *at, size_t bytes)
{
    MUST(cuMemUnmap, (uintptr_t)at, bytes);
}

const char *created_facts(const void *p)
{
    static char text[400];
    unsigned long long id = 0, block = 0, types = 0;
    int ipc = -1, device = -1;
    void *start = NULL, *pool = NULL;
    size_t size = 0, mapped = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                                        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *values[] = {&id, &device, &ipc, &start, &size, &types, &pool};
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle handle = 0;
    const CUresult asked = DRIVER(cuPointerGetAttributes)(7, attributes, values, (uintptr_t)p);
    const CUresult ranged = DRIVER(cuMemGetAddressRange)(&base, &mapped, (uintptr_t)p);
    const CUresult kept = DRIVER(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)p);

    if (kept == CUDA_SUCCESS)
        MUST(cuMemRelease, handle);
    DRIVER(cuPointerGetAttribute)(&block, (CUpointer_attribute)20, (uintptr_t)p);
    snprintf(text, sizeof text,
             "%p: attributes %d: id %llu, block %llu, device %d, ipc %d, range %p + %zu, types "
             "%llu, pool %s; mapping %d: %p + %zu; handle %d: %llx",
             p, (int)asked, id, block, device, ipc & 0xff, start, size, types,
             pool == NULL ? "no" : "yes", (int)ranged, (void *)(uintptr_t)base, mapped, (int)kept,
             (unsigned long long)handle);
    return text;
}

/* A kernel that runs until the word at its argument is not 0. */
static const char spin[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                           ".visible .entry spin(.param .u64 at)\n"
                           "{\n"
                           ".reg .u64 %a; .reg .u32 %v; .reg .pred %p;\n"
                           "ld.param.u64 %a, [at];\n"
                           "again: ld.volatile.global.u32 %v, [%a];\n"
                           "setp.eq.u32 %p, %v, 0;\n"
                           "@%p bra again;\n"
                           "ret;\n"
                           "}\n";
static volatile unsigned *stop;

void created_spin(void)
{
    static CUfunction kernel;
    static CUstream stream;
    static CUdeviceptr seen;
    void *arguments[] = {&seen};

    if (stop == NULL) {
        CUmodule module;

        MUST(cuModuleLoadData, &module, spin);
        MUST(cuModuleGetFunction, &kernel, module, "spin");
        MUST(cuMemHostAlloc, (void **)&stop, sizeof *stop, CU_MEMHOSTALLOC_DEVICEMAP);
        MUST(cuMemHostGetDevicePointer, &seen, (void *)(uintptr_t)stop, 0);
        MUST(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    }
    *stop = 0;
    MUST(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

void created_spin_end(void)
{
    *stop = 1;
    must("cuCtxSynchronize", DRIVER(cuCtxSynchronize)());
}
