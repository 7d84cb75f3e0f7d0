/* SPDX-License-Identifier: Apache-2.0 */
/* tuner_v6.c - NCCL 2.30 to 2.32.3. The cost constants are for a chained tuner. */
#include "plugin/tuner.h"

static nccl_abi_result init(void **ctx, uint64_t comm_id, size_t ranks, size_t nodes,
                            nccl_abi_logger logger, struct nccl_abi_nvl_domains *domains,
                            struct nccl_abi_constants_v5 *constants)
{
    struct st_tuner_init all = {6, comm_id, ranks, nodes, logger, domains, constants};

    return st_tuner_open(&all, ctx);
}

extern const struct nccl_abi_tuner_v6 ncclTunerPlugin_v6;
__attribute__((visibility("default"))) const struct nccl_abi_tuner_v6 ncclTunerPlugin_v6 = {
    "symtuner", init, st_tuner_decide, st_tuner_close, st_tuner_chunk};
