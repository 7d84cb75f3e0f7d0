/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.c - a profiler of interface version VERSION (1 to 7). It asks for the events that a test
 * wants and records all events that it gets. It is compiled once per version.
 */
#include <string.h>

#include "test/host/fakes/record.h"

#define PUBLIC __attribute__((visibility("default")))

extern struct profiler_record profiler_record;
PUBLIC struct profiler_record profiler_record;
#define r profiler_record

static int place[8];

static nccl_abi_result opened(void **ctx, int *mask)
{
    r.mask_at = mask;
    if (r.inits == 0) /* only the first communicator writes the mask, as in NCCL's example */
        *mask = r.mask;
    if (!r.fail_init)
        *ctx = &place[r.inits % 8];
    r.inits++;
    return r.fail_init;
}

static nccl_abi_result start(void *ctx, void **handle, uint64_t type, void *event, size_t size)
{
    struct seen_event *seen = &r.event[r.events % FAKE_EVENTS];
    /* parent and rank are at the same offset in all versions */
    const struct nccl_abi_event_old *head = event;

    *seen =
        (struct seen_event){.type = type, .ctx = ctx, .parent = head->parent, .rank = head->rank};
    memcpy(seen->body, (char *)event + 24, size);
    seen->handle = r.no_handles ? NULL : seen;
    *handle = seen->handle;
    r.events++;
    return 0;
}

#if VERSION <= 4
static nccl_abi_result start_event(void *ctx, void **handle, struct nccl_abi_event_old *event)
{
    return start(ctx, handle, event->type, event, sizeof event->u);
}
#else
static nccl_abi_result start_event(void *ctx, void **handle, struct nccl_abi_event_v7 *event)
{
    return start(ctx, handle, event->type, event,
                 VERSION == 7 ? sizeof event->u : NCCL_ABI_EVENT_BYTES_V6 - 24);
}
#endif

static struct seen_event *mine(void *handle)
{
    struct seen_event *seen = handle;

    if (seen >= r.event && seen < r.event + FAKE_EVENTS && seen->handle == handle)
        return seen;
    r.wrong_handles++;
    return NULL;
}

static nccl_abi_result stop_event(void *handle)
{
    struct seen_event *seen = mine(handle);

    r.stops++;
    if (seen)
        seen->stops++;
    return 0;
}

static nccl_abi_result record_state(void *handle, int state, void *args)
{
    mine(handle);
    r.states++;
    r.state_handle = handle;
    r.state = state;
    r.args_given = args != NULL;
    if (args)
        memcpy(&r.args, args, sizeof r.args);
    return 0;
}

static nccl_abi_result finalize(void *ctx)
{
    r.wrong_handles += (int *)ctx < place || (int *)ctx >= place + 8;
    r.ends++;
    return 0;
}

#if VERSION <= 3
static nccl_abi_result init(void **ctx, int *mask)
{
    return opened(ctx, mask);
}
#else
static nccl_abi_result named(const char *name, uint64_t id, int nodes, int ranks, int rank,
                             nccl_abi_logger logger)
{
    r.name = name;
    r.comm_id = id;
    r.nodes = nodes;
    r.ranks = ranks;
    r.rank = rank;
    r.logger = logger;
    return 0;
}
#if VERSION == 4
static nccl_abi_result init(void **ctx, int *mask, const char *name, uint64_t id, int nodes,
                            int ranks, int rank, nccl_abi_logger logger)
#else
static nccl_abi_result init(void **ctx, uint64_t id, int *mask, const char *name, int nodes,
                            int ranks, int rank, nccl_abi_logger logger)
#endif
{
    named(name, id, nodes, ranks, rank, logger);
    return opened(ctx, mask);
}
#endif

/* Every version of the table has these six members. Only the functions' parameters differ. */
static const char name[] = "fake";
#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
extern const void *const JOIN(ncclProfiler_v, VERSION)[6];
PUBLIC const void *const JOIN(ncclProfiler_v, VERSION)[6] = {name,
                                                             (const void *)init,
                                                             (const void *)start_event,
                                                             (const void *)stop_event,
                                                             (const void *)record_state,
                                                             (const void *)finalize};
