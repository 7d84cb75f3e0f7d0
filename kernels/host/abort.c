/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abort.c - abort a handle: refuse calls, and end the kernels that run.
 *
 * Afterwards the caller may let ncclCommAbort unmap the memory of the peers, and NCCL does not know
 * that our kernels use it. So the kernels are told on the GPU that the handle is dead. Kernels that
 * begin later end at once. The streams of the calls may be gone or stuck, so nothing waits for
 * them.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "kernels/group/error.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/capture.h"

/* How long symtuner_ar_abort waits for kernels that run. A thread that waits for a peer looks at
 * state->dead every AR_POLLS_TO_LOOK polls, so it leaves within a millisecond. A thread that moves
 * data needs a few milliseconds for a GiB over NVLink. The rest is for a GPU that several processes
 * share. */
enum { LEAVE_MS = 50 };

/* Tell the GPU that the handle is dead. This runs in a thread of its own, because CUDA may block:
 * another thread may hold a lock of the driver until a kernel ends that only ncclCommAbort ends. */
static void *mark_dead(void *handle)
{
    symtuner_ar *h = handle;
    const uint32_t aborted = AR_ABORTED;

    ar_capture_mode(cudaStreamCaptureModeRelaxed);
    cudaSetDevice(h->device);
    cudaMemcpyAsync(&h->state->dead, &aborted, sizeof aborted, cudaMemcpyHostToDevice,
                    h->copy_stream);
    return NULL;
}

ncclResult_t symtuner_ar_abort(symtuner_ar *h)
{
    sigset_t all, before;

    if (h == NULL)
        return ar_fail_null();
    if (__atomic_exchange_n(&h->mailbox->abort, AR_ABORTED, __ATOMIC_RELAXED) == 0) {
        sigfillset(&all);
        /* The new thread must not get signals that are for the program's threads. */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        h->has_marker = pthread_create(&h->marker, NULL, mark_dead, h) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    /* Wait even if another thread has just aborted the handle. */
    usleep(LEAVE_MS * 1000);
    if (h->nodes != NULL && h->nodes->box != NULL)
        ar_nodes_abort(h);
    return ncclSuccess;
}
