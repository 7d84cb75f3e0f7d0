/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool fill(void *library, const char *file, const char *const *symbol, void **member,
                 int count, char *error, size_t size)
{
    for (int i = 0; i < count; i++) {
        member[i] = dlsym(library, symbol[i]);
        if (!member[i]) {
            snprintf(error, size, "%s has no %s: too old", file, symbol[i]);
            return false;
        }
    }
    return true;
}

#define SYMBOL(member, symbol, result, arguments) symbol,

bool st_cuda_load(struct st_cuda *cuda, int *gpus, char *error, size_t size)
{
    static const char *const symbol[] = {ST_CUDA_MAP(SYMBOL)};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int result;

    _Static_assert(sizeof *cuda == sizeof symbol, "one pointer per symbol");
    if (!library) {
        snprintf(error, size, "no CUDA driver here (libcuda.so.1)");
        return false;
    }
    if (!fill(library, "libcuda.so.1", symbol, (void **)cuda, (int)(sizeof symbol / sizeof *symbol),
              error, size))
        return false;
    result = cuda->init(0);
    if (result != 0 || cuda->device_count(gpus) != 0 || *gpus == 0) {
        const char *text = "no GPU is visible";

        if (result != 0)
            cuda->error_text(result, &text);
        snprintf(error, size, "the CUDA driver does not start: %.200s", text ? text : "unknown");
        return false;
    }
    return true;
}

bool st_nccl_load(struct st_nccl *nccl, const char *path, char *error, size_t size)
{
    static const char *const symbol[] = {ST_NCCL_MAP(SYMBOL)};
    /* global: libsymtuner_ar.so looks NCCL up among what is loaded */
    void *library = dlopen(path ? path : "libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);

    _Static_assert(sizeof *nccl == sizeof symbol, "one pointer per symbol");
    if (!library) {
        snprintf(error, size, "%.300s; --nccl FILE names another", dlerror());
        return false;
    }
    return fill(library, path ? path : "libnccl.so.2", symbol, (void **)nccl,
                (int)(sizeof symbol / sizeof *symbol), error, size);
}

const char *st_beside_command(const char *name, char *path, size_t size)
{
    static const char *const place[] = {"", "../lib/"};
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    self[length > 0 ? length : 0] = '\0';
    slash = strrchr(self, '/');
    for (int i = 0; slash && i < 2; i++) {
        slash[1] = '\0';
        if ((size_t)snprintf(path, size, "%s%s%s", self, place[i], name) < size &&
            access(path, R_OK) == 0)
            return path;
    }
    snprintf(path, size, "%s", name);
    return path;
}

bool st_ar_load(struct st_ar *ar, char *error, size_t size)
{
    static const char *const symbol[] = {ST_AR_MAP(SYMBOL)};
    char path[600];
    void *library = dlopen(st_beside_command("libsymtuner_ar.so", path, sizeof path),
                           RTLD_NOW | RTLD_LOCAL);

    _Static_assert(sizeof *ar == sizeof symbol, "one pointer per symbol");
    if (!library) {
        snprintf(error, size, "%.300s; make kernels builds it", dlerror());
        return false;
    }
    return fill(library, path, symbol, (void **)ar, (int)(sizeof symbol / sizeof *symbol), error,
                size);
}
