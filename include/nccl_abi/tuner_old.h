/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner_old.h - versions 2 and 3 of NCCL's tuner interface, in our own words. NCCL 2.27 to 2.32
 * still loads tuners of these versions, so another tuner that ours calls (plugin/next/open.h) may
 * have one of them. Our own tuner exports neither.
 *
 * version  what differs from v4
 *   v2     no cost table: the tuner names one algorithm and protocol, or leaves -1 in both
 *   v3     a cost table, but no argument for registered buffers
 */
#ifndef NCCL_ABI_TUNER_OLD_H_
#define NCCL_ABI_TUNER_OLD_H_

#include "nccl_abi/base.h"

struct nccl_abi_tuner_v2 {
    const char *name;
    nccl_abi_result (*init)(size_t ranks, size_t nodes, nccl_abi_logger logger, void **ctx);
    nccl_abi_result (*get_coll_info)(void *ctx, int func, size_t bytes, int coll_net, int nvls,
                                     int pipe_ops, int *algo, int *proto, int *n_channels);
    nccl_abi_result (*destroy)(void *ctx);
};

struct nccl_abi_tuner_v3 {
    const char *name;
    nccl_abi_result (*init)(size_t ranks, size_t nodes, nccl_abi_logger logger, void **ctx);
    nccl_abi_result (*get_coll_info)(void *ctx, int func, size_t bytes, int pipe_ops, float **table,
                                     int n_algo, int n_proto, int *n_channels);
    nccl_abi_result (*destroy)(void *ctx);
};

_Static_assert(sizeof(struct nccl_abi_tuner_v2) == 4 * sizeof(void *), "v2 members");
_Static_assert(sizeof(struct nccl_abi_tuner_v3) == 4 * sizeof(void *), "v3 members");

#endif
