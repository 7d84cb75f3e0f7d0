/* SPDX-License-Identifier: Apache-2.0 */
/* peer_arena.c - makes arenas (parts of the scratch) in GPU memory that the peers can reach. */
#include "kernels/scratch/peer_arena.h"

#include <stdio.h>

#include "kernels/scratch/arena.h"
#include "kernels/group/nccl_window.h"

static ncclResult_t filled(symtuner_ar *h, int first, int last, char *why)
{
    cudaError_t error = ar_arena_fill(h, h->arena[first].memory, first, last);

    if (error == cudaSuccess)
        return ncclSuccess;
    cudaGetLastError(); /* clear the error, so that the application does not find it */
    snprintf(why, AR_WHY, "fill scratch: %s", cudaGetErrorString(error));
    return ncclUnhandledCudaError;
}

ncclResult_t ar_comm_arena_make(symtuner_ar *h, int first, int last, char *why)
{
    uint64_t bytes = ar_arena_bytes(h, first, last);
    ncclResult_t result;

    cudaSetDevice(h->device);
    result = h->nccl->ncclMemAlloc(&h->arena[first].memory, bytes);
    if (result == ncclSuccess)
        return filled(h, first, last, why);
    h->arena[first].memory = NULL;
    snprintf(why, AR_WHY, "%llu MiB of scratch from ncclMemAlloc: %s",
             (unsigned long long)(bytes >> 20), h->nccl->ncclGetErrorString(result));
    return result;
}

ncclResult_t ar_comm_arena_link(symtuner_ar **handles, int n, int first, int last, char *why)
{
    ncclWindow_t *windows[AR_MAX_RANKS];
    void *memory[AR_MAX_RANKS];
    ncclResult_t result;

    for (int i = 0; i < n; i++) {
        memory[i] = handles[i]->arena[first].memory;
        windows[i] = &handles[i]->arena[first].window;
    }
    result =
        ar_windows_make(handles, memory, n, ar_arena_bytes(handles[0], first, last), windows, why);
    for (int i = 0; i < n && result == ncclSuccess; i++) {
        symtuner_ar *h = handles[i];
        char *peer[AR_MAX_RANKS];

        cudaSetDevice(h->device);
        result = ar_nccl_window_peers(h->nccl, h->arena[first].window, h->ranks, h->me, peer, why,
                                      AR_WHY);
        for (int r = 0; r < h->ranks && result == ncclSuccess; r++)
            ar_arena_map(h, r, peer[r], first, last);
    }
    return result;
}

ncclResult_t ar_local_arena_make(symtuner_ar *const *handles, int n, int first, int last, char *why)
{
    uint64_t bytes = ar_arena_bytes(handles[0], first, last);

    for (int i = 0; i < n; i++) {
        symtuner_ar *h = handles[i];
        cudaError_t error = cudaSetDevice(h->device);
        ncclResult_t result;

        if (error == cudaSuccess)
            error = cudaMalloc(&h->arena[first].memory, bytes);
        if (error != cudaSuccess) {
            cudaGetLastError();
            h->arena[first].memory = NULL;
            snprintf(why, AR_WHY, "allocate %llu MiB of scratch: %s",
                     (unsigned long long)(bytes >> 20), cudaGetErrorString(error));
            return ncclUnhandledCudaError;
        }
        result = filled(h, first, last, why);
        if (result != ncclSuccess)
            return result;
        for (int j = 0; j < n; j++)
            ar_arena_map(handles[j], i, h->arena[first].memory, first, last);
    }
    return ncclSuccess;
}
