/* SPDX-License-Identifier: Apache-2.0 */
/* follower.c - decides whether our kernel may let the next kernel of its stream start early. */
#include "kernels/order/follower.h"

#include <stdatomic.h>

#include "kernels/group/error.h"
#include "kernels/order/capture.h"
#include "nccl/release.h"

/* What the program has promised about kernels that follow ours: enum ar_follower. */
static _Atomic int said;
/* Whether a kernel has let the next kernel start early. Handles for which always() is true do not
 * count. */
static atomic_bool released;
/* Whether a graph may hold a kernel that lets the next kernel start early. */
static atomic_bool in_graphs;

enum ar_follower ar_follower_said(void)
{
    return (enum ar_follower)atomic_load_explicit(&said, memory_order_acquire);
}

/* Return whether the kernels of ${h} let their followers start early whatever the program says. */
static bool always(const symtuner_ar *h)
{
    return h->overlap[AR_FOLLOWER_MAY_NOT_WAIT] == AR_EARLY_BOTH;
}

enum ar_start ar_start_of(const symtuner_ar *h)
{
    const enum ar_start start = h->on_device == 1 ? h->overlap[ar_follower_said()] : AR_SERIAL;

    return start == AR_EARLY_BOTH && !always(h) && !atomic_load(&h->first) ? AR_EARLY : start;
}

static void set(atomic_bool *flag)
{
    if (!atomic_load_explicit(flag, memory_order_relaxed))
        atomic_store(flag, true);
}

void ar_follower_note(const symtuner_ar *h, enum ar_start start)
{
    if (start == AR_EARLY_BOTH && !always(h))
        set(&released);
}

void ar_follower_captured(void)
{
    if (ar_follower_said() != AR_FOLLOWER_MAY_NOT_WAIT)
        set(&in_graphs);
}

ncclResult_t symtuner_ar_followers_wait(int wait)
{
    int unknown = AR_FOLLOWER_UNKNOWN;

    if (wait != 0 && wait != 1)
        return ar_fail(NULL, ncclInvalidArgument, "wait is %d; it must be 0 or 1", wait);
    if (wait == 0)
        atomic_store(&said, AR_FOLLOWER_MAY_NOT_WAIT);
    else
        atomic_compare_exchange_strong(&said, &unknown, AR_FOLLOWER_WAITS);
    return ncclSuccess;
}

void ar_follower_window(int nccl)
{
    int promised = AR_FOLLOWER_WAITS;

    if (st_era_of(nccl)->pdl != ST_PDL_WAITS)
        atomic_compare_exchange_strong(&said, &promised, AR_FOLLOWER_MAY_NOT_WAIT);
}

/* ---- separate -------------------------------------------------------------------------------- */

/* To separate a stream, we put an operation after our last kernel. The operation keeps later
 * kernels from starting early. This table says which streams are separated. The index of a stream's
 * entry is CUDA's number of the stream, modulo PLACES. If two streams share an entry, the entry
 * holds the stream that was separated last. Then the next symtuner_ar_separate() for the other
 * stream separates it again, which does no harm. */
enum { PLACES = 256 };
static atomic_ullong separated[PLACES]; /* a stream's number + 1; 0: the entry is free */

static void CUDART_CB nothing(void *unused)
{
    (void)unused;
}

/* In a graph, a programmatic edge lets a kernel start early. CUDA allows such an edge between two
 * kernels only. So if an empty node lies between them, the second kernel waits until the first has
 * ended. */
static cudaError_t separate_capture(cudaStream_t stream, const struct ar_capture *c)
{
    cudaGraphNode_t node;
    cudaError_t error = cudaGraphAddEmptyNode(&node, c->graph, c->front, c->fronts);

    return error == cudaSuccess ? ar_capture_after(stream, node) : error;
}

/* A kernel with PDL may overlap the previous operation of its stream only if that operation is a
 * kernel, too. So a kernel after a host function cannot start early. A stream needs only one host
 * function, because from now on our launches do not let the next kernel start early (unless
 * SYMTUNER_AR_OVERLAP=2 asks for that). But in an older graph, a kernel of ours may let the next
 * kernel start early. Such a graph may be launched on the stream at any time, and CUDA's manual
 * does not say that a kernel with PDL after a graph waits for the graph's last kernel. So if there
 * may be such a graph, each call of this function adds a host function. */
static cudaError_t separate_stream(cudaStream_t stream)
{
    unsigned long long number = 0;
    cudaError_t error = cudaStreamGetId(stream, &number);
    atomic_ullong *place = &separated[number % PLACES];

    if (error != cudaSuccess)
        return error;
    if (!atomic_load(&in_graphs) && atomic_load(place) == number + 1)
        return cudaSuccess;
    error = cudaLaunchHostFunc(stream, nothing, NULL);
    if (error == cudaSuccess)
        /* This store comes last: a thread that sees it relies on the host function. */
        atomic_store(place, number + 1);
    return error;
}

ncclResult_t symtuner_ar_separate(cudaStream_t stream)
{
    struct ar_capture capture = {0};
    cudaError_t error;

    if (ar_follower_said() != AR_FOLLOWER_MAY_NOT_WAIT || !atomic_load(&released))
        return ncclSuccess;
    error = ar_capture_look(stream, &capture);
    if (error == cudaSuccess)
        error = capture.id != 0 ? separate_capture(stream, &capture) : separate_stream(stream);
    return error == cudaSuccess ? ncclSuccess : ar_fail_cuda(NULL, error, "separate a stream");
}
