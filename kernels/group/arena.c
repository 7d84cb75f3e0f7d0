/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.c - scratch in pinned host memory, for GPUs that cannot reach each other.
 *
 * The arenas of all ranks lie one after the other in one mapping: anonymous memory in a local
 * group, a POSIX shared memory object between processes. Every GPU maps all of it, so the same
 * kernels run, but slower: stores and polls cross PCIe to host memory.
 */
#include "kernels/group/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/group/error.h"
#include "kernels/group/nccl_window.h"

static void fill(symtuner_ar *h, char *arena)
{
    const struct ar_layout *l = &h->layout;

    memset(arena, 0, l->first[AR_REGION_LAMPORT]);
    memset(arena + l->first[AR_REGION_LAMPORT], 0xff, 2 * l->half[AR_REGION_LAMPORT]);
}

ncclResult_t ar_arena_host(symtuner_ar **handles, int n, const char *shared_name, bool create)
{
    symtuner_ar *h = handles[0];
    size_t each = ar_round_up(h->layout.bytes, 1 << 16);
    size_t bytes = each * (size_t)h->ranks;
    int fd = -1;
    char *map;
    void *seen;
    cudaError_t error;

    if (shared_name != NULL) {
        int cause = 0;

        /* Reserve the memory: if /dev/shm were full, a later write would kill the process. */
        fd = shm_open(shared_name, create ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, 0600);
        if (fd < 0)
            cause = errno;
        else if (create)
            cause = posix_fallocate(fd, 0, (off_t)bytes);
        if (cause != 0) {
            if (fd >= 0)
                close(fd);
            return ar_fail(h, ncclSystemError, "shared memory %s of %zu bytes: %s", shared_name,
                           bytes, strerror(cause));
        }
    }
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
               fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return ar_fail(h, ncclSystemError, "map %zu bytes of host memory: %s", bytes,
                       strerror(errno));
    error = cudaHostRegister(map, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) {
        munmap(map, bytes);
        return ar_fail_cuda(h, error, "pin host scratch");
    }
    h->host_map = map; /* in a local group the first handle owns it */
    h->host_map_bytes = bytes;
    for (int i = 0; i < n; i++) {
        h = handles[i];
        error = cudaSetDevice(h->device);
        if (error == cudaSuccess)
            error = cudaHostGetDevicePointer(&seen, map, 0);
        if (error != cudaSuccess)
            return ar_fail_cuda(handles[0], error, "map host scratch into the GPU");
        for (int r = 0; r < h->ranks; r++)
            h->peer[r] = (char *)seen + each * (size_t)r;
        fill(h, map + each * (size_t)h->me);
    }
    return ncclSuccess;
}

void ar_arena_free(symtuner_ar *h)
{
    if (h->arena_window != NULL)
        ar_window_drop(h, h->arena_window);
    if (h->endpoint.timed_out[0] != 0)
        return; /* NCCL's thread may still use the scratch */
    h->arena_window = NULL;
    if (h->host_map != NULL) {
        cudaHostUnregister(h->host_map);
        munmap(h->host_map, h->host_map_bytes);
        h->host_map = NULL;
    }
    if (h->arena != NULL && h->comm != NULL)
        h->nccl->ncclMemFree(h->arena);
    else if (h->arena != NULL)
        cudaFree(h->arena);
    h->arena = NULL;
}
