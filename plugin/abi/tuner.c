/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.c - NCCL's tuner interface: v4 (2.27), v5 (2.28, 2.29), v6 (2.30 to 2.32.3), v7 (2.32.6 and
 * later). We do not read the cost constants that NCCL passes. We pass them on to the tuner behind
 * ours (plugin/next/open.h).
 */
#include "plugin/tuner.h"

/* In v4 init gets no communicator id, and the context is its last argument. */
static nccl_abi_result init_v4(size_t ranks, size_t nodes, nccl_abi_logger logger, void **ctx)
{
    struct st_tuner_init all = {.abi = 4, .ranks = ranks, .nodes = nodes, .logger = logger};

    return st_tuner_open(&all, ctx);
}

#define INIT(version, constants_type)                                                              \
    static nccl_abi_result init_v##version(                                                        \
        void **ctx, uint64_t comm_id, size_t ranks, size_t nodes, nccl_abi_logger logger,          \
        struct nccl_abi_nvl_domains *domains, struct constants_type *constants)                    \
    {                                                                                              \
        struct st_tuner_init all = {version, comm_id, ranks, nodes, logger, domains, constants};   \
                                                                                                   \
        return st_tuner_open(&all, ctx);                                                           \
    }
INIT(5, nccl_abi_constants_v5)
INIT(6, nccl_abi_constants_v5)
INIT(7, nccl_abi_constants_v7)

#define EXPORT(version, ...)                                                                       \
    extern const struct nccl_abi_tuner_v##version ncclTunerPlugin_v##version;                      \
    __attribute__((visibility("default"))) const struct nccl_abi_tuner_v##version                  \
        ncclTunerPlugin_v##version = {"symtuner", init_v##version, __VA_ARGS__};
EXPORT(4, st_tuner_decide, st_tuner_close)
EXPORT(5, st_tuner_decide, st_tuner_close)
EXPORT(6, st_tuner_decide, st_tuner_close, st_tuner_chunk)
EXPORT(7, st_tuner_decide, st_tuner_close, st_tuner_chunk)
