/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.h - NCCL's tuner interface, versions 4 to 7, declared in our own words.
 *
 * version  loaded by NCCL   what differs
 *   v4     2.27             init has no communicator id, and ctx is its last argument
 *   v5     2.28, 2.29       ctx is first; init also gets commId, NVLink domains, cost constants
 *   v6     2.30 - 2.32.3    a further function, getChunkSize, after finalize
 *   v7     2.32.6 +         cost constants cover five architectures instead of four
 *
 * NCCL declares the cost table as float **, but passes one array of numAlgo * numProto floats.
 * Entry (a, p) is ((float *)table)[a * numProto + p], in microseconds.
 */
#ifndef NCCL_ABI_TUNER_H_
#define NCCL_ABI_TUNER_H_

#include "nccl_abi/base.h"

/* How many NVLink domains there are, and the fewest and most ranks in one of them. */
struct nccl_abi_nvl_domains {
    int domains;
    int min_ranks;
    int max_ranks;
};

/* NCCL's cost constants: latencies in microseconds, bandwidths in GB/s. NCCL passes them to init,
 * which may change them, and uses them afterwards. Our tuner does not change them, but another
 * tuner that ours calls can (plugin/next/open.h). */
struct nccl_abi_constants_v5 {
    double base_latency[7][3];
    double hw_latency[3][7][3];
    double ll_max_bw[4][3];
    double ring_ll128_bw[4][3];
    double tree_ll128_bw[4][3];
    double tree_bw[4][3];
    double nvls_tree_bw[4][3];
};

struct nccl_abi_constants_v7 {
    double base_latency[7][3];
    double hw_latency[3][7][3];
    double ll_max_bw[5][3];
    double ring_ll128_bw[5][3];
    double tree_ll128_bw[5][3];
    double tree_bw[5][3];
    double nvls_tree_bw[5][3];
};

typedef nccl_abi_result (*nccl_abi_tuner_init_v5)(void **ctx, uint64_t comm_id, size_t ranks,
                                                  size_t nodes, nccl_abi_logger logger,
                                                  struct nccl_abi_nvl_domains *domains,
                                                  struct nccl_abi_constants_v5 *constants);
typedef nccl_abi_result (*nccl_abi_get_coll_info)(void *ctx, int func, size_t bytes, int pipe_ops,
                                                  float **table, int n_algo, int n_proto,
                                                  int reg_buff, int *n_channels);
typedef nccl_abi_result (*nccl_abi_get_chunk_size)(void *ctx, int func, size_t bytes, int algo,
                                                   int proto, int n_channels, size_t *chunk_size);

struct nccl_abi_tuner_v4 {
    const char *name;
    nccl_abi_result (*init)(size_t ranks, size_t nodes, nccl_abi_logger logger, void **ctx);
    nccl_abi_get_coll_info get_coll_info;
    nccl_abi_result (*destroy)(void *ctx);
};

struct nccl_abi_tuner_v5 {
    const char *name;
    nccl_abi_tuner_init_v5 init;
    nccl_abi_get_coll_info get_coll_info;
    nccl_abi_result (*finalize)(void *ctx);
};

struct nccl_abi_tuner_v6 {
    const char *name;
    nccl_abi_tuner_init_v5 init;
    nccl_abi_get_coll_info get_coll_info;
    nccl_abi_result (*finalize)(void *ctx);
    nccl_abi_get_chunk_size get_chunk_size;
};

struct nccl_abi_tuner_v7 {
    const char *name;
    nccl_abi_result (*init)(void **ctx, uint64_t comm_id, size_t ranks, size_t nodes,
                            nccl_abi_logger logger, struct nccl_abi_nvl_domains *domains,
                            struct nccl_abi_constants_v7 *constants);
    nccl_abi_get_coll_info get_coll_info;
    nccl_abi_result (*finalize)(void *ctx);
    nccl_abi_get_chunk_size get_chunk_size;
};

_Static_assert(sizeof(struct nccl_abi_nvl_domains) == 12, "three ints");
_Static_assert(sizeof(struct nccl_abi_constants_v5) == 1152, "144 doubles");
_Static_assert(sizeof(struct nccl_abi_constants_v7) == 1272, "159 doubles");
_Static_assert(offsetof(struct nccl_abi_constants_v5, nvls_tree_bw) == 1056, "v5 layout");
_Static_assert(offsetof(struct nccl_abi_constants_v7, nvls_tree_bw) == 1152, "v7 layout");
_Static_assert(sizeof(struct nccl_abi_tuner_v4) == 4 * sizeof(void *), "v4 members");
_Static_assert(sizeof(struct nccl_abi_tuner_v5) == 4 * sizeof(void *), "v5 members");
_Static_assert(sizeof(struct nccl_abi_tuner_v6) == 5 * sizeof(void *), "v6 members");
_Static_assert(sizeof(struct nccl_abi_tuner_v7) == 5 * sizeof(void *), "v7 members");

#endif
