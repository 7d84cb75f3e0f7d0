/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - all kernels of the library in one table, and the arguments that every launch needs. */
#include <string.h>

#include "kernels/host/launch.h"

static const struct st_kernel_row *const rows[ST_FAMILIES] = {
    [ST_ONE_LL8] = &st_kernels_one_ll8,
    [ST_ONE_LL128] = &st_kernels_one_ll128,
    [ST_ONE_LAMPORT] = &st_kernels_one_lamport,
    [ST_TWO_LL8] = &st_kernels_two_ll8,
    [ST_TWO_LL128] = &st_kernels_two_ll128,
    [ST_TWO_LAMPORT] = &st_kernels_two_lamport,
    [ST_CHUNKED] = &st_kernels_chunked,
    [ST_PULL] = &st_kernels_pull,
    [ST_COPY] = &st_kernels_local,
    [ST_NVLS] = &st_kernels_nvls,
    [ST_PULL_ONE] = &st_kernels_pull_one,
    [ST_NVLS_ONE] = &st_kernels_nvls_one,
};

/* Widest access of a family to the user's buffers, bytes: a message of whole words starts and ends
 * at multiples of it. */
static uint64_t grain(int family)
{
    return family == ST_ONE_LAMPORT || family == ST_TWO_LAMPORT ? ST_WORD : ST_UNIT;
}

const void *st_kernel_find(int family, int reducer, const struct st_args *args)
{
    /* the shortest first, which takes whole words only; what is not written is ST_NX */
    static const unsigned char by_ranks[ST_MAX_RANKS + 1][2] = {
        [2] = {ST_N2_WHOLE, ST_N2}, [4] = {ST_N4_WHOLE, ST_N4}, [8] = {ST_N8_WHOLE}};
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
    return of[ST_NX];
}

static cudaError_t load_one(const void *kernel, int *arch)
{
    struct cudaFuncAttributes got;
    cudaError_t error = kernel == NULL ? cudaSuccess : cudaFuncGetAttributes(&got, kernel);

    if (kernel != NULL && error == cudaSuccess)
        *arch = got.ptxVersion;
    return error;
}

cudaError_t st_kernels_load(int *arch)
{
    cudaError_t error = load_one(st_kernel_signal, arch);

    if (error == cudaSuccess)
        error = load_one(st_kernel_await, arch);
    if (error == cudaSuccess)
        error = load_one(st_kernel_probe, arch);
    for (int f = 0; f < ST_FAMILIES; f++)
        for (int r = 0; r < ST_REDUCERS && rows[f] != NULL; r++)
            for (int c = 0; c < ST_CLASSES && error == cudaSuccess; c++)
                error = load_one(rows[f]->of[r][c], arch);
    return error;
}

void st_args_start(const symtuner_ar *h, struct st_args *args)
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
    args->overlap = st_start_of(h);
}
