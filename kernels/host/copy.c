/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - a two-shot all-reduce in which copy engines move the data, for the largest messages.
 *
 *   copy stream   RS0 signal | RS1 signal | await gather0  AG0 | await gather1  AG1 | signal leave
 *                     \            \          ^                    ^                     \
 *   main stream     await reduce0  add 0  signal | await reduce1  add 1  signal      await leave
 *
 * In RS, the reduce-scatter, this rank copies its data into the scratch of the ranks that own the
 * shards. In AG, the all-gather, it fetches the sums from the owners' recv into its own recv. Each
 * shard is cut into two pieces, 0 and 1, so that one piece is added up while the other is moved.
 *
 * A copy runs when its stream reaches it, and cannot check whether its rank has given up. So copies
 * write only to scratch, or to the recv of the rank that runs them. If owners stored sums in the
 * peers' recv instead, a late copy could overwrite data of a rank that has already given up on the
 * call. The price is that an owner waits until all ranks have fetched, because they read its recv
 * until then.
 *
 * No operation waits for another one that is submitted later. So there is no deadlock even if a
 * driver runs both streams through one queue. The peers' slots are free when the call starts,
 * because the previous call of this rank ended only after every owner had read its slots.
 *
 * In a call that is only an all-gather, each rank fetches the parts of the others from their send
 * buffers. One barrier comes before these copies and one after them. Each barrier is a signal and
 * an await. A rank writes only to its own recv, so that a late copy harms no other rank.
 */
#include "kernels/group/error.h"
#include "kernels/host/launch.h"
#include "kernels/order/capture.h"
#include "kernels/order/side.h"

struct piece {
    uint64_t at, bytes; /* offset from the start of its shard, and length */
};

/* Return piece ${q} of the shard of ${owner}. */
static struct piece cut(const struct ar_args *args, int owner, int q, int pieces)
{
    uint64_t length = ar_round_up(ar_div_up(args->shard, (uint64_t)pieces), AR_LINE * AR_WORD);
    uint64_t all = ar_shard_bytes(args->bytes, args->shard, owner);
    struct piece p = {(uint64_t)q * length, 0};

    if (p.at < all)
        p.bytes = all - p.at < length ? all - p.at : length;
    return p;
}

static cudaError_t run_helper(const void *kernel, const struct ar_args *call, int kind,
                              uint64_t step, int last, cudaStream_t stream)
{
    struct ar_args args = *call;
    void *params[] = {&args};

    args.lag = kind;
    args.tiles = step;
    args.staged = last;
    return cudaLaunchKernel(kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, params, 0, stream);
}

/* Copy piece ${q} of every other owner's shard into the scratch of that owner. */
static cudaError_t scatter(const struct ar_args *a, int q, int pieces, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    for (int i = 1; i < a->ranks && error == cudaSuccess; i++) {
        int to = (a->me + i) % a->ranks;
        struct piece p = cut(a, to, q, pieces);

        if (p.bytes != 0)
            error = cudaMemcpyAsync(a->peer[to] + a->region + (uint64_t)a->me * a->shard + p.at,
                                    a->in + (uint64_t)to * a->shard + p.at, p.bytes,
                                    cudaMemcpyDefault, stream);
    }
    return error;
}

/* Every rank has added up its own shard in its recv. Copy piece ${q} of the other ranks' shards
 * from there to the recv of this rank. */
static cudaError_t gather(const struct ar_args *a, int q, int pieces, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    for (int i = 1; i < a->ranks && error == cudaSuccess; i++) {
        int from = (a->me + i) % a->ranks;
        struct piece p = cut(a, from, q, pieces);
        uint64_t at = (uint64_t)from * a->shard + p.at;

        if (p.bytes != 0)
            error =
                cudaMemcpyAsync(a->out + at, a->dst[from] + at, p.bytes, cudaMemcpyDefault, stream);
    }
    return error;
}

/* Add up piece ${q} of this rank's shard. */
static cudaError_t reduce(const struct ar_args *call, const void *kernel, int q, int pieces,
                          int ctas, int threads, cudaStream_t stream)
{
    struct ar_args args = *call;
    struct piece p = cut(call, call->me, q, pieces);
    uint64_t at = (uint64_t)call->me * call->shard + p.at;
    void *params[] = {&args};

    if (p.bytes == 0)
        return cudaSuccess;
    args.in += at;
    args.out += at;
    args.bytes = p.bytes;
    args.region += p.at;
    return cudaLaunchKernel(kernel, (dim3){(unsigned)ctas, 1, 1}, (dim3){(unsigned)threads, 1, 1},
                            params, 0, stream);
}

