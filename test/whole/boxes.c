/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes.c - puts the ranks of a program on N boxes if BOXES=N is in the environment. The ranks are
 * threads. A thread that asks for NCCL_HOSTID gets the name of its box, and each box has shared
 * memory of its own.
 */
#include "test/whole/boxes.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A function that is marked with EXPORT replaces libc's function of the same name for all libraries
 * of the process. */
#define EXPORT __attribute__((visibility("default")))

static _Thread_local char box[16]; /* name of the box of this thread; "": it is on none */

void boxes_sit(int rank, int ranks)
{
    const char *boxes = getenv("BOXES");

    if (boxes)
        snprintf(box, sizeof box, "box%d", rank * atoi(boxes) / ranks);
}

EXPORT char *getenv(const char *name)
{
    static char *(*next)(const char *);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "getenv");
    return box[0] && strcmp(name, "NCCL_HOSTID") == 0 ? box : next(name);
}

static const char *here(const char *name, char path[256])
{
    snprintf(path, 256, "%s%s", name, box);
    return path;
}

EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
    int (*next)(const char *, int, mode_t);
    char path[256];

    *(void **)&next = dlsym(RTLD_NEXT, "shm_open");
    return next(here(name, path), flags, mode);
}

EXPORT int shm_unlink(const char *name)
{
    int (*next)(const char *);
    char path[256];

    *(void **)&next = dlsym(RTLD_NEXT, "shm_unlink");
    return next(here(name, path));
}
