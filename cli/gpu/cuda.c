/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Load ${file}, and fill ${table} with the addresses of the ${count} symbols that ${symbol} names,
 * in this order. ${origin} is a part of the error message: it says where to get a missing file. */
static bool load(const char *file, int flags, const char *origin, const char *const *symbol,
                 size_t count, void *table, char *error, size_t size)
{
    void *library = dlopen(file, flags);

    if (!library) {
        snprintf(error, size, "%.300s; %s", dlerror(), origin);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, symbol[i]);

        if (!found) {
            snprintf(error, size, "%s has no %s: too old", file, symbol[i]);
            return false;
        }
        ((void **)table)[i] = found;
    }
    return true;
}

#define SYMBOL(member, symbol, result, arguments) symbol,
#define AR_SYMBOL(member, function)               "symtuner_ar_" #function,
#define LOAD(table, symbols, file, flags, origin)                                                  \
    load(file, flags, origin, (const char *const[]){symbols}, sizeof *(table) / sizeof(void *),    \
         table, error, size)

bool st_cuda_load(struct st_cuda *cuda, int *gpus, char *error, size_t size)
{
    const char *text = "no GPU is visible";
    int result;

    if (!LOAD(cuda, ST_CUDA_MAP(SYMBOL), "libcuda.so.1", RTLD_NOW | RTLD_LOCAL,
              "it belongs to the CUDA driver"))
        return false;
    result = cuda->init(0);
    if (result == 0 && cuda->device_count(gpus) == 0 && *gpus > 0)
        return true;
    if (result != 0)
        cuda->error_text(result, &text);
    snprintf(error, size, "the CUDA driver does not start: %.200s", text ? text : "unknown");
    return false;
}

bool st_nccl_load(struct st_nccl *nccl, const char *path, char *error, size_t size)
{
    /* RTLD_GLOBAL, because libsymtuner_ar.so looks up NCCL's functions among the global symbols */
    return LOAD(nccl, ST_NCCL_MAP(SYMBOL), path ? path : "libnccl.so.2", RTLD_NOW | RTLD_GLOBAL,
                "--library FILE names another");
}

bool st_ar_load(struct st_ar *ar, char *error, size_t size)
{
    char path[600];

    return LOAD(ar, ST_AR_MAP(AR_SYMBOL), st_beside_command("libsymtuner_ar.so", path, sizeof path),
                RTLD_NOW | RTLD_LOCAL, "make kernels builds it");
}

bool st_cublas_load(struct st_cublas *cublas, const struct st_cuda *cuda, char *error, size_t size)
{
    int driver = 0;
    bool newest = cuda->driver_version(&driver) == 0 && driver >= 13000 &&
                  dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);

    return LOAD(
        cublas, ST_CUBLAS_MAP(SYMBOL), newest ? "libcublas.so.13" : "libcublas.so.12",
        RTLD_NOW | RTLD_LOCAL,
        "nor a libcublas.so.13 for this driver. cuBLAS belongs to the CUDA toolkit, and to the "
        "pip packages nvidia-cublas and nvidia-cublas-cu12; LD_LIBRARY_PATH may name its "
        "folder");
}

const char *st_beside_command(const char *name, char *path, size_t size)
{
    /* lib and lib64 are folders beside the folder of this command */
    static const char *const place[] = {"", "/lib", "/lib64"};
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    self[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 3; i++) {
        if (i < 2 && (slash = strrchr(self, '/')))
            *slash = '\0';
        if ((size_t)snprintf(path, size, "%s%s/%s", self, place[i], name) < size &&
            access(path, R_OK) == 0)
            return path;
    }
    snprintf(path, size, "%s", name);
    return path;
}