#define TRY(call) AR_TRY(h, call, "copy-engine schedule")

ncclResult_t ar_copy_guard(symtuner_ar *h, cudaStream_t stream)
{
    struct ar_args args;

    ar_args_start(h, AR_ARENA_SMALL, &args);
    args.ranks = 0; /* signal no peer */
    TRY(run_helper(ar_kernel_signal, &args, AR_FLAG_ENTER, 0, 0, stream));
    return ncclSuccess;
}

/* Set *side to a stream that first waits for all work that was submitted to ${stream} so far. */
static ncclResult_t fork(symtuner_ar *h, cudaStream_t stream, cudaStream_t *side)
{
    struct ar_capture capture = {0};
    ncclResult_t result;

    TRY(ar_capture_look(stream, &capture));
    result = ar_side_find(h, &h->sides, capture.id, side);
    if (result != ncclSuccess)
        return result;
    TRY(cudaEventRecord(h->copy_event[0], stream));
    TRY(cudaStreamWaitEvent(*side, h->copy_event[0], 0));
    return ncclSuccess;
}

ncclResult_t ar_copy_run(symtuner_ar *h, const struct ar_args *args, const void *kernel, int ctas,
                         int threads, cudaStream_t stream)
{
    enum { PIECES = 2 };
    cudaStream_t side;
    ncclResult_t result = fork(h, stream, &side);

    if (result != ncclSuccess)
        return result;
    for (int q = 0; q < PIECES; q++) {
        TRY(scatter(args, q, PIECES, side));
        TRY(run_helper(ar_kernel_signal, args, AR_FLAG_REDUCE, (uint64_t)q + 1, 0, side));
    }
    for (int q = 0; q < PIECES; q++) {
        TRY(run_helper(ar_kernel_await, args, AR_FLAG_REDUCE, (uint64_t)q + 1, 0, stream));
        TRY(reduce(args, kernel, q, PIECES, ctas, threads, stream));
        TRY(run_helper(ar_kernel_signal, args, AR_FLAG_GATHER, (uint64_t)q + 1, 0, stream));
    }
    for (int q = 0; q < PIECES; q++) {
        TRY(run_helper(ar_kernel_await, args, AR_FLAG_GATHER, (uint64_t)q + 1, 0, side));
        TRY(gather(args, q, PIECES, side));
    }
    TRY(run_helper(ar_kernel_signal, args, AR_FLAG_LEAVE, 1, 0, side));
    TRY(cudaEventRecord(h->copy_event[1], side));
    TRY(cudaStreamWaitEvent(stream, h->copy_event[1], 0));
    TRY(run_helper(ar_kernel_await, args, AR_FLAG_LEAVE, 1, 1, stream));
    return ncclSuccess;
}

ncclResult_t ar_copy_gather(symtuner_ar *h, const struct ar_args *a, cudaStream_t stream)
{
    char *own = a->out + (uint64_t)a->me * a->stride;
    cudaStream_t side;
    ncclResult_t result = fork(h, stream, &side);

    if (result != ncclSuccess)
        return result;
    if (own != a->in)
        TRY(cudaMemcpyAsync(own, a->in, a->bytes, cudaMemcpyDefault, side));
    TRY(cudaEventRecord(h->copy_event[1], side));
    TRY(run_helper(ar_kernel_signal, a, AR_FLAG_ENTER, 1, 0, stream));
    TRY(run_helper(ar_kernel_await, a, AR_FLAG_ENTER, 1, 0, stream));
    for (int i = 1; i < a->ranks; i++) {
        int from = (a->me + i) % a->ranks;

        TRY(cudaMemcpyAsync(a->out + (uint64_t)from * a->stride, a->src[from], a->bytes,
                            cudaMemcpyDefault, stream));
    }
    TRY(run_helper(ar_kernel_signal, a, AR_FLAG_LEAVE, 1, 0, stream));
    TRY(cudaStreamWaitEvent(stream, h->copy_event[1], 0));
    TRY(run_helper(ar_kernel_await, a, AR_FLAG_LEAVE, 1, 1, stream));
    return ncclSuccess;
}
