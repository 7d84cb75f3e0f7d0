/* SPDX-License-Identifier: Apache-2.0 */
/* tuner_v4.c - NCCL 2.27: no communicator id, the context comes last. */
#include "plugin/tuner.h"

static nccl_abi_result init(size_t ranks, size_t nodes, nccl_abi_logger logger, void **ctx)
{
    struct st_tuner_init all = {.abi = 4, .ranks = ranks, .nodes = nodes, .logger = logger};

    return st_tuner_open(&all, ctx);
}

extern const struct nccl_abi_tuner_v4 ncclTunerPlugin_v4;
__attribute__((visibility("default"))) const struct nccl_abi_tuner_v4 ncclTunerPlugin_v4 = {
    "symtuner", init, st_tuner_decide, st_tuner_close};
