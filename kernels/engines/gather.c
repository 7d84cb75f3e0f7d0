/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c - all-gather by the copy engines, with flags that the copy engines write.
 *
 *   main stream    ENTERED to all peers .                           own part | own FETCHED
 *   peer stream r                        '. await ENTERED, clear it | fetch part r | FETCHED to r
 *   watch stream   the kernel watch: await FETCHED of all ranks, with a time limit
 *
 * A rank sets ENTERED at a peer when its own send is ready, and FETCHED when it has copied the part
 * of that peer. To set a flag, a copy engine copies a 1 of 8 bytes into the peer's scratch. That
 * copy is queued behind the copies that the flag reports. A stream waits for ENTERED with the
 * driver's stream memory operations, which need no multiprocessor. The only kernel is watch, which
 * ends the call. It is a kernel because only a kernel has a clock for the time limit. It is
 * submitted first, because a stream memory operation may hold up what is submitted after it.
 *
 * The rank that waits for a flag also clears it, so a replayed graph finds all flags clear. Each
 * flag is clear before its writer sets it again in the next call. Let rank A wait for the flags of
 * rank B:
 *
 *   ENTERED   A clears it before A sets FETCHED at B. B begins its next call only when it has that
 *             FETCHED.
 *   FETCHED   A clears it before A begins its next call and sets ENTERED at B. B sets the next
 *             FETCHED only when it has that ENTERED.
 *
 * If this rank gives up, watch first tells the peers by GAVE_UP. Then it tells the host, and sets
 * all ENTERED flags of this rank, so that no stream waits for ever. The copies that run after that
 * read memory of the peers, but write only to this rank's recv and to flags. So they do no harm to
 * a peer whose call has already ended. But the program of this rank sees the error, and may then
 * change send before a peer fetches it. So each rank looks for GAVE_UP after its last fetch, and
 * fails if a peer has set it.
 *
 * Without stream memory operations watch runs twice: first it awaits ENTERED, then FETCHED. The
 * flags are the same in both cases, so some ranks may have the operations and others not.
 *
 * No operation waits for another one that is submitted later on this GPU. There is one exception:
 * watch waits for the fetches of its own rank.
 */
#include "kernels/engines/engines.h"

#include <stdlib.h>

#include "kernels/engines/memops.h"
#include "kernels/group/error.h"
#include "kernels/order/capture.h"
#include "kernels/order/side.h"

struct ar_engines {
    struct ar_side *sides[AR_MAX_RANKS]; /* streams for each peer; watch runs on one of sides[me] */
    cudaStream_t stream[AR_MAX_RANKS];   /* [r]: the stream of sides[r] that this call uses */
    cudaEvent_t begin, end[AR_MAX_RANKS];
    struct ar_memops ops;
    bool has_ops;
};

#define TRY(call) AR_TRY(h, call, "all-gather by copy engines")

/* Return the address of the flag that rank ${writer} sets in the scratch of rank ${owner}. */
static char *flag(const struct ar_args *a, int owner, int row, int writer)
{
    return a->peer[owner] + ar_flag_offset(AR_FLAG_ENGINES, row, writer);
}

static cudaError_t copy(void *to, const void *from, uint64_t bytes, cudaStream_t stream)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

static cudaError_t raise_flag(const struct ar_args *a, int owner, int row, cudaStream_t stream)
{
    return copy(flag(a, owner, row, a->me), &a->state->one, sizeof a->state->one, stream);
}

/* Launch the kernel watch for the flags that ${ranks} ranks set in ${row}. With 0 ranks, watch only
 * checks whether the handle was destroyed. */
static cudaError_t start_watch(const struct ar_args *call, const void *kernel, int ranks, int row,
                               cudaStream_t stream)
{
    const uint64_t most = INT32_MAX, asked = (call->timeout_ns >> AR_ENGINES_TICK) + 1;
    const uint64_t limit = asked < most ? asked : most;
    struct ar_args args = *call;
    void *params[] = {&args};

    args.ranks = ranks;
    args.in = flag(call, call->me, row, 0);
    args.staged = row == AR_ENGINES_FETCHED;
    args.words = limit;
    args.shard = limit > AR_ENGINES_LOOK_AFTER ? limit - AR_ENGINES_LOOK_AFTER : 0;
    for (int r = 0; r < AR_MAX_RANKS; r++) {
        char *unused = flag(call, call->me, AR_ENGINES_UNUSED, r);

        args.dst[r] = r < call->ranks ? flag(call, r, AR_ENGINES_GAVE_UP, call->me) : unused;
#ifdef ST_BREAK_RELEASE
        args.src[r] = unused;
#else
        args.src[r] = flag(call, call->me, AR_ENGINES_ENTERED, r);
#endif
    }
    args.dst[call->me] = (char *)&call->state->dead;
    args.src[call->me] = (const char *)&call->mailbox->error;
    return cudaLaunchKernel(kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, params, 0, stream);
}

/* ---- streams --------------------------------------------------------------------------------- */

static cudaError_t make_events(struct ar_engines *e, int ranks)
{
    cudaError_t error = cudaEventCreateWithFlags(&e->begin, cudaEventDisableTiming);

    for (int r = 0; r < ranks && error == cudaSuccess; r++)
        error = cudaEventCreateWithFlags(&e->end[r], cudaEventDisableTiming);
    return error;
}

