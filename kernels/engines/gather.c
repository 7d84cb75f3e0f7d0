/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c - all-gather by the copy engines, with flags that the copy engines write.
 *
 *   main stream    ENTERED to all peers .                           own part | own FETCHED
 *   peer stream r                        '. await ENTERED, clear it | fetch part r | FETCHED to r
 *   watch stream   the kernel watch: await FETCHED of all ranks, with a time limit
 *
 * ENTERED and FETCHED are flags that each rank has for each of its peers. A rank sets ENTERED at a
 * peer when its own send is ready, and FETCHED when it has copied the part of that peer. To set a
 * flag, a copy engine copies the number 1 (8 bytes) into the peer's scratch. That copy is queued
 * behind the copies that the flag reports. A stream waits for ENTERED with the driver's stream
 * memory operations, which need no multiprocessor. The only kernel is watch, which ends the call.
 * It is a kernel because only a kernel has a clock for the time limit. It is submitted first,
 * because a stream memory operation may hold up what is submitted after it.
 *
 * The rank that waits for a flag also clears it, so a replayed graph finds all flags clear. Each
 * flag is clear before its writer sets it again in the next call. Suppose that rank A waits for
 * flags that rank B sets:
 *
 *   ENTERED   A clears it before A sets FETCHED at B. B begins its next call only when it has that
 *             FETCHED.
 *   FETCHED   A clears it before A begins its next call and sets ENTERED at B. B sets the next
 *             FETCHED only when it has that ENTERED.
 *
 * If this rank gives up, watch first tells the peers by their flag GAVE_UP. Then it tells the host,
 * and sets all ENTERED flags of this rank, so that no stream waits for ever. The copies that run
 * after that read memory of the peers, but write only to this rank's recv and to flags. So they do
 * no harm to a peer whose call has already ended. But the program of this rank sees the error, and
 * may then change send before a peer fetches it. So each rank looks for GAVE_UP after its last
 * fetch, and fails if a peer has set it.
 *
 * Without stream memory operations watch runs twice: first it awaits ENTERED, then FETCHED. The
 * flags are the same in both cases, so some ranks may have the operations and others not.
 *
 * No operation waits for another one that is submitted later on this GPU. There is one exception:
 * watch waits for the fetches of its own rank.
 */
#include "kernels/engines/engines.h"
#include "kernels/engines/steps.h"
#include "kernels/group/error.h"
#include "kernels/order/capture.h"

#define TRY(call) AR_TRY(h, call, "all-gather by copy engines")

/* On the stream of peer ${r}, fetch the part of that peer from ${from}. */
static ncclResult_t fetch(symtuner_ar *h, const struct ar_args *a, int r, const char *from)
{
    struct ar_engines *e = h->engines;

    if (e->has_ops)
        TRY(ar_memops_await(&e->ops, e->stream[r], ar_step_flag(a, a->me, AR_ENGINES_ENTERED, r)));
    TRY(ar_step_fetch(a, r, a->out + (uint64_t)r * a->stride, from, a->bytes, e->stream[r]));
    return ncclSuccess;
}

static ncclResult_t gather(symtuner_ar *h, const struct ar_args *a, const void *kernel, bool mapped,
                           cudaStream_t stream)
{
    struct ar_engines *e = h->engines;
    char *own = a->out + (uint64_t)a->me * a->stride;

    if (!mapped)
        TRY(ar_step_copy(a->peer[a->me] + a->half, a->in, a->bytes, stream));
    for (int i = 1; i < a->ranks; i++)
        TRY(ar_step_raise(a, (a->me + i) % a->ranks, AR_ENGINES_ENTERED, stream));
    if (!e->has_ops) {
        TRY(ar_step_raise(a, a->me, AR_ENGINES_ENTERED, stream));
        TRY(ar_step_watch(a, kernel, a->ranks, AR_ENGINES_ENTERED, stream));
    }
    for (int i = 1; i < a->ranks; i++) {
        int r = (a->me + i) % a->ranks;
        ncclResult_t result;

        TRY(ar_step_follow(e->stream[r], stream, e->begin));
        result = fetch(h, a, r, mapped ? a->src[r] : a->peer[r] + a->half);
        if (result != ncclSuccess)
            return result;
    }
    if (own != a->in)
        TRY(ar_step_copy(own, a->in, a->bytes, stream));
    for (int r = 0; r < a->ranks; r++)
        if (r != a->me)
            TRY(ar_step_follow(stream, e->stream[r], e->end[r]));
    TRY(ar_step_raise(a, a->me, AR_ENGINES_FETCHED, stream));
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
    result = ar_step_prepare(h, capture.id);
    if (result != ncclSuccess)
        return result;
    e = h->engines;
    /* A graph may outlive the communicator, through which the peers' memory is mapped. So a
     * captured call first checks, before any copy, that the handle still exists. */
    if (capture.id != 0 && h->comm != NULL)
        TRY(ar_step_watch(args, kernel, 0, AR_ENGINES_ENTERED, stream));
    watch = e->stream[h->me];
    if (e->has_ops) {
        TRY(ar_step_follow(watch, stream, e->begin));
        TRY(ar_step_watch(args, kernel, args->ranks, AR_ENGINES_FETCHED, watch));
    }
    result = gather(h, args, kernel, mapped, stream);
    if (result != ncclSuccess)
        return result;
    if (e->has_ops)
        TRY(ar_step_follow(stream, watch, e->end[h->me]));
    else
        TRY(ar_step_watch(args, kernel, args->ranks, AR_ENGINES_FETCHED, stream));
    return ncclSuccess;
}
