/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.c - all-reduce: the kernel tma adds up, and the copy engines gather the sums.
 *
 *   main stream     the kernel tma: own shard | tell 1, fetch shard of 1, FETCHED to 1 | watch
 *   stream of r                               '. tell r, fetch shard of r, FETCHED to r .'
 *
 * Here 1 is the next rank, and r stands for each further rank. FETCHED and GAVE_UP are flags that
 * each rank has for each of its peers. "tell r" copies to GAVE_UP at rank r whether this rank has
 * given up; the last paragraph says why. The first step is the kernel that does a reduce-scatter
 * (kernels/device/halves/tma.cu). It adds up this rank's shard of the message and stores the sums
 * in this rank's recv. At its end it waits for all ranks. So afterwards all shards are complete,
 * and nobody reads a send buffer any more. The copies that follow need not wait for anything, and
 * no stream memory operation is used. Most of the time after the first step no multiprocessor works
 * for the call.
 *
 * Then each rank fetches the shards of the others from their recv into its own recv, and sets
 * FETCHED at the owner of each shard. The peers read this rank's recv, too. So at the end the
 * kernel watch (kernels/device/halves/engines.cu) waits until all peers have set FETCHED. Each flag
 * is clear before its writer sets it again: the rank that waits for the flag clears it before its
 * next call, and the writer sets it only after the kernel of the next call has waited for all
 * ranks.
 *
 * A call in place is safe: the copies write to the shards of other ranks, and the owners of these
 * shards have read them in the first step.
 *
 * If this rank gives up, its copies still run. They read recv of the peers, and write only to this
 * rank's recv and to flags. But the program of this rank sees the error, and may then change recv
 * while a peer fetches a shard from there. If watch gives up, it sets GAVE_UP at the peers before
 * the program can see the error, as in an all-gather (gather.c). If the first kernel gives up, it
 * does not set GAVE_UP. Therefore, before this rank sets FETCHED at a peer, it copies its verdict
 * (enum ar_verdict: whether and why it has given up) to GAVE_UP at that peer. A rank that has
 * FETCHED of all peers then looks for GAVE_UP, and fails if a peer has given up.
 */
#include "kernels/engines/engines.h"
#include "kernels/engines/steps.h"
#include "kernels/group/error.h"
#include "kernels/order/capture.h"

#define TRY(call) AR_TRY(h, call, "all-reduce by TMA and copy engines")

/* Copy this rank's verdict (enum ar_verdict) to GAVE_UP at rank ${r}, and then fetch the shard of
 * that rank. */
static ncclResult_t fetch(symtuner_ar *h, const struct ar_args *a, int r, cudaStream_t stream)
{
    const uint64_t at = (uint64_t)r * a->shard;

#ifndef ST_BREAK_VERDICT
    TRY(ar_step_copy(ar_step_flag(a, r, AR_ENGINES_GAVE_UP, a->me), &a->state->dead,
                     sizeof a->state->dead, stream));
#endif
    TRY(ar_step_fetch(a, r, a->out + at, a->dst[r] + at, ar_shard_bytes(a->bytes, a->shard, r),
                      stream));
    return ncclSuccess;
}

/* Launch the kernel that adds up this rank's shard. It is the kernel of a reduce-scatter, whose
 * recv has only this rank's part. So tell it that recv begins at this rank's shard, and that this
 * rank's part of each send lies there, too. */
static cudaError_t add(const struct ar_args *call, const struct ar_engines_adder *adder,
                       cudaStream_t stream)
{
    const uint64_t at = (uint64_t)call->me * call->shard;
    const cudaLaunchConfig_t config = {.gridDim = {(unsigned)adder->ctas, 1, 1},
                                       .blockDim = {(unsigned)adder->threads, 1, 1},
                                       .dynamicSmemBytes = (size_t)adder->shared,
                                       .stream = stream};
    struct ar_args args = *call;
    void *params[] = {&args};

    args.out += at;
    args.bytes = ar_shard_bytes(call->bytes, call->shard, call->me);
    for (int r = 0; r < call->ranks; r++)
        args.src[r] += at;
    return cudaLaunchKernelExC(&config, adder->kernel, params);
}

ncclResult_t ar_engines_reduce(symtuner_ar *h, const struct ar_args *args,
                               const struct ar_engines_adder *adder, const void *watch,
                               cudaStream_t stream)
{
    struct ar_capture capture = {0};
    const int next = (args->me + 1) % args->ranks;
    ncclResult_t result;

    if (args->ranks > 2) {
        TRY(ar_capture_look(stream, &capture));
        result = ar_step_prepare(h, capture.id);
        if (result != ncclSuccess)
            return result;
    }
#ifdef ST_BREAK_SHARD
    for (int i = 2; i < args->ranks; i++)
        TRY(ar_step_follow(h->engines->stream[(args->me + i) % args->ranks], stream,
                           h->engines->begin));
#endif
    TRY(add(args, adder, stream));
    for (int i = 2; i < args->ranks; i++) {
        const int r = (args->me + i) % args->ranks;

#ifndef ST_BREAK_SHARD
        TRY(ar_step_follow(h->engines->stream[r], stream, h->engines->begin));
#endif
        result = fetch(h, args, r, h->engines->stream[r]);
        if (result != ncclSuccess)
            return result;
    }
    result = fetch(h, args, next, stream);
    if (result != ncclSuccess)
        return result;
    for (int r = 0; r < args->ranks; r++)
        if (r != args->me && r != next)
            TRY(ar_step_follow(stream, h->engines->stream[r], h->engines->end[r]));
    TRY(ar_step_watch(args, watch, args->ranks - 1, AR_ENGINES_FETCHED, stream));
    return ncclSuccess;
}
