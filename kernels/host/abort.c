/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abort.c - abort a handle: refuse calls, and end the kernels that run.
 *
 * Afterwards the caller may let ncclCommAbort unmap the memory of the peers, and NCCL does not know
 * that our kernels and copies use it. So symtuner_ar_abort sets state->dead on the GPU. Kernels
 * that wait for a peer see this and end, and kernels that begin later end at once.
 * symtuner_ar_abort does not wait for the streams of the calls, because they may be gone or stuck.
 *
 * A copy cannot look at state->dead, so symtuner_ar_abort waits until the queued copies have ended.
 * They may be behind work that never ends, for example a kernel of NCCL that only ncclCommAbort
 * ends. So the wait has a limit. A copy that runs after that may find its memory unmapped, which is
 * an error of CUDA. symtuner_ar_abort does not wait for the copies of a queued graph, because only
 * the program knows that the graph is queued.
 */
#include <pthread.h>
#include <unistd.h>

#include "base/own_thread.h"
#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/host/launch.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/capture.h"

/* How long symtuner_ar_abort waits for kernels that run. A thread that waits for a peer looks at
 * state->dead every AR_POLLS_TO_LOOK polls, so it leaves within a millisecond. A thread that moves
 * data needs a few milliseconds for a GiB over NVLink. The rest is for a GPU that several processes
 * share. */
enum { LEAVE_MS = 50 };

/* How long symtuner_ar_abort waits for queued copies. Programs queue a step or two in advance. */
enum { DRAIN_MS = 2000 };

/* ---- copies ---------------------------------------------------------------------------------- */

/* First count the call, and then look whether the handle was aborted. symtuner_ar_abort does it the
 * other way round: it first marks the handle as aborted, and then looks at the count. So at least
 * one of the two functions notices the other. */
ncclResult_t ar_copies_enter(symtuner_ar *h)
{
    __atomic_add_fetch(&h->copying, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&h->mailbox->abort, __ATOMIC_SEQ_CST) == 0)
        return ncclSuccess;
    __atomic_sub_fetch(&h->copying, 1, __ATOMIC_SEQ_CST);
    return ar_status(h);
}

ncclResult_t ar_copies_leave(symtuner_ar *h, bool captured, cudaStream_t stream)
{
    cudaError_t error = captured ? cudaSuccess : cudaEventRecord(h->copied, stream);

    if (!captured)
        __atomic_store_n(&h->has_copied, true, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&h->copying, 1, __ATOMIC_SEQ_CST);
    return error == cudaSuccess ? ncclSuccess
                                : ar_fail_cuda(h, error, "mark the end of the copies");
}

static bool may_copy(const symtuner_ar *h)
{
    return __atomic_load_n(&h->copying, __ATOMIC_SEQ_CST) > 0 ||
           __atomic_load_n(&h->has_copied, __ATOMIC_SEQ_CST);
}

/* Wait until no copy of ${h} is queued any more, but no longer than DRAIN_MS. */
static void drain(symtuner_ar *h)
{
    const uint64_t until = ar_now_ns() + DRAIN_MS * 1000000ull;

    while (__atomic_load_n(&h->copying, __ATOMIC_SEQ_CST) > 0 && ar_now_ns() < until)
        usleep(1000);
    while (__atomic_load_n(&h->has_copied, __ATOMIC_SEQ_CST) && ar_now_ns() < until &&
           cudaEventQuery(h->copied) == cudaErrorNotReady)
        usleep(1000);
}

/* ---- abort ----------------------------------------------------------------------------------- */

static void mark(symtuner_ar *h, uint32_t verdict)
{
    cudaMemcpyAsync(&h->state->dead, &verdict, sizeof verdict, cudaMemcpyHostToDevice,
                    h->copy_stream);
}

/* Tell the GPU that the handle is dead. This runs in a thread of its own, because CUDA may block:
 * another thread may hold a lock of the driver until a kernel ends that only ncclCommAbort ends. */
static void *mark_dead(void *handle)
{
    symtuner_ar *h = handle;

    ar_capture_mode(cudaStreamCaptureModeRelaxed);
    cudaSetDevice(h->device);
    mark(h, AR_ABORTED);
    if (may_copy(h)) {
        drain(h);
        mark(h, AR_PEERS_GONE);
    }
    __atomic_store_n(&h->drained, true, __ATOMIC_RELEASE);
    return NULL;
}

void ar_abort_join(symtuner_ar *h)
{
    while (__atomic_load_n(&h->aborting, __ATOMIC_ACQUIRE) > 0)
        usleep(1000);
    if (h->has_marker)
        pthread_join(h->marker, NULL);
    h->has_marker = false;
}

/* Give the kernels and copies time to end. Runs even if another thread has already aborted the
 * handle. */
static void await_end(const symtuner_ar *h)
{
    const uint64_t until = ar_now_ns() + (DRAIN_MS + LEAVE_MS) * 1000000ull;

    usleep(LEAVE_MS * 1000);
    while (may_copy(h) && !__atomic_load_n(&h->drained, __ATOMIC_ACQUIRE) && ar_now_ns() < until)
        usleep(1000);
}

ncclResult_t symtuner_ar_abort(symtuner_ar *h)
{
    if (h == NULL)
        return ar_fail_null();
    /* Count this thread before another thread can see that the handle is aborted: that thread may
     * destroy the handle at once. */
    __atomic_add_fetch(&h->aborting, 1, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&h->mailbox->abort, AR_ABORTED, __ATOMIC_SEQ_CST) == 0)
        h->has_marker = st_own_thread(&h->marker, NULL, mark_dead, h) == 0;
    await_end(h);
    if (h->nodes != NULL && h->nodes->box != NULL)
        ar_nodes_abort(h);
    __atomic_sub_fetch(&h->aborting, 1, __ATOMIC_RELEASE); /* now the handle may be freed */
    return ncclSuccess;
}
