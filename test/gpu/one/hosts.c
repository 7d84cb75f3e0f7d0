/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.c - to be preloaded: lets NCCL accept several ranks on one GPU, because each seems to be on a
 * host of its own.
 *
 * NCCL refuses two ranks that share a host and a GPU. It knows hosts by NCCL_HOSTID, which is
 * the process's variable RANK here. torchrun and nccl_calls set RANK.
 * Everybody else still sees one host. The drop-in counts its GPUs in ONE_GPU_FOLDER. NCCL's ranks
 * exchange data over sockets; symtuner's ranks share memory.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default"))) /* instead of the C library's functions */

/* Whether the code at ${address} is NCCL's. */
static int is_nccl(void *address)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, "/libnccl.so");
}

EXPORT char *getenv(const char *name)
{
    static char *(*next)(const char *);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "getenv");
    if (strcmp(name, "NCCL_HOSTID") != 0)
        return next(name);
    if (!is_nccl(__builtin_return_address(0)))
        return NULL;
    return next("RANK");
}

/* The drop-in counts the GPUs of this box in this folder. ONE_GPU_FOLDER has an entry per rank. */
EXPORT DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    const char *instead = getenv("ONE_GPU_FOLDER");

    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return next(instead && strcmp(path, "/proc/driver/nvidia/gpus") == 0 ? instead : path);
}
