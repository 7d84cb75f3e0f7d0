/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the table of all kernels of the library, and the arguments that every launch needs. */
#include <string.h>

#include "kernels/host/launch.h"
#include "kernels/order/follower.h"

static const struct ar_kernel_row ar_kernels_nccl; /* empty: NCCL runs kernels of its own */
#define X(family, name, ...) extern const struct ar_kernel_row ar_kernels_##name;
AR_FAMILY_MAP(X)
#undef X

#define X(family, name) extern const struct ar_kernel_row ar_scatter_##name;
AR_SCATTER_MAP(X)
#undef X
#define X(family, name) extern const struct ar_kernel_row ar_gather_##name;
AR_GATHER_MAP(X)
#undef X

static const struct ar_kernel_row *const rows[AR_COLLS][AR_FAMILIES] = {
    [AR_ALL_REDUCE] =
        {
#define X(family, name, ...) [family] = &ar_kernels_##name,
            AR_FAMILY_MAP(X)
#undef X
        },
    [AR_REDUCE_SCATTER] =
        {
#define X(family, name) [family] = &ar_scatter_##name,
            AR_SCATTER_MAP(X)
#undef X
        },
    [AR_ALL_GATHER] =
        {
#define X(family, name) [family] = &ar_gather_##name,
            AR_GATHER_MAP(X)
#undef X
        },
};

const void *ar_kernel_find(int coll, int family, int reducer, const struct ar_args *args)
{
    /* The classes of kernels for n ranks: [n][0] for messages of whole words, [n][1] for any
     * message. Entries that are not listed are 0, which is AR_NX, the class for any number of
     * ranks. */
    static const unsigned char by_ranks[AR_MAX_RANKS + 1][2] = {
        [2] = {AR_N2_WHOLE, AR_N2}, [4] = {AR_N4_WHOLE, AR_N4}, [8] = {AR_N8_WHOLE}};
    const unsigned char *list = by_ranks[args->ranks];
    /* bytes of one load or store in the kernels for whole words */
    uint64_t widest = ar_families[family].form == AR_LAMPORT ? AR_WORD : AR_UNIT;
    bool odd = ((uint64_t)args->in_align | (uint64_t)args->out_align | args->bytes) % widest != 0;
    const struct ar_kernel_row *row = rows[coll][family];
    const void *const *of = row->of[coll == AR_ALL_GATHER ? 0 : reducer];

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

/* Set *tma to whether the current GPU can run the kernels with TMA, which need sm_90 and much
 * shared memory. If it can, raise the limit of shared memory for these kernels. */
static cudaError_t allow_shared(int arch, bool *tma)
{
    int device = 0, most = 0;
    cudaError_t error = cudaGetDevice(&device);

    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    *tma = arch >= 90 && most >= AR_TMA_IPC_SHARED;
    for (int i = 0; i < AR_COLLS * AR_FAMILIES && *tma; i++) {
        const struct ar_kernel_row *row = rows[i / AR_FAMILIES][i % AR_FAMILIES];
        int shared = ar_families[i % AR_FAMILIES].shared;

        for (int k = 0; k < AR_REDUCERS * AR_CLASSES && row != NULL && shared != 0; k++)
            if (row->of[k / AR_CLASSES][k % AR_CLASSES] != NULL && error == cudaSuccess)
                error = cudaFuncSetAttribute(row->of[k / AR_CLASSES][k % AR_CLASSES],
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    }
    return error;
}

cudaError_t ar_kernels_load(int *arch, bool *tma)
{
    cudaError_t error = load_one(ar_kernel_signal, arch);

    if (error == cudaSuccess)
        error = load_one(ar_kernel_await, arch);
    if (error == cudaSuccess)
        error = load_one(ar_kernel_probe, arch);
    for (int i = 0; i < AR_COLLS * AR_FAMILIES; i++) {
        const struct ar_kernel_row *row = rows[i / AR_FAMILIES][i % AR_FAMILIES];

        for (int k = 0; k < AR_REDUCERS * AR_CLASSES && row != NULL && error == cudaSuccess; k++)
            error = load_one(row->of[k / AR_CLASSES][k % AR_CLASSES], arch);
    }
    return error == cudaSuccess ? allow_shared(*arch, tma) : error;
}

void ar_args_start(const symtuner_ar *h, int arena, struct ar_args *args)
{
    memset(args, 0, sizeof *args);
    memcpy(args->peer, h->arena[arena].peer, sizeof args->peer);
    args->state = h->state;
    args->mailbox = h->mailbox_device;
    args->timeout_ns = h->timeout_ns;
    args->ranks = h->ranks;
    args->me = h->me;
    args->scale = 1;
    args->stall_ns = h->stall_ns;
    args->overlap = ar_start_of(h);
}
