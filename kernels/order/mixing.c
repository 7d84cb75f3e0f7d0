/* SPDX-License-Identifier: Apache-2.0 */
/* mixing.c - lets the calls in a graph and the calls outside of it wait for each other. */
#include "kernels/order/mixing.h"

/* Return whether ${error} is no error. If it is one, clear CUDA's last error: the capture goes on,
 * but without the nodes for the event. */
static bool is_done(cudaError_t error)
{
    if (error != cudaSuccess)
        cudaGetLastError();
    return error == cudaSuccess;
}

void ar_mixing_begin(const symtuner_ar *h, struct ar_ends *ends, cudaStream_t stream,
                     const struct ar_capture *capture)
{
    cudaGraphNode_t wait;

    ends->waits = ar_mixes(h) &&
                  is_done(cudaGraphAddEventWaitNode(&wait, capture->graph, capture->front,
                                                    capture->fronts, h->eager.done)) &&
                  is_done(ar_capture_after(stream, wait));
}

/* Set *last to a node of the graph that ends only after all work that the stream of ${c} has
 * captured so far. */
static cudaError_t find_last(const struct ar_capture *c, cudaGraphNode_t *last)
{
    if (c->fronts != 1)
        return cudaGraphAddEmptyNode(last, c->graph, c->front, c->fronts);
    *last = c->front[0];
    return cudaSuccess;
}

/* Let the node that records the event follow ${last}. */
static cudaError_t move(const symtuner_ar *h, struct ar_ends *ends, cudaGraph_t graph,
                        cudaGraphNode_t last)
{
    cudaError_t error;

    if (ends->record == NULL)
        return cudaGraphAddEventRecordNode(&ends->record, graph, &last, 1, h->eager.done);
    if (last == ends->last)
        return cudaSuccess;
    error = ar_graph_follow(graph, last, ends->record);
    /* If the old edge stays, that does no harm: the end of an earlier call comes earlier anyway. */
    if (error == cudaSuccess)
        is_done(ar_graph_leave(graph, ends->last, ends->record));
    return error;
}

void ar_mixing_end(const symtuner_ar *h, struct ar_ends *ends, cudaStream_t stream)
{
    struct ar_capture capture = {0};
    cudaGraphNode_t last;

    ends->waits = ends->waits && is_done(ar_capture_look(stream, &capture)) && capture.id != 0 &&
                  is_done(find_last(&capture, &last)) &&
                  is_done(move(h, ends, capture.graph, last));
    if (ends->waits)
        ends->last = last;
}
