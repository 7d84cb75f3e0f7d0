/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - see library.h. */
#include "jax/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define VERSION_MAJOR(v) ((v) / 10000)
#define VERSION_NEEDED   100 /* 0.1.0 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ffi_ar table;
static const void *library; /* set only after the table is filled, since readers take no lock */
static char loaded_path[512];

static int find_all(void *so, const char *path, char *why, size_t why_size)
{
    const char *missing = NULL;

#define X(name)                                                                                    \
    *(void **)&table.name = dlsym(so, "symtuner_ar_" #name);                                       \
    if (table.name == NULL)                                                                        \
        missing = "symtuner_ar_" #name;
    FFI_AR_FUNCTIONS(X)
#undef X
    if (missing != NULL)
        return ffi_fail(why, why_size, "%s has no %s: not libsymtuner_ar.so?", path, missing);
    if (VERSION_MAJOR(table.version()) != VERSION_MAJOR(VERSION_NEEDED) ||
        table.version() < VERSION_NEEDED)
        return ffi_fail(why, why_size, "%s is version %d; %d or later of the same major is needed",
                        path, table.version(), VERSION_NEEDED);
    return 0;
}

static int open_library(const char *path, char *why, size_t why_size)
{
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (so == NULL)
        return ffi_fail(why, why_size, "%s", dlerror());
    if (find_all(so, path, why, why_size) != 0) {
        dlclose(so);
        return -1;
    }
    snprintf(loaded_path, sizeof loaded_path, "%s", path);
    __atomic_store_n(&library, so, __ATOMIC_RELEASE);
    return 0;
}

int ffi_ar_load(const char *path, char *why, size_t why_size)
{
    int result = 0;

    if (path == NULL || strlen(path) >= sizeof loaded_path)
        return ffi_fail(why, why_size,
                        "no path to libsymtuner_ar.so, or a path of 512 bytes or more");
    pthread_mutex_lock(&lock);
    if (library == NULL) {
        result = open_library(path, why, why_size);
        ffi_keep_place(-1); /* keep it early, before a communicator takes it */
    } else if (strcmp(path, loaded_path) != 0) {
        result = ffi_fail(why, why_size, "%s is loaded already, not %s", loaded_path, path);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

const struct ffi_ar *ffi_ar_get(void)
{
    return __atomic_load_n(&library, __ATOMIC_ACQUIRE) != NULL ? &table : NULL;
}

void *ffi_driver(const char *name)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

    return cuda != NULL ? dlsym(cuda, name) : NULL;
}

int ffi_keep_place(int device)
{
    int (*keep)(int);

    *(void **)&keep = dlsym(RTLD_DEFAULT, "symtuner_nccl_keep_place");
    return keep == NULL || keep(device);
}
