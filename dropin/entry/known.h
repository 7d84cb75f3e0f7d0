/* SPDX-License-Identifier: Apache-2.0 */
/*
 * known.h - the NCCL functions that the drop-in intercepts, one row each.
 *
 * The program calls all other functions of NCCL directly: those that do not concern us, and those
 * that only a later release of NCCL has. Every function in this file returns ncclResult_t.
 */
#ifndef ST_KNOWN_H_
#define ST_KNOWN_H_

#include <stddef.h>

#include "dropin/tally.h"
#include "nccl_abi/base.h"
#include "nccl_abi/calls.h"

/* Functions without parameters: X(name without nccl) */
#define ST_PLAIN_MAP(X)                                                                            \
    X(GroupStart)                                                                                  \
    X(GroupEnd)

/* X(name without nccl, parameters, arguments) */
#define ST_KNOWN_MAP(X)                                                                            \
    X(GetUniqueId, (struct nccl_abi_id * id), (id))                                                \
    X(AllReduce,                                                                                   \
      (const void *send, void *recv, size_t count, int dtype, int op, void *comm, void *stream),   \
      (send, recv, count, dtype, op, comm, stream))                                                \
    X(ReduceScatter,                                                                               \
      (const void *send, void *recv, size_t count, int dtype, int op, void *comm, void *stream),   \
      (send, recv, count, dtype, op, comm, stream))                                                \
    X(AllGather,                                                                                   \
      (const void *send, void *recv, size_t count, int dtype, void *comm, void *stream),           \
      (send, recv, count, dtype, comm, stream))                                                    \
    X(RedOpCreatePreMulSum, (int *op, void *scalar, int dtype, int residence, void *comm),         \
      (op, scalar, dtype, residence, comm))                                                        \
    X(RedOpDestroy, (int op, void *comm), (op, comm))                                              \
    X(GroupSimulateEnd, (void *info), (info))                                                      \
    X(CommInitRank, (void **comm, int ranks, struct nccl_abi_id id, int rank),                     \
      (comm, ranks, id, rank))                                                                     \
    X(CommInitRankConfig, (void **comm, int ranks, struct nccl_abi_id id, int rank, void *config), \
      (comm, ranks, id, rank, config))                                                             \
    X(CommInitRankScalable,                                                                        \
      (void **comm, int ranks, int rank, int ids, struct nccl_abi_id *id, void *config),           \
      (comm, ranks, rank, ids, id, config))                                                        \
    X(CommInitAll, (void **comms, int n, const int *devices), (comms, n, devices))                 \
    X(CommSplit, (void *comm, int color, int key, void **made, void *config),                      \
      (comm, color, key, made, config))                                                            \
    X(CommShrink, (void *comm, int *without, int n, void **made, void *config, int flags),         \
      (comm, without, n, made, config, flags))                                                     \
    X(CommGrow,                                                                                    \
      (void *comm, int ranks, const struct nccl_abi_id *id, int rank, void **made, void *config),  \
      (comm, ranks, id, rank, made, config))                                                       \
    X(CommFinalize, (void *comm), (comm))                                                          \
    X(CommDestroy, (void *comm), (comm))                                                           \
    X(CommAbort, (void *comm), (comm))                                                             \
    X(CommRevoke, (void *comm, int flags), (comm, flags))                                          \
    X(CommSuspend, (void *comm, int flags), (comm, flags))                                         \
    X(CommGetAsyncError, (void *comm, int *error), (comm, error))                                  \
    X(CommWindowRegister, (void *comm, void *buffer, size_t bytes, void **window, int flags),      \
      (comm, buffer, bytes, window, flags))                                                        \
    X(CommWindowDeregister, (void *comm, void *window), (comm, window))

/* Functions whose calls go to NCCL. Only an all-reduce, reduce-scatter or all-gather with a
 * ${config} of NULL is treated as the plain call above. We intercept these functions to count the
 * calls, and because they matter in groups: if a communicator has one of these collectives in a
 * group, NCCL must run all collectives of that communicator in the group.
 * X(name without nccl, enum st_tally_coll, is it collective?, elements of the larger buffer: 1
 *   (count) or ranks (count x number of ranks), parameters, arguments) */
