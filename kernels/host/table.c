/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - all kernels of the library in one table, and the arguments that every launch needs. */
#include <string.h>

#include "kernels/host/launch.h"

static const struct ar_kernel_row *const rows[AR_FAMILIES] = {
    [AR_ONE_LL8] = &ar_kernels_one_ll8,
    [AR_ONE_LL128] = &ar_kernels_one_ll128,
    [AR_ONE_LAMPORT] = &ar_kernels_one_lamport,
    [AR_TWO_LL8] = &ar_kernels_two_ll8,
    [AR_TWO_LL128] = &ar_kernels_two_ll128,
    [AR_TWO_LAMPORT] = &ar_kernels_two_lamport,
    [AR_CHUNKED] = &ar_kernels_chunked,
    [AR_PULL] = &ar_kernels_pull,
    [AR_COPY] = &ar_kernels_local,
    [AR_NVLS] = &ar_kernels_nvls,
    [AR_PULL_ONE] = &ar_kernels_pull_one,
    [AR_NVLS_ONE] = &ar_kernels_nvls_one,
};

/* Widest access of a family to the user's buffers, bytes: a message of whole words starts and ends
 * at multiples of it. */
static uint64_t grain(int family)
{
    return family == AR_ONE_LAMPORT || family == AR_TWO_LAMPORT ? AR_WORD : AR_UNIT;
}

const void *ar_kernel_find(int family, int reducer, const struct ar_args *args)
{
    /* the shortest first, which takes whole words only; what is not written is AR_NX */
    static const unsigned char by_ranks[AR_MAX_RANKS + 1][2] = {
        [2] = {AR_N2_WHOLE, AR_N2}, [4] = {AR_N4_WHOLE, AR_N4}, [8] = {AR_N8_WHOLE}};
    const unsigned char *list = by_ranks[args->ranks];
    bool odd =
        ((uint64_t)args->in_align | (uint64_t)args->out_align | args->bytes) % grain(family) != 0;
    const void *const *of;

    if (rows[family] == NULL)
        return NULL;
    of = rows[family]->of[reducer];
    for (int i = odd; i < 2; i++)
        if (of[list[i]] != NULL)
            return of[list[i]];
    return of[AR_NX];
}

static cudaError_t load_one(const void *kernel, int *arch)
{
    struct cudaFuncAttributes got;
    cudaError_t error = kernel == NULL ? cudaSuccess : cudaFuncGetAttributes(&got, kernel);

    if (kernel != NULL && error == cudaSuccess)
        *arch = got.ptxVersion;
    return error;
}

cudaError_t ar_kernels_load(int *arch)
{
    cudaError_t error = load_one(ar_kernel_signal, arch);

    if (error == cudaSuccess)
        error = load_one(ar_kernel_await, arch);
    if (error == cudaSuccess)
        error = load_one(ar_kernel_probe, arch);
    for (int f = 0; f < AR_FAMILIES; f++)
        for (int r = 0; r < AR_REDUCERS && rows[f] != NULL; r++)
            for (int c = 0; c < AR_CLASSES && error == cudaSuccess; c++)
                error = load_one(rows[f]->of[r][c], arch);
    return error;
}

void ar_args_start(const symtuner_ar *h, struct ar_args *args)
{
    memset(args, 0, sizeof *args);
    memcpy(args->peer, h->peer, sizeof args->peer);
    args->state = h->state;
    args->mailbox = h->mailbox_device;
    args->timeout_ns = h->timeout_ns;
    args->ranks = h->ranks;
    args->me = h->me;
    args->scale = 1;
    args->stall_ns = h->stall_ns;
    args->overlap = ar_start_of(h);
}
