/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h - our profiler for one communicator: counts calls, and the kernels that ran.
 *
 * If the user wants a ledger, we ask NCCL for at most three kinds of events. Otherwise we ask for
 * none. A profiler behind ours (plugin/next/profiler.h) asks for events of its own. The context
 * that we give NCCL is a number, not an address: NCCL's proxy threads may pass us a context that
 * another process has made, and an address of that process would mean nothing here.
 */
#ifndef ST_PROFILER_H_
#define ST_PROFILER_H_

#include "plugin/next/profiler.h"

nccl_abi_result st_profiler_open(const struct st_profiler_init *init, void **ctx_out);
nccl_abi_result st_profiler_event_v4(void *ctx, void **handle, struct nccl_abi_event_v4 *event);
nccl_abi_result st_profiler_event_v5(void *ctx, void **handle, struct nccl_abi_event_v5 *event);
nccl_abi_result st_profiler_event_v6(void *ctx, void **handle, struct nccl_abi_event_v5 *event);
nccl_abi_result st_profiler_event_v7(void *ctx, void **handle, struct nccl_abi_event_v5 *event);
nccl_abi_result st_profiler_stop(int abi, void *handle);
nccl_abi_result st_profiler_state(int abi, void *handle, int state, void *args);
nccl_abi_result st_profiler_close(void *ctx);

#endif
