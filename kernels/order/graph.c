/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - keeps the calls of a handle in order, and records which CUDA graphs contain some of
 * them. */
#include "kernels/order/graph.h"

#include <stdlib.h>
#include <unistd.h>

#include "kernels/group/error.h"
#include "kernels/order/capture.h"
#include "kernels/order/follower.h"

/* Note that the graph of ${record} is gone. CUDA calls this in a thread of its own, which must not
 * call CUDA functions. */
static void CUDART_CB let_go(void *record)
{
    struct ar_graph *g = record;

    __atomic_store_n(&g->gone, 1, __ATOMIC_RELEASE);
}

static ncclResult_t make(symtuner_ar *h, unsigned long long id, cudaGraph_t graph,
                         struct ar_graph **out)
{
    struct ar_graph *g = calloc(1, sizeof *g);
    cudaUserObject_t held;
    cudaError_t error;

    if (g == NULL)
        return ar_fail(h, ncclSystemError, "out of memory");
    g->order.capture = id;
    error = cudaEventCreateWithFlags(&g->order.done, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        error = cudaUserObjectCreate(&held, g, let_go, 1, cudaUserObjectNoDestructorSync);
        if (error != cudaSuccess)
            cudaEventDestroy(g->order.done);
    }
    if (error != cudaSuccess) {
        free(g);
        return ar_fail_cuda(h, error, "make a record of the capture");
    }
    g->next = h->graphs;
    h->graphs = g;
    error = cudaGraphRetainUserObject(graph, held, 1, cudaGraphUserObjectMove);
    if (error == cudaSuccess) {
        *out = g;
        return ncclSuccess;
    }
    cudaUserObjectRelease(held, 1); /* makes CUDA call let_go, now or soon */
    return ar_fail_cuda(h, error, "let the graph hold what its call needs");
}

/* Find the record of the capture that ${stream} is in. Make the record if there is none yet. */
static ncclResult_t find(symtuner_ar *h, cudaStream_t stream, const struct ar_capture *capture,
                         struct ar_graph **out)
{
    ncclResult_t result;

    for (struct ar_graph *g = h->graphs; g != NULL; g = g->next)
        if (g->order.capture == capture->id) {
            *out = g;
            return ncclSuccess;
        }
    ar_graphs_live(h, 0, 0);
    ar_follower_captured();
    result = make(h, capture->id, capture->graph, out);
    if (result == ncclSuccess)
        ar_mixing_begin(h, &(*out)->ends, stream, capture);
    return result;
}

/* If no graph refers to the record *at any more, free it, and let *at be the next record. Return
 * whether the record was freed. */
static bool drop_gone(struct ar_graph **at)
{
    struct ar_graph *g = *at;

    if (!__atomic_load_n(&g->gone, __ATOMIC_ACQUIRE))
        return false;
    *at = g->next;
    cudaEventDestroy(g->order.done);
    free(g);
    return true;
}

/* Do what ar_graphs_live() does, but do not wait. */
static bool look(symtuner_ar *h, uint64_t windows)
{
    bool live = false;

    for (struct ar_graph **at = &h->graphs; *at != NULL;) {
        if (drop_gone(at))
            continue;
        live = live || windows == ~0ull || ((*at)->windows & windows) != 0;
        at = &(*at)->next;
    }
    return live;
}

bool ar_graphs_live(symtuner_ar *h, uint64_t windows, int wait_ms)
{
    bool live = look(h, windows);

    for (int ms = 0; live && ms < wait_ms; ms++) {
        usleep(1000);
        live = look(h, windows);
    }
    return live;
}

/* Return whether a graph with calls of ${h} still exists. Takes the same time for many graphs as
 * for one. */
static bool has_graphs(symtuner_ar *h)
{
    while (h->graphs != NULL && drop_gone(&h->graphs))
        ;
    return h->graphs != NULL;
}

/* ---- order ----------------------------------------------------------------------------------- */

/*
 * Set *capture to the capture that ${stream} is in, and *number to a number that identifies the
 * stream. That number is CUDA's stream id, which tells apart streams that have the same handle (see
 * struct ar_order in kernels/group/handle.h). But asking for the id of a capturing stream would
 * break the capture. So during a capture *number is the handle; the handle stays valid as long as
 * the capture. Instead of cudaStreamPerThread, which is one handle for the streams of all threads,
 * *number is an address that only this thread has.
 */
static cudaError_t look_at(cudaStream_t stream, struct ar_capture *capture,
                           unsigned long long *number)
{
    static _Thread_local char own;
    cudaError_t error = ar_capture_look(stream, capture);

    *number = stream == cudaStreamPerThread ? (uintptr_t)&own : (uintptr_t)stream;
    return error == cudaSuccess && capture->id == 0 ? cudaStreamGetId(stream, number) : error;
}

ncclResult_t ar_stream_enter(symtuner_ar *h, cudaStream_t stream, struct ar_order **order_out,
                             struct ar_graph **graph_out)
{
    unsigned long long number;
    struct ar_capture capture = {0};
    struct ar_order *order = &h->eager;
    cudaError_t error = look_at(stream, &capture, &number);

    *order_out = order;
    *graph_out = NULL;
    if (error != cudaSuccess)
        return ar_fail_cuda(h, error, "look at the stream");
    if (capture.id == 0 && h->one_stream && order->used && order->stream == number) {
        order->open = true;
        return ncclSuccess;
    }
    if (capture.id != 0) {
        ncclResult_t result = find(h, stream, &capture, graph_out);

        if (result != ncclSuccess)
            return result;
        *order_out = order = &(*graph_out)->order;
    }
    if ((order->used && order->stream != number) ||
        (capture.id == 0 && ar_mixes(h) && has_graphs(h))) {
        /* With one_stream no event was recorded after the last call, and the stream of that call
         * may be gone. So the host waits until the GPU is idle. */
        error = h->one_stream && capture.id == 0 ? cudaDeviceSynchronize()
                                                 : cudaStreamWaitEvent(stream, order->done, 0);
        if (error != cudaSuccess)
            return ar_fail_cuda(h, error, "wait for the handle's previous stream");
        h->one_stream = h->one_stream && capture.id != 0;
    }
    order->stream = number;
    order->open = true;
    return ncclSuccess;
}

ncclResult_t ar_stream_leave(symtuner_ar *h, cudaStream_t stream, struct ar_graph *graph)
{
    struct ar_order *order = graph != NULL ? &graph->order : &h->eager;
    bool silent = h->one_stream && graph == NULL;
    cudaError_t error = silent ? cudaSuccess : cudaEventRecord(order->done, stream);

    if (graph != NULL)
        ar_mixing_end(h, &graph->ends, stream);
    order->used = true;
    order->open = silent || error != cudaSuccess;
    return error == cudaSuccess ? ncclSuccess : ar_fail_cuda(h, error, "mark the end of the call");
}
