/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.c - a tuner of interface version VERSION (2 to 7). It does what a test wants and records
 * the questions that it gets. -DWITHOUT=1 leaves out init, -DWITHOUT=2 leaves out getCollInfo. It
 * is compiled once per version.
 */
#include <string.h>

#include "nccl_abi/tuner_old.h"
#include "test/host/fakes/record.h"

#define PUBLIC __attribute__((visibility("default")))
#ifndef WITHOUT
#define WITHOUT 0
#endif

extern struct tuner_record tuner_record;
PUBLIC struct tuner_record tuner_record = {.algo = -1, .proto = -1};
#define r tuner_record

static int place[8]; /* the addresses of the elements serve as contexts */

static nccl_abi_result opened(size_t ranks, size_t nodes, nccl_abi_logger logger, void **ctx)
{
    r.ranks = ranks;
    r.nodes = nodes;
    r.logger = logger;
    if (!r.fail_init)
        *ctx = &place[r.inits % 8];
    r.inits++;
    return r.fail_init;
}

static void check(void *ctx)
{
    r.wrong_ctx += (int *)ctx < place || (int *)ctx >= place + 8;
}

static nccl_abi_result destroy(void *ctx)
{
    check(ctx);
    r.ends++;
    return 0;
}

static void asked(void *ctx, int func, size_t bytes, int pipe_ops, int *channels)
{
    check(ctx);
    r.asks++;
    r.func = func;
    r.bytes = bytes;
    r.pipe_ops = pipe_ops;
    r.given_channels = *channels;
    if (r.channels)
        *channels = r.channels;
}

#if VERSION == 2
static nccl_abi_result get_coll_info(void *ctx, int func, size_t bytes, int coll_net, int nvls,
                                     int pipe_ops, int *algo, int *proto, int *channels)
{
    asked(ctx, func, bytes, pipe_ops, channels);
    r.coll_net = coll_net;
    r.nvls = nvls;
    r.wrong_ctx += *algo != -1 || *proto != -1;
    *algo = r.algo;
    *proto = r.proto;
    return r.fail_ask;
}
#else
static nccl_abi_result see_table(float **table, int n_algo, int n_proto)
{
    r.table = table;
    r.n_algo = n_algo;
    r.n_proto = n_proto;
    memcpy(r.given, table, sizeof r.given);
    if (r.write)
        memcpy(table, r.answer, sizeof r.answer);
    return r.fail_ask;
}
#if VERSION == 3
static nccl_abi_result get_coll_info(void *ctx, int func, size_t bytes, int pipe_ops, float **table,
                                     int n_algo, int n_proto, int *channels)
{
    asked(ctx, func, bytes, pipe_ops, channels);
    return see_table(table, n_algo, n_proto);
}
#else
static nccl_abi_result get_coll_info(void *ctx, int func, size_t bytes, int pipe_ops, float **table,
                                     int n_algo, int n_proto, int reg_buff, int *channels)
{
    asked(ctx, func, bytes, pipe_ops, channels);
    r.reg_buff = reg_buff;
    return see_table(table, n_algo, n_proto);
}
#endif
#endif

#if VERSION >= 5
#if VERSION == 7
typedef struct nccl_abi_constants_v7 constants_of_version;
#else
typedef struct nccl_abi_constants_v5 constants_of_version;
#endif

static nccl_abi_result init(void **ctx, uint64_t comm_id, size_t ranks, size_t nodes,
                            nccl_abi_logger logger, struct nccl_abi_nvl_domains *domains,
                            constants_of_version *constants)
{
    double *number = (double *)constants;

    r.comm_id = comm_id;
    r.constants = constants;
    if (domains)
        r.domains = *domains;
    if (constants)
        memcpy(r.constant, constants, sizeof *constants);
    for (size_t i = 0; constants && i < sizeof *constants / sizeof *number; i++)
        if (number[i] >= 0)
            number[i] += r.bend;
    return opened(ranks, nodes, logger, ctx);
}
#else
static nccl_abi_result init(size_t ranks, size_t nodes, nccl_abi_logger logger, void **ctx)
{
    return opened(ranks, nodes, logger, ctx);
}
#endif

#if VERSION >= 6
static nccl_abi_result get_chunk_size(void *ctx, int func, size_t bytes, int algo, int proto,
                                      int channels, size_t *chunk)
{
    check(ctx);
    r.chunks++;
    r.chunk_func = func;
    r.chunk_bytes = bytes;
    r.chunk_algo = algo;
    r.chunk_proto = proto;
    r.chunk_channels = channels;
    r.given_chunk = *chunk;
    if (r.chunk)
        *chunk = r.chunk;
    return 0;
}
#define CHUNK , get_chunk_size
#else
#define CHUNK
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
extern const struct JOIN(nccl_abi_tuner_v, VERSION) JOIN(ncclTunerPlugin_v, VERSION);
PUBLIC const struct JOIN(nccl_abi_tuner_v, VERSION) JOIN(ncclTunerPlugin_v, VERSION) = {
    "fake", WITHOUT == 1 ? NULL : init, WITHOUT == 2 ? NULL : get_coll_info, destroy CHUNK};
