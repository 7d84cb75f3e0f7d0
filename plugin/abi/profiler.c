/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.c - NCCL's profiler interface: v4 (2.27), v5 (2.28), v6 (2.29, 2.30), v7 (2.31.2+).
 * The tables of v5 to v7 have the same members. But the events that NCCL sends differ from version
 * to version (plugin/profiler.c).
 */
#include "plugin/profiler.h"

static nccl_abi_result init_v4(void **ctx, int *mask, const char *name, uint64_t comm_hash,
                               int nodes, int ranks, int rank, nccl_abi_logger logger)
{
    struct st_profiler_init init = {4, comm_hash, name, nodes, ranks, rank, logger, mask};

    return st_profiler_open(&init, ctx);
}

#define INIT(version)                                                                              \
    static nccl_abi_result init_v##version(void **ctx, uint64_t comm_id, int *mask,                \
                                           const char *name, int nodes, int ranks, int rank,       \
                                           nccl_abi_logger logger)                                 \
    {                                                                                              \
        struct st_profiler_init init = {version, comm_id, name, nodes, ranks, rank, logger, mask}; \
                                                                                                   \
        return st_profiler_open(&init, ctx);                                                       \
    }
INIT(5)
INIT(6)
INIT(7)

#define EXPORT(version, type, event)                                                               \
    static nccl_abi_result stop_v##version(void *handle)                                           \
    {                                                                                              \
        return st_profiler_stop(version, handle);                                                  \
    }                                                                                              \
    static nccl_abi_result state_v##version(void *handle, int state, void *args)                   \
    {                                                                                              \
        return st_profiler_state(version, handle, state, args);                                    \
    }                                                                                              \
    extern const struct type ncclProfiler_v##version;                                              \
    __attribute__((visibility("default"))) const struct type ncclProfiler_v##version =             \
        {"symtuner",     init_v##version, event,                                                   \
         stop_v##version, state_v##version, st_profiler_close};
EXPORT(4, nccl_abi_profiler_v4, st_profiler_event_v4)
EXPORT(5, nccl_abi_profiler_v5, st_profiler_event_v5)
EXPORT(6, nccl_abi_profiler_v5, st_profiler_event_v6)
EXPORT(7, nccl_abi_profiler_v5, st_profiler_event_v7)
