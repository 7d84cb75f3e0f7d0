/* SPDX-License-Identifier: Apache-2.0 */
/* coll.c - what a call does: an all-reduce by some operator, a reduce-scatter or an all-gather. */
#include "bench/compare/coll.h"

const struct compare_op compare_ops[OPS] = {
    {"sum", SYMTUNER_AR_ALL_REDUCE, ncclSum},
    {"max", SYMTUNER_AR_ALL_REDUCE, ncclMax},
    {"min", SYMTUNER_AR_ALL_REDUCE, ncclMin},
    {"reduce_scatter", SYMTUNER_AR_REDUCE_SCATTER, ncclSum},
    {"all_gather", SYMTUNER_AR_ALL_GATHER, ncclSum},
};

size_t compare_count(const struct compare_call *c)
{
    return c->bytes / c->size / (size_t)(c->op->coll == SYMTUNER_AR_ALL_REDUCE ? 1 : c->ranks);
}

size_t compare_received(const struct compare_call *c)
{
    return compare_count(c) * (size_t)(c->op->coll == SYMTUNER_AR_ALL_GATHER ? c->ranks : 1);
}

int compare_times(const struct compare_call *c)
{
    return c->op->op == ncclSum && c->op->coll != SYMTUNER_AR_ALL_GATHER ? c->ranks : 1;
}

ncclResult_t compare_nccl(const struct compare_call *c, const void *send, void *recv,
                          ncclComm_t comm, cudaStream_t stream)
{
    const size_t count = compare_count(c);

    return c->op->coll == SYMTUNER_AR_ALL_REDUCE
               ? ncclAllReduce(send, recv, count, c->type, c->op->op, comm, stream)
           : c->op->coll == SYMTUNER_AR_REDUCE_SCATTER
               ? ncclReduceScatter(send, recv, count, c->type, c->op->op, comm, stream)
               : ncclAllGather(send, recv, count, c->type, comm, stream);
}

ncclResult_t compare_ours(const struct compare_call *c, const void *send, void *recv,
                          symtuner_ar *handle, cudaStream_t stream)
{
    const size_t count = compare_count(c);

    return c->op->coll == SYMTUNER_AR_ALL_REDUCE
               ? symtuner_ar_all_reduce(send, recv, count, c->type, c->op->op, handle, stream)
           : c->op->coll == SYMTUNER_AR_REDUCE_SCATTER
               ? symtuner_ar_reduce_scatter(send, recv, count, c->type, c->op->op, handle, stream)
               : symtuner_ar_all_gather(send, recv, count, c->type, handle, stream);
}
