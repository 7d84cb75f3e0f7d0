/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - captures and graphs of the CUDA runtime on the CPU (cuda.c). */
#include <stdlib.h>

#include "test/kernels/fake/capture_info.h"
#include "test/whole/stream.h"

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);

    (void)mode;
    graph->last = &graph->first;
    graph->refs = 1;
    pthread_mutex_lock(&whole_lock);
    graph->id = ++whole_numbers;
    graph->origin = stream;
    stream->graph = graph;
    __atomic_add_fetch(&whole_captures, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    pthread_mutex_lock(&whole_lock);
    *out = stream->graph;
    for (struct CUstream_st *s = whole_list; s != NULL; s = s->next)
        if (s->graph == *out)
            s->graph = NULL;
    __atomic_sub_fetch(&whole_captures, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    pthread_mutex_lock(&whole_lock);
    *status = whole_stream_of(stream)->graph != NULL ? cudaStreamCaptureStatusActive
                                                     : cudaStreamCaptureStatusNone;
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t fake_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                              unsigned long long *id, cudaGraph_t *graph)
{
    cudaStreamIsCapturing(stream, status);
    pthread_mutex_lock(&whole_lock);
    if (*status == cudaStreamCaptureStatusActive) {
        *id = whole_stream_of(stream)->graph->id;
        if (graph != NULL)
            *graph = whole_stream_of(stream)->graph;
    }
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* A cudaGraphNode_t points to an operation, to a struct end, or, for an empty node, to the
 * graph. */

/* If ${node} is an operation that belongs to no stream yet, it now belongs to ${stream}. */
cudaError_t fake_capture_after(cudaStream_t stream, cudaGraphNode_t node)
{
    struct CUstream_st *s;
    cudaError_t error;

    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    error = s->graph != NULL ? cudaSuccess : cudaErrorIllegalState;
    if (error == cudaSuccess && node != (cudaGraphNode_t)s->graph &&
        ((struct op *)node)->captured == NULL)
        ((struct op *)node)->captured = s;
    pthread_mutex_unlock(&whole_lock);
    return whole_error(error);
}

/* Return how many nodes the next operation of the captured stream will follow, and set ${nodes} to
 * them. Only the latest operation of the stream is one. */
size_t fake_capture_front(cudaStream_t stream, const cudaGraphNode_t **nodes)
{
    static _Thread_local cudaGraphNode_t front;
    struct CUstream_st *s;

    front = NULL;
    *nodes = &front;
    pthread_mutex_lock(&whole_lock);
    s = whole_stream_of(stream);
    for (struct op *op = s->graph != NULL ? s->graph->first : NULL; op != NULL; op = op->next)
        if (op->captured == s)
            front = (cudaGraphNode_t)op;
    pthread_mutex_unlock(&whole_lock);
    return front != NULL;
}

/* The node runs in the stream of the operation that it follows. If it follows none,
 * fake_capture_after sets its stream later. */
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                      const cudaGraphNode_t *before, size_t befores,
                                      cudaEvent_t event)
{
    struct op op = {.kind = OUTSIDE, .event = event};

    if (befores > 1)
        return whole_error(cudaErrorInvalidValue);
    pthread_mutex_lock(&whole_lock);
    if (befores == 1)
        op.captured = ((struct op *)before[0])->captured;
    *node = (cudaGraphNode_t)whole_append(&graph->last, &op);
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                        const cudaGraphNode_t *before, size_t befores,
                                        cudaEvent_t event)
{
    struct end *end = malloc(sizeof *end);

    if (befores != 1)
        abort();
    pthread_mutex_lock(&whole_lock);
    *end = (struct end){graph->ends, event, (struct op *)before[0], NULL};
    graph->ends = end;
    *node = (cudaGraphNode_t)end;
    pthread_mutex_unlock(&whole_lock);
    return cudaSuccess;
}

cudaError_t fake_graph_edge(cudaGraphNode_t before, cudaGraphNode_t node, bool follows)
{
    struct end *end = (struct end *)node;
    const struct op *op = (struct op *)before;
    bool fine;

    pthread_mutex_lock(&whole_lock);
    fine = follows ? end->before == NULL && end->after != op : end->before == op;
    if (fine) {
        end->before = follows ? end->after : NULL;
        end->after = follows ? op : end->after;
    }
    pthread_mutex_unlock(&whole_lock);
    return whole_error(fine ? cudaSuccess : cudaErrorInvalidValue);
}

/* ---- life of graphs -------------------------------------------------------------------------- */

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *what)
{
    return whole_host(stream, function, &what, 0);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *what, cudaHostFn_t drop,
                                 unsigned refs, unsigned flags)
{
    struct object_of_cuda *object = malloc(sizeof *object);

    (void)flags;
    *object = (struct object_of_cuda){what, drop, (int)refs};
    *out = (cudaUserObject_t)object;
    whole_live(1);
    return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t o, unsigned refs)
{
    struct object_of_cuda *object = (struct object_of_cuda *)o;

    if (__atomic_sub_fetch(&object->refs, (int)refs, __ATOMIC_ACQ_REL) == 0) {
        object->drop(object->what);
        free(object);
        whole_live(-1);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned refs,
                                      unsigned flags)
{
    if (refs != 1 || flags != cudaGraphUserObjectMove || graph->n_objects == OBJECTS_OF_GRAPH)
        return whole_error(cudaErrorInvalidValue);
    graph->objects[graph->n_objects++] = (struct object_of_cuda *)object;
    return cudaSuccess;
}

/* Drop a reference to ${graph}, and free the graph with its last reference. The program's
 * cudaGraph_t is a reference, and so is each cudaGraphExec_t and each replay that has not ended. */
static void let_go(struct CUgraph_st *graph)
{
    if (__atomic_sub_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    for (int i = 0; i < graph->n_objects; i++)
        cudaUserObjectRelease((cudaUserObject_t)graph->objects[i], 1);
    for (struct op *op = graph->first, *next; op != NULL; op = next) {
        next = op->next;
        pthread_mutex_lock(&whole_lock);
        whole_let_go(op->mark);
        pthread_mutex_unlock(&whole_lock);
        free(op);
    }
    for (struct end *end = graph->ends, *next; end != NULL; end = next) {
        next = end->next;
        free(end);
    }
    free(graph);
}

static void replayed(void *what)
{
    let_go(*(struct CUgraph_st **)what);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    __atomic_add_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL);
    *out = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)exec, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    let_go(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    let_go((struct CUgraph_st *)exec);
    return cudaSuccess;
}

/* ---- replays: each makes new streams for the captured streams, except for the first ---------- */

enum { BRANCHES = 16 };

struct branches {
    struct CUstream_st *captured[BRANCHES], *now[BRANCHES];
    int n;
};

/* Return the stream in which this replay runs what was captured on ${captured}. The caller holds
 * the lock. */
static struct CUstream_st *branch(struct branches *b, struct CUstream_st *captured)
{
    int i = 0;

    while (i < b->n && b->captured[i] != captured)
        i++;
    if (i == BRANCHES)
        abort();
    if (i == b->n) {
        b->captured[b->n] = captured;
        b->now[b->n++] = whole_stream_begin(captured->device);
    }
    return b->now[i];
}

/* Put a copy of a captured operation into the stream in which this replay runs it. If event records
 * follow the operation in the graph, put copies of them behind it. A copy that records an event of
 * the capture, or waits for one, gets a mark (stream.h) of this replay. The caller holds the
 * lock. */
static void replay(struct branches *b, const struct CUgraph_st *graph, const struct op *captured)
{
    struct op op = *captured;
    struct CUstream_st *s = branch(b, op.captured);

    if (op.kind == RECORD) {
        op.mark->again = calloc(1, sizeof *op.mark);
        op.mark->again->refs = 1;
    }
    if (op.kind == RECORD || op.kind == WAIT)
        op.mark = op.mark->again;
    if (op.kind == OUTSIDE) {
        op.kind = WAIT;
        op.mark = op.event->latest;
    }
    if (op.kind == WAIT && op.mark != NULL)
        op.mark->refs++;
    if (op.kind != WAIT || op.mark != NULL)
        whole_append(&s->last, &op);
    for (const struct end *end = graph->ends; end != NULL; end = end->next)
        if (end->after == captured) {
            op = (struct op){.kind = RECORD, .captured = captured->captured};
            op.mark = whole_mark(end->event, NULL);
            whole_append(&s->last, &op);
        }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct CUgraph_st *graph = (struct CUgraph_st *)exec;
    struct branches b = {.n = 1};

    __atomic_add_fetch(&graph->refs, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_lock(&whole_lock);
    b.captured[0] = graph->origin;
    b.now[0] = whole_stream_of(stream);
    for (const struct op *op = graph->first; op != NULL; op = op->next)
        replay(&b, graph, op);
    for (int i = 1; i < b.n; i++)
        whole_stream_end(b.now[i]);
    pthread_cond_broadcast(&whole_changed);
    pthread_mutex_unlock(&whole_lock);
    return whole_host(stream, replayed, &graph, sizeof graph);
}
