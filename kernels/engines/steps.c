/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - the steps of a call by the copy engines: copies, flags, streams, and the kernel
 * watch. */
#include "kernels/engines/steps.h"

#include <stdlib.h>

#include "kernels/engines/engines.h"
#include "kernels/group/error.h"
#include "kernels/order/capture.h"
#include "kernels/order/side.h"

/* ---- streams --------------------------------------------------------------------------------- */

static cudaError_t make_events(struct ar_engines *e, int ranks)
{
    cudaError_t error = cudaEventCreateWithFlags(&e->begin, cudaEventDisableTiming);

    for (int r = 0; r < ranks && error == cudaSuccess; r++)
        error = cudaEventCreateWithFlags(&e->end[r], cudaEventDisableTiming);
    return error;
}

/* Make the events in the first call. While a graph is captured, CUDA allows that only in capture
 * mode relaxed. */
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

ncclResult_t ar_step_prepare(symtuner_ar *h, unsigned long long capture)
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

cudaError_t ar_step_follow(cudaStream_t next, cudaStream_t before, cudaEvent_t event)
{
    cudaError_t error = cudaEventRecord(event, before);

    return error == cudaSuccess ? cudaStreamWaitEvent(next, event, 0) : error;
}

/* ---- copies and flags ------------------------------------------------------------------------ */

char *ar_step_flag(const struct ar_args *a, int owner, int row, int writer)
{
    const int place = (writer - owner - 1 + a->ranks) % a->ranks;

    return a->peer[owner] + ar_flag_offset(AR_FLAG_ENGINES, row, place);
}

cudaError_t ar_step_copy(void *to, const void *from, uint64_t bytes, cudaStream_t stream)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

cudaError_t ar_step_raise(const struct ar_args *a, int owner, int row, cudaStream_t stream)
{
    return ar_step_copy(ar_step_flag(a, owner, row, a->me), &a->state->one, sizeof a->state->one,
                        stream);
}

cudaError_t ar_step_fetch(const struct ar_args *a, int r, char *to, const char *from,
                          uint64_t bytes, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

#ifdef ST_BREAK_EARLY
    error = ar_step_raise(a, r, AR_ENGINES_FETCHED, stream);
#endif
    if (error == cudaSuccess && bytes != 0)
        error = ar_step_copy(to, from, bytes, stream);
#ifndef ST_BREAK_EARLY
    if (error == cudaSuccess)
        error = ar_step_raise(a, r, AR_ENGINES_FETCHED, stream);
#endif
    return error;
}

/* ---- watch ----------------------------------------------------------------------------------- */

cudaError_t ar_step_watch(const struct ar_args *call, const void *kernel, int flags, int row,
                          cudaStream_t stream)
{
    const uint64_t most = INT32_MAX, asked = (call->timeout_ns >> AR_ENGINES_TICK) + 1;
    const uint64_t limit = asked < most ? asked : most;
    char *const mine = call->peer[call->me];
    struct ar_args args = *call;
    void *params[] = {&args};

    args.ranks = flags;
    args.in = mine + ar_flag_offset(AR_FLAG_ENGINES, row, 0);
    args.staged = row == AR_ENGINES_FETCHED;
    args.words = limit;
    args.shard = limit > AR_ENGINES_LOOK_AFTER ? limit - AR_ENGINES_LOOK_AFTER : 0;
    for (int r = 0; r < AR_MAX_RANKS; r++) {
        char *unused = mine + ar_flag_offset(AR_FLAG_ENGINES, AR_ENGINES_UNUSED, r);

        args.src[r] = args.dst[r] = unused;
        if (r < call->ranks)
            args.dst[r] = ar_step_flag(call, r, AR_ENGINES_GAVE_UP, call->me);
#ifndef ST_BREAK_RELEASE
        if (r < call->ranks)
            args.src[r] = ar_step_flag(call, call->me, AR_ENGINES_ENTERED, r);
#endif
    }
    args.dst[call->me] = (char *)&call->state->dead;
    args.src[call->me] = (const char *)&call->mailbox->error;
    return cudaLaunchKernel(kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, params, 0, stream);
}
