/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.c - a library to be preloaded. It makes NCCL accept several ranks on one GPU, because each
 * rank seems to be on a host of its own.
 *
 * NCCL refuses two ranks that share a host and a GPU. It knows hosts by NCCL_HOSTID. If NCCL asks
 * for this variable, it gets the value of RANK, which differs between the processes. All other code
 * finds no NCCL_HOSTID, and so sees one host. Therefore NCCL sends data over sockets, while
 * symtuner's kernels share memory.
 *
 * With NCCL_MULTI_RANK_GPU_ENABLE=1, NCCL accepts several ranks on one GPU by itself (2.30.3 and
 * later), so NCCL finds no NCCL_HOSTID of its own, either.
 *
 * With ONE_GPU_BOX=N, every N ranks form a box. Then all code but NCCL finds the name of its box in
 * NCCL_HOSTID, and the names of symtuner's shared memory begin with the name of the box. So
 * symtuner's ranks of different boxes share no memory.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default"))) /* replaces a function of the C library */

/* Return whether the code at ${address} is NCCL's. */
static int is_nccl(void *address)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, "/libnccl.so");
}

/* Return the name of this process's box, or NULL if there are no boxes. */
static char *box(void)
{
    static _Thread_local char name[16];
    const char *ranks = getenv("ONE_GPU_BOX"), *rank = getenv("RANK");

    if (!ranks || !rank)
        return NULL;
    snprintf(name, sizeof name, "box%d", atoi(rank) / atoi(ranks));
    return name;
}

EXPORT char *getenv(const char *name)
{
    static char *(*next)(const char *);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "getenv");
    if (strcmp(name, "NCCL_HOSTID") != 0)
        return next(name);
    if (is_nccl(__builtin_return_address(0)) && !next("NCCL_MULTI_RANK_GPU_ENABLE"))
        return next("RANK");
    return box();
}

/* Write the name under which this process's box knows ${name}: "/symtuner-x" becomes
 * "/box0-symtuner-x". */
static const char *in_box(const char *name, char *text, size_t size)
{
    if (!box() || strncmp(name, "/symtuner-", 10) != 0)
        return name;
    snprintf(text, size, "/%s-%s", box(), name + 1);
    return text;
}

EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
    int (*next)(const char *, int, mode_t);
    char text[256];

    *(void **)&next = dlsym(RTLD_NEXT, "shm_open");
    return next(in_box(name, text, sizeof text), flags, mode);
}

EXPORT int shm_unlink(const char *name)
{
    int (*next)(const char *);
    char text[256];

    *(void **)&next = dlsym(RTLD_NEXT, "shm_unlink");
    return next(in_box(name, text, sizeof text));
}

/* The drop-in counts the entries of /proc/driver/nvidia/gpus, which are the GPUs of the box. This
 * function makes the drop-in count the entries of the folder ONE_GPU_FOLDER instead, which has at
 * least as many entries as there are ranks. */
EXPORT DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    const char *instead = getenv("ONE_GPU_FOLDER");

    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return next(instead && strcmp(path, "/proc/driver/nvidia/gpus") == 0 ? instead : path);
}
