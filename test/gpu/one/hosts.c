/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.c - to be preloaded: lets NCCL accept several ranks on one GPU, because each seems to be on
 * a host of its own.
 *
 * NCCL refuses two ranks that share a host and a GPU. It knows hosts by NCCL_HOSTID. If NCCL asks
 * for this variable, it gets the value of RANK, which differs between the processes. All other code
 * finds no NCCL_HOSTID, and so sees one host. Therefore NCCL sends data over sockets, while
 * symtuner's kernels share memory.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default"))) /* instead of the C library's functions */

/* Is the code at ${address} NCCL's? */
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

/* The drop-in counts the entries of /proc/driver/nvidia/gpus, which are the GPUs of the box. Let it
 * count those of ONE_GPU_FOLDER, which has at least as many entries as there are ranks. */
EXPORT DIR *opendir(const char *path)
{
    DIR *(*next)(const char *);
    const char *instead = getenv("ONE_GPU_FOLDER");

    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return next(instead && strcmp(path, "/proc/driver/nvidia/gpus") == 0 ? instead : path);
}