/* Make the events in the first call. During a capture, CUDA allows that only in mode relaxed. */
static ncclResult_t make(symtuner_ar *h)
{
    enum cudaStreamCaptureMode mode;
    cudaError_t error;

    if (h->engines != NULL)
        return ncclSuccess;
    h->engines = calloc(1, sizeof *h->engines);
    if (h->engines == NULL)
        return ar_fail(h, ncclSystemError, "out of memory");
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    error = make_events(h->engines, h->ranks);
    h->engines->has_ops = ar_memops_find(&h->engines->ops, h->device);
    ar_capture_mode(mode);
    if (error == cudaSuccess)
        return ncclSuccess;
    ar_engines_free(h);
    return ar_fail_cuda(h, error, "make the events of the copy engines");
}

/* Find the streams for a call in the capture ${capture}; 0: outside of captures. */
static ncclResult_t prepare(symtuner_ar *h, unsigned long long capture)
{
    ncclResult_t result = make(h);

    for (int r = 0; r < h->ranks && result == ncclSuccess; r++)
        result = ar_side_find(h, &h->engines->sides[r], capture, &h->engines->stream[r]);
    return result;
}

void ar_engines_free(symtuner_ar *h)
{
    struct ar_engines *e = h->engines;

    for (int r = 0; e != NULL && r < h->ranks; r++) {
        ar_side_free(e->sides[r]);
        if (e->end[r] != NULL)
            cudaEventDestroy(e->end[r]);
    }
    if (e != NULL && e->begin != NULL)
        cudaEventDestroy(e->begin);
    free(e);
    h->engines = NULL;
}

/* ---- a call ---------------------------------------------------------------------------------- */

/* Make the stream ${next} wait for all work that was submitted to the stream ${before} so far. Uses
 * ${event} for this. */
static cudaError_t follow(cudaStream_t next, cudaStream_t before, cudaEvent_t event)
{
    cudaError_t error = cudaEventRecord(event, before);

    return error == cudaSuccess ? cudaStreamWaitEvent(next, event, 0) : error;
}

/* On the stream of peer ${r}, fetch the part of that peer from ${from}. */
static ncclResult_t fetch(symtuner_ar *h, const struct ar_args *a, int r, const char *from)
{
    struct ar_engines *e = h->engines;
    cudaStream_t side = e->stream[r];

    if (e->has_ops)
        TRY(ar_memops_await(&e->ops, side, flag(a, a->me, AR_ENGINES_ENTERED, r)));
#ifdef ST_BREAK_EARLY
    TRY(raise_flag(a, r, AR_ENGINES_FETCHED, side));
#endif
    TRY(copy(a->out + (uint64_t)r * a->stride, from, a->bytes, side));
#ifndef ST_BREAK_EARLY
    TRY(raise_flag(a, r, AR_ENGINES_FETCHED, side));
#endif
    return ncclSuccess;
}

static ncclResult_t gather(symtuner_ar *h, const struct ar_args *a, const void *kernel, bool mapped,
                           cudaStream_t stream)
{
    struct ar_engines *e = h->engines;
    char *own = a->out + (uint64_t)a->me * a->stride;

    if (!mapped)
        TRY(copy(a->peer[a->me] + a->half, a->in, a->bytes, stream));
    for (int i = 1; i < a->ranks; i++)
        TRY(raise_flag(a, (a->me + i) % a->ranks, AR_ENGINES_ENTERED, stream));
    if (!e->has_ops) {
        TRY(raise_flag(a, a->me, AR_ENGINES_ENTERED, stream));
        TRY(start_watch(a, kernel, a->ranks, AR_ENGINES_ENTERED, stream));
    }
    for (int i = 1; i < a->ranks; i++) {
        int r = (a->me + i) % a->ranks;
        ncclResult_t result;

        TRY(follow(e->stream[r], stream, e->begin));
        result = fetch(h, a, r, mapped ? a->src[r] : a->peer[r] + a->half);
        if (result != ncclSuccess)
            return result;
    }
    if (own != a->in)
        TRY(copy(own, a->in, a->bytes, stream));
    for (int r = 0; r < a->ranks; r++)
        if (r != a->me)
            TRY(follow(stream, e->stream[r], e->end[r]));
    TRY(raise_flag(a, a->me, AR_ENGINES_FETCHED, stream));
    return ncclSuccess;
}

ncclResult_t ar_engines_gather(symtuner_ar *h, const struct ar_args *args, const void *kernel,
                               bool mapped, cudaStream_t stream)
{
    struct ar_capture capture = {0};
    struct ar_engines *e;
    cudaStream_t watch;
    ncclResult_t result;

    TRY(ar_capture_look(stream, &capture));
    result = prepare(h, capture.id);
    if (result != ncclSuccess)
        return result;
    e = h->engines;
    /* A graph may outlive the communicator, which maps the peers' memory. So check before any copy
     * that the handle still exists. */
    if (capture.id != 0 && h->comm != NULL)
        TRY(start_watch(args, kernel, 0, AR_ENGINES_ENTERED, stream));
    watch = e->stream[h->me];
    if (e->has_ops) {
        TRY(follow(watch, stream, e->begin));
        TRY(start_watch(args, kernel, args->ranks, AR_ENGINES_FETCHED, watch));
    }
    result = gather(h, args, kernel, mapped, stream);
    if (result != ncclSuccess)
        return result;
    if (e->has_ops)
        TRY(follow(stream, watch, e->end[h->me]));
    else
        TRY(start_watch(args, kernel, args->ranks, AR_ENGINES_FETCHED, stream));
    return ncclSuccess;
}