#define ST_FORWARDED_MAP(X)                                                                        \
    X(Broadcast, BROADCAST, 1, 1,                                                                  \
      (const void *send, void *recv, size_t count, int dtype, int root, void *comm, void *stream), \
      (send, recv, count, dtype, root, comm, stream))                                              \
    X(Bcast, BROADCAST, 1, 1,                                                                      \
      (void *buffer, size_t count, int dtype, int root, void *comm, void *stream),                 \
      (buffer, count, dtype, root, comm, stream))                                                  \
    X(Reduce, REDUCE, 1, 1,                                                                        \
      (const void *send, void *recv, size_t count, int dtype, int op, int root, void *comm,        \
       void *stream),                                                                              \
      (send, recv, count, dtype, op, root, comm, stream))                                          \
    X(Send, SEND, 0, 1,                                                                            \
      (const void *send, size_t count, int dtype, int peer, void *comm, void *stream),             \
      (send, count, dtype, peer, comm, stream))                                                    \
    X(Recv, RECV, 0, 1, (void *recv, size_t count, int dtype, int peer, void *comm, void *stream), \
      (recv, count, dtype, peer, comm, stream))                                                    \
    X(AlltoAll, OTHER, 1, ranks,                                                                   \
      (const void *send, void *recv, size_t count, int dtype, void *comm, void *stream),           \
      (send, recv, count, dtype, comm, stream))                                                    \
    X(Gather, OTHER, 1, ranks,                                                                     \
      (const void *send, void *recv, size_t count, int dtype, int root, void *comm, void *stream), \
      (send, recv, count, dtype, root, comm, stream))                                              \
    X(Scatter, OTHER, 1, ranks,                                                                    \
      (const void *send, void *recv, size_t count, int dtype, int root, void *comm, void *stream), \
      (send, recv, count, dtype, root, comm, stream))                                              \
    X(AllReduceConfig, ALL_REDUCE, 1, 1,                                                           \
      (const void *send, void *recv, size_t count, int dtype, int op, void *comm, void *stream,    \
       const void *config),                                                                        \
      (send, recv, count, dtype, op, comm, stream, config))                                        \
    X(ReduceScatterConfig, REDUCE_SCATTER, 1, ranks,                                               \
      (const void *send, void *recv, size_t count, int dtype, int op, void *comm, void *stream,    \
       const void *config),                                                                        \
      (send, recv, count, dtype, op, comm, stream, config))                                        \
    X(AllGatherConfig, ALL_GATHER, 1, ranks,                                                       \
      (const void *send, void *recv, size_t count, int dtype, void *comm, void *stream,            \
       const void *config),                                                                        \
      (send, recv, count, dtype, comm, stream, config))                                            \
    X(BroadcastConfig, BROADCAST, 1, 1,                                                            \
      (const void *send, void *recv, size_t count, int dtype, int root, void *comm, void *stream,  \
       const void *config),                                                                        \
      (send, recv, count, dtype, root, comm, stream, config))                                      \
    X(ReduceConfig, REDUCE, 1, 1,                                                                  \
      (const void *send, void *recv, size_t count, int dtype, int op, int root, void *comm,        \
       void *stream, const void *config),                                                          \
      (send, recv, count, dtype, op, root, comm, stream, config))                                  \
    X(AlltoAllConfig, OTHER, 1, ranks,                                                             \
      (const void *send, void *recv, size_t count, int dtype, void *comm, void *stream,            \
       const void *config),                                                                        \
      (send, recv, count, dtype, comm, stream, config))                                            \
    X(GatherConfig, OTHER, 1, ranks,                                                               \
      (const void *send, void *recv, size_t count, int dtype, int root, void *comm, void *stream,  \
       const void *config),                                                                        \
      (send, recv, count, dtype, root, comm, stream, config))                                      \
    X(ScatterConfig, OTHER, 1, ranks,                                                              \
      (const void *send, void *recv, size_t count, int dtype, int root, void *comm, void *stream,  \
       const void *config),                                                                        \
      (send, recv, count, dtype, root, comm, stream, config))

enum st_known {
#define X(name) ST_KNOWN_##name,
    ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) ST_KNOWN_##name,
        ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args) ST_KNOWN_##name,
            ST_FORWARDED_MAP(X)
#undef X
                ST_KNOWN
};

/* The functions of one NCCL. A member is NULL if this NCCL has no function of that name. */
struct st_functions {
#define X(name) nccl_abi_result (*name)(void);
    ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) nccl_abi_result(*name) params;
    ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args) nccl_abi_result(*name) params;
    ST_FORWARDED_MAP(X)
#undef X
};
_Static_assert(sizeof(struct st_functions) == ST_KNOWN * sizeof(void *),
               "in the order of st_known");

#endif
