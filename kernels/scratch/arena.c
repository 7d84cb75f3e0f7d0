/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.c - the memory of a rank's scratch.
 *
 * GPUs that cannot reach each other use pinned host memory. The scratch of all ranks then lies in
 * one block of host memory. In a local group (include/symtuner_ar.h) the block is anonymous memory,
 * otherwise it is a POSIX shared memory object. Every GPU maps the whole block. So the kernels are
 * the same as with GPU memory, but slower, because stores and polls cross PCIe to host memory.
 */
#include "kernels/scratch/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/board.h"
#include "kernels/group/error.h"
#include "kernels/group/nccl_window.h"

void ar_arena_sizes(symtuner_ar *h, const struct symtuner_ar_config *config, bool host)
{
    for (int a = 0; a < AR_ARENAS; a++) {
        uint64_t half[AR_REGIONS], all = 0;

        for (int r = 0; r < AR_REGIONS; r++) {
            half[r] = ar_scratch_half(a, r, h->ranks, config->bulk_bytes, host);
            if (r == AR_REGION_IPC && h->ipc_mode == AR_IPC_OFF)
                half[r] = 0;
            all += half[r];
        }
        ar_layout_fill(&h->arena[a].layout, half);
        if (all == 0 || (h->ranks == 1 && a > 0))
            h->arena[a].layout.bytes = 0;
    }
}

uint64_t ar_arena_bytes(const symtuner_ar *h, int first, int last)
{
    uint64_t bytes = 0;

    for (int a = first; a < last; a++)
        bytes += h->arena[a].layout.bytes;
    return bytes;
}

/* Fill the arenas on ${stream} and wait. In tests (h->nan_scratch) the regions whose contents do
 * not matter are filled with NaN, too. */
static cudaError_t fill(const symtuner_ar *h, char *memory, int first, int last,
                        cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    for (int a = first; a < last; a++) {
        const struct ar_layout *l = &h->arena[a].layout;
        uint64_t words = l->first[AR_REGION_LAMPORT];
        uint64_t end = h->nan_scratch ? l->bytes : words + 2 * l->half[AR_REGION_LAMPORT];

        if (error == cudaSuccess)
            error = cudaMemsetAsync(memory, 0, words, stream);
        if (error == cudaSuccess && end > words)
            error = cudaMemsetAsync(memory + words, 0xff, end - words, stream);
        memory += l->bytes;
    }
    return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

/* This uses a new stream, because every existing stream may be in a capture. */
cudaError_t ar_arena_fill(const symtuner_ar *h, char *memory, int first, int last)
{
    cudaStream_t stream;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);

    if (error != cudaSuccess)
        return error;
    error = fill(h, memory, first, last, stream);
    cudaStreamDestroy(stream);
    return error;
}

void ar_arena_map(symtuner_ar *h, int r, char *memory, int first, int last)
{
    for (int a = first; a < last; a++) {
        h->arena[a].peer[r] = memory;
        memory += h->arena[a].layout.bytes;
    }
}

static void fill_host(symtuner_ar *h, char *arena)
{
    const struct ar_layout *l = &h->arena[AR_ARENA_SMALL].layout;

    memset(arena, 0, l->first[AR_REGION_LAMPORT]);
    memset(arena + l->first[AR_REGION_LAMPORT], 0xff, 2 * l->half[AR_REGION_LAMPORT]);
}

ncclResult_t ar_arena_host(symtuner_ar **handles, int n, const char *shared_name, bool create)
{
    symtuner_ar *h = handles[0];
    size_t each = ar_round_up(h->arena[AR_ARENA_SMALL].layout.bytes, 1 << 16);
    size_t bytes = each * (size_t)h->ranks;
    cudaError_t error;
    void *map, *seen;
    int cause = 0;

    if (shared_name != NULL)
        cause = st_board_map(shared_name, bytes, create, &map);
    else if ((map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) ==
             MAP_FAILED)
        cause = errno;
    if (cause != 0)
        return ar_fail(h, ncclSystemError, "shared memory %s of %zu bytes: %s",
                       shared_name != NULL ? shared_name : "of this process", bytes,
                       strerror(cause));
    error = cudaHostRegister(map, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) {
        munmap(map, bytes);
        return ar_fail_cuda(h, error, "pin host scratch");
    }
    h->host_map = map; /* in a local group only the first handle has the mapping, and unmaps it */
    h->host_map_bytes = bytes;
    for (int i = 0; i < n; i++) {
        h = handles[i];
        error = cudaSetDevice(h->device);
        if (error == cudaSuccess)
            error = cudaHostGetDevicePointer(&seen, map, 0);
        if (error != cudaSuccess)
            return ar_fail_cuda(handles[0], error, "map host scratch into the GPU");
        for (int r = 0; r < h->ranks; r++)
            ar_arena_map(h, r, (char *)seen + each * (size_t)r, 0, 1);
        fill_host(h, (char *)map + each * (size_t)h->me);
    }
    return ncclSuccess;
}

void ar_arena_free(symtuner_ar *h, int arena)
{
    struct ar_arena *a = &h->arena[arena];

    if (a->window != NULL)
        ar_window_drop(h, a->window);
    if (h->endpoint.timed_out[0] != 0)
        return;
    a->window = NULL;
    if (a->memory != NULL && h->comm != NULL)
        h->nccl->ncclMemFree(a->memory);
    else if (a->memory != NULL)
        cudaFree(a->memory);
    a->memory = NULL;
}

void ar_arenas_free(symtuner_ar *h)
{
    for (int a = 0; a < AR_ARENAS; a++)
        ar_arena_free(h, a);
    if (h->endpoint.timed_out[0] != 0 || h->host_map == NULL)
        return;
    cudaHostUnregister(h->host_map);
    munmap(h->host_map, h->host_map_bytes);
    h->host_map = NULL;
}
