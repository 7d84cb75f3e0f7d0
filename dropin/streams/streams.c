/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/streams/streams.h"

#include "dropin/verify/cuda.h"

enum { NO_TIMING = 2 }; /* CU_EVENT_DISABLE_TIMING */

void st_streams_add(struct st_group *g, const struct st_comm *c, void *stream)
{
    void *comm = atomic_load_explicit(&c->comm, memory_order_relaxed);
    struct st_use *use;

    for (int i = g->uses - 1; i >= 0; i--)
        if (g->use[i].comm == comm && g->use[i].stream == stream)
            return;
    use = st_group_more((void **)&g->use, g->uses, &g->uses_room, sizeof *use);
    if (!use)
        return;
    *use = (struct st_use){.comm = comm, .stream = stream, .device = c->device};
    g->uses++;
}

/* Return the next element after ${i} with the same communicator, or -1. */
static int next(const struct st_group *g, int i)
{
    for (int k = i + 1; k < g->uses; k++)
        if (g->use[k].comm == g->use[i].comm)
            return k;
    return -1;
}

static bool is_first(const struct st_group *g, int i)
{
    for (int k = 0; k < i; k++)
        if (g->use[k].comm == g->use[i].comm)
            return false;
    return true;
}

static bool is_queued(const struct st_group *g, const void *comm)
{
    for (int i = 0; i < g->calls; i++)
        if (g->call[i].comm == comm)
            return true;
    return false;
}

/* Is none of the communicator's streams captured, or are all captured into one graph? ${first} is
 * the first element of the communicator. */
static bool may_wait(const struct st_cuda *cuda, const struct st_group *g, int first)
{
    enum { NOT_CAPTURED, CAPTURED };
    int status, status_of_first = NOT_CAPTURED;
    uint64_t graph, graph_of_first = 0;

    for (int i = first; i >= 0; i = next(g, i)) {
        status = NOT_CAPTURED;
        graph = 0;
        if (cuda->capture(g->use[i].stream, &status, &graph, NULL, NULL, NULL) != 0 ||
            (status != NOT_CAPTURED && status != CAPTURED))
            return false;
        if (status == NOT_CAPTURED)
            graph = 0;
        if (i == first) {
            status_of_first = status;
            graph_of_first = graph;
        } else if (status != status_of_first || graph != graph_of_first) {
            return false;
        }
    }
    return true;
}

/* Let all streams of the communicator wait for each other. */
static bool meet(const struct st_cuda *cuda, const struct st_group *g, int first)
{
    void *event, *stream = g->use[first].stream;
    bool done = true;

    if (cuda->event_create(&event, NO_TIMING) != 0)
        return false;
    /* One event is enough, because a wait is for what was recorded when the wait was issued. */
    for (int i = next(g, first); i >= 0 && done; i = next(g, i))
        done = cuda->event_record(event, g->use[i].stream) == 0 &&
               cuda->event_wait(stream, event, 0) == 0;
    done = done && cuda->event_record(event, stream) == 0;
    for (int i = next(g, first); i >= 0 && done; i = next(g, i))
        done = cuda->event_wait(g->use[i].stream, event, 0) == 0;
    cuda->event_destroy(event); /* CUDA keeps it until it is complete */
    return done;
}

/* Let the streams of the communicator whose first element is ${first} wait for each other. If
 * ${*waits} is false, first find out whether they may, and set ${*waits}. */
static bool order(const struct st_cuda *cuda, const struct st_group *g, int first, bool *waits)
{
    int mode = ST_CUDA_RELAXED; /* as in st_verify */
    void *context;
    bool done = true;
    int device;

    if (cuda->device(&device, g->use[first].device) != 0 || cuda->retain(&context, device) != 0)
        return false;
    if (cuda->push(context) != 0) {
        cuda->release(device);
        return false;
    }
    cuda->capture_mode(&mode);
    *waits = *waits || may_wait(cuda, g, first);
    if (*waits)
        done = meet(cuda, g, first);
    cuda->capture_mode(&mode);
    cuda->pop(&context);
    cuda->release(device);
    return done;
}

static bool succeeds(bool done)
{
    if (!done)
        st_warn_once("ncclGroupEnd: CUDA cannot let the streams of a group wait for each other");
    return done;
}

bool st_streams_before(struct st_group *g)
{
    const struct st_cuda *cuda = g->calls > 0 && g->uses > 1 ? st_cuda() : NULL;
    bool done = true;

    for (int i = 0; cuda && i < g->uses; i++)
        if (next(g, i) >= 0 && is_first(g, i) && is_queued(g, g->use[i].comm))
            done = order(cuda, g, i, &g->use[i].waits) && done;
    return succeeds(done);
}

bool st_streams_after(const struct st_group *g)
{
    const struct st_cuda *cuda = g->uses > 1 ? st_cuda() : NULL;
    bool done = true, waits = true;

    for (int i = 0; cuda && i < g->uses; i++)
        if (g->use[i].waits)
            done = order(cuda, g, i, &waits) && done;
    return succeeds(done);
}
