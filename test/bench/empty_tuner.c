/* SPDX-License-Identifier: Apache-2.0 */
/* empty_tuner.c - a plugin that does nothing; decide_ns.c compares our plugin with it. */
#include "nccl_abi/profiler.h"
#include "nccl_abi/tuner.h"

static nccl_abi_result tuner_init(void **ctx, uint64_t comm_id, size_t ranks, size_t nodes,
                                  nccl_abi_logger logger, struct nccl_abi_nvl_domains *domains,
                                  struct nccl_abi_constants_v5 *constants)
{
    (void)comm_id, (void)ranks, (void)nodes, (void)logger, (void)domains, (void)constants;
    *ctx = NULL;
    return NCCL_ABI_SUCCESS;
}

static nccl_abi_result get_coll_info(void *ctx, int func, size_t bytes, int pipe_ops, float **table,
                                     int n_algo, int n_proto, int reg_buff, int *n_channels)
{
    (void)ctx, (void)func, (void)bytes, (void)pipe_ops, (void)table, (void)n_algo, (void)n_proto;
    (void)reg_buff, (void)n_channels;
    return NCCL_ABI_SUCCESS;
}

static nccl_abi_result profiler_init(void **ctx, uint64_t comm_id, int *mask, const char *comm_name,
                                     int nodes, int ranks, int rank, nccl_abi_logger logger)
{
    (void)comm_id, (void)comm_name, (void)nodes, (void)ranks, (void)rank, (void)logger;
    *ctx = NULL;
    *mask = NCCL_ABI_EV_COLL_API;
    return NCCL_ABI_SUCCESS;
}

static nccl_abi_result start_event(void *ctx, void **handle, struct nccl_abi_event_v5 *event)
{
    (void)ctx, (void)event;
    *handle = NULL;
    return NCCL_ABI_SUCCESS;
}

static nccl_abi_result stop_event(void *handle)
{
    (void)handle;
    return NCCL_ABI_SUCCESS;
}

static nccl_abi_result record_event_state(void *handle, int state, void *args)
{
    (void)handle, (void)state, (void)args;
    return NCCL_ABI_SUCCESS;
}

static nccl_abi_result finalize(void *ctx)
{
    (void)ctx;
    return NCCL_ABI_SUCCESS;
}

extern const struct nccl_abi_tuner_v5 ncclTunerPlugin_v5;
__attribute__((visibility("default")))
const struct nccl_abi_tuner_v5 ncclTunerPlugin_v5 = {"empty", tuner_init, get_coll_info, finalize};
extern const struct nccl_abi_profiler_v5 ncclProfiler_v5;
__attribute__((visibility("default"))) const struct nccl_abi_profiler_v5 ncclProfiler_v5 = {
    "empty", profiler_init, start_event, stop_event, record_event_state, finalize};
