/* SPDX-License-Identifier: Apache-2.0 */
/* box.c - a preloaded library: ranks with different values of BOX see different shared memory. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const char *here(const char *name, char path[256])
{
    const char *box = getenv("BOX");

    snprintf(path, 256, "%s-box%s", name, box ? box : "");
    return path;
}

__attribute__((visibility("default"))) int shm_open(const char *name, int flags, mode_t mode)
{
    int (*next)(const char *, int, mode_t);
    char path[256];

    *(void **)&next = dlsym(RTLD_NEXT, "shm_open");
    return next(here(name, path), flags, mode);
}

__attribute__((visibility("default"))) int shm_unlink(const char *name)
{
    int (*next)(const char *);
    char path[256];

    *(void **)&next = dlsym(RTLD_NEXT, "shm_unlink");
    return next(here(name, path));
}
