/* SPDX-License-Identifier: Apache-2.0 */
/* event_nodes.c - nodes of graphs that wait for an event or record one; see event_nodes.h. */
#include "test/kernels/fake/event_nodes.h"

#include <string.h>

#include "test/kernels/fake/capture_info.h"
#include "test/kernels/fake/cuda.h"

struct fake_node fake_nodes[FAKE_NODES];
int fake_node_count;
size_t fake_fronts;

size_t fake_capture_front(cudaStream_t stream, const cudaGraphNode_t **nodes)
{
    static _Thread_local cudaGraphNode_t front[FAKE_BEFORE];
    const int launches = __atomic_load_n(&fake.launches, __ATOMIC_RELAXED);

    (void)stream;
    for (int i = 0; i < FAKE_BEFORE; i++)
        front[i] = (cudaGraphNode_t)(uintptr_t)(FAKE_BEFORE * (launches + 1) + i);
    *nodes = front;
    return fake_fronts == 0 ? 1 : fake_fronts;
}

static cudaError_t add(const char *call, cudaGraphNode_t *node, const struct fake_node *made,
                       const cudaGraphNode_t *before)
{
    const cudaError_t error = fake_named(call);
    int at;

    if (error != cudaSuccess || made->befores > FAKE_BEFORE)
        return error != cudaSuccess ? error : cudaErrorInvalidValue;
    at = __atomic_fetch_add(&fake_node_count, 1, __ATOMIC_RELAXED) % FAKE_NODES;
    fake_nodes[at] = *made;
    memcpy(fake_nodes[at].before, before, made->befores * sizeof *before);
    *node = (cudaGraphNode_t)&fake_nodes[at];
    return cudaSuccess;
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                      const cudaGraphNode_t *before, size_t befores,
                                      cudaEvent_t event)
{
    const struct fake_node made = {.event = event, .graph = graph, .befores = befores};

    return add("cudaGraphAddEventWaitNode", node, &made, before);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                        const cudaGraphNode_t *before, size_t befores,
                                        cudaEvent_t event)
{
    const struct fake_node made = {
        .records = true, .event = event, .graph = graph, .befores = befores};

    return add("cudaGraphAddEventRecordNode", node, &made, before);
}

/* As in CUDA, an edge cannot be added twice, nor removed if it is not there. */
cudaError_t fake_graph_edge(cudaGraphNode_t before, cudaGraphNode_t node, bool follows)
{
    struct fake_node *n = (struct fake_node *)node;
    const cudaError_t error =
        fake_named(follows ? "cudaGraphAddDependencies" : "cudaGraphRemoveDependencies");
    size_t at = 0;

    if (error != cudaSuccess)
        return error;
    while (at < n->befores && n->before[at] != before)
        at++;
    if (follows != (at == n->befores) || at == FAKE_BEFORE)
        return cudaErrorInvalidValue;
    if (follows)
        n->before[n->befores++] = before;
    else
        n->before[at] = n->before[--n->befores];
    return cudaSuccess;
}
