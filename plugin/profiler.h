/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h - one communicator as the profiler interface sees it: count calls and what ran.
 *
 * Only two or three event kinds are asked for, and none at all unless a ledger is wanted. Handles
 * are never given out, so NCCL stops no event of ours.
 */
#ifndef ST_PROFILER_H_
#define ST_PROFILER_H_

#include "nccl_abi/profiler.h"

nccl_abi_result st_profiler_open(int abi, uint64_t comm_id, int nodes, int ranks,
                                 nccl_abi_logger logger, int *mask_out, void **ctx_out);
nccl_abi_result st_profiler_event_v4(void *ctx, void **handle, struct nccl_abi_event_v4 *event);
nccl_abi_result st_profiler_event_v5(void *ctx, void **handle, struct nccl_abi_event_v5 *event);
nccl_abi_result st_profiler_event_v7(void *ctx, void **handle, struct nccl_abi_event_v5 *event);
nccl_abi_result st_profiler_stop(void *handle);
nccl_abi_result st_profiler_state(void *handle, int state, void *args);
nccl_abi_result st_profiler_close(void *ctx);

#endif
