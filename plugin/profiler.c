/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/profiler.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/ledger.h"

struct st_profiler {
    struct st_ledger *ledger; /* NULL: nothing is counted */
    int ranks;
    const struct st_era *era;
    struct st_next_profiler next; /* the profiler behind ours (plugin/next/open.h) */
};

/* The open profilers. The context that we give NCCL is the index in this array plus 1. */
enum { CONTEXTS = 4096 };
static _Atomic(struct st_profiler *) contexts[CONTEXTS];

static struct st_profiler *find(void *ctx)
{
    uintptr_t number = (uintptr_t)ctx;

    return number - 1 < CONTEXTS ? atomic_load(&contexts[number - 1]) : NULL;
}

static void *enter(struct st_profiler *profiler)
{
    for (uintptr_t i = 0; i < CONTEXTS; i++) {
        struct st_profiler *none = NULL;

        if (atomic_compare_exchange_strong(&contexts[i], &none, profiler))
            return (void *)(i + 1);
    }
    return NULL;
}

/* Return the release of the NCCL that opens a profiler. If nothing tells the release, return the
 * oldest release that has this version of the interface. */
static int release_of(const struct st_profiler_init *init)
{
    static const int oldest_of_abi[] = {[4] = 22703, [5] = 22803, [6] = 22902, [7] = 23102};
    int nccl = st_process_caller(init->logger);

    return nccl ? nccl : oldest_of_abi[init->abi];
}

nccl_abi_result st_profiler_open(const struct st_profiler_init *init, void **ctx_out)
{
    const struct st_process *process = st_process();
    bool off = process->options.mode == ST_MODE_OFF, count = !off && process->options.ledger[0];
    struct st_profiler *profiler = calloc(1, sizeof *profiler);
    int mask = NCCL_ABI_EV_COLL | (init->abi >= 5 ? NCCL_ABI_EV_COLL_API : 0) |
               (init->abi >= 6 ? NCCL_ABI_EV_CE_COLL : 0);

    *ctx_out = profiler ? enter(profiler) : NULL;
    if (!*ctx_out) {
        free(profiler);
        return NCCL_ABI_SUCCESS;
    }
    profiler->ranks = init->ranks;
    profiler->era = st_era_of(0);
    if (count) {
        int nccl = release_of(init);

        profiler->era = st_era_of(nccl);
        profiler->ledger = st_ledger_open(init->comm_id, init->ranks, init->nodes, nccl);
        st_ledger_profiler_opens(profiler->ledger);
        /* The tuner does this, too, but NCCL may load no tuner. */
        st_ledger_listen(&process->options);
    }
    st_next_profiler_open(&profiler->next, init, count ? mask : 0,
                          process->options.next_profiler, off);
    if (!profiler->ledger && !profiler->next.table) {
        st_profiler_close(*ctx_out);
        *ctx_out = NULL;
    }
    return NCCL_ABI_SUCCESS;
}

/* Return the collective that an event names, such as "AllReduce". Returns -1 for calls that NCCL
 * never asks a tuner about (SendRecv, AlltoAll ...). This runs for every call, so it compares at
 * most two names. */
static int parse_func(const char *func)
{
    switch (func[0]) {
    case 'A':
        return strcmp(func, "AllReduce") == 0   ? SYMTUNER_ALLREDUCE
               : strcmp(func, "AllGather") == 0 ? SYMTUNER_ALLGATHER
                                                : -1;
    case 'R':
        return strcmp(func, "ReduceScatter") == 0 ? SYMTUNER_REDUCESCATTER
               : strcmp(func, "Reduce") == 0      ? SYMTUNER_REDUCE
                                                  : -1;
    case 'B':
        return strcmp(func, "Broadcast") == 0 ? SYMTUNER_BROADCAST : -1;
    default:
        return -1;
    }
}

/* Return the bytes of a whole call. ${datatype} is a name such as "ncclFloat32", and its first
 * digit tells the size of an element. The name of an 8-bit type has an 8 or no digit: for uint8
 * NCCL says "Unknown". */
static uint64_t total_bytes(const struct st_profiler *profiler, int coll, size_t count,
                            const char *datatype)
{
    const char digit = datatype[strcspn(datatype, "0123456789")];
    const uint64_t size = digit == '6' ? 8 : digit == '3' ? 4 : digit == '1' ? 2 : 1;

    return count * size * st_coll_parts(coll, profiler->ranks);
}

static void count(struct st_profiler *profiler, const char *func, size_t elements,
                  const char *datatype, enum st_ran what)
{
    int coll = func && datatype ? parse_func(func) : -1;

    if (coll >= 0 && profiler->ledger)
        st_ledger_add(profiler->ledger, &profiler->ledger->ran[coll][st_ledger_bucket(
            total_bytes(profiler, coll, elements, datatype))][what]);
}

/* Is this the Coll event of a symmetric kernel? Symmetric kernels have Coll events from NCCL 2.31.2
 * on. In v7 of the interface the member is_sym marks these events. Up to v6 their protocol is an
 * empty text. */
static bool is_symmetric(const struct st_profiler *profiler, int version,
                         const struct nccl_abi_event_v5 *event)
{
    const char *proto = event->u.coll.proto;

    return version >= 7 ? event->u.coll_v7.is_sym
                        : st_era_shows_symmetric(profiler->era) && proto && !proto[0];
}

/* Pass the event to the profiler behind ours, and that profiler's handle to NCCL. Returns our own
 * profiler of this communicator, or NULL if we have none. */
static struct st_profiler *pass_on(void *ctx, int abi, uint64_t type, void *event, void **handle)
{
    struct st_profiler *profiler = find(ctx);

    *handle = NULL;
    st_next_profiler_start(profiler ? &profiler->next : NULL, abi, type, event, handle);
    return profiler;
}

nccl_abi_result st_profiler_event_v4(void *ctx, void **handle, struct nccl_abi_event_v4 *event)
{
    struct st_profiler *profiler = pass_on(ctx, 4, event->type, event, handle);

    if (profiler && event->type == NCCL_ABI_EV_COLL)
        count(profiler, event->coll.func, event->coll.count, event->coll.datatype, ST_RAN_GENERAL);
    return NCCL_ABI_SUCCESS;
}

static inline void count_event(struct st_profiler *profiler, int version,
                               const struct nccl_abi_event_v5 *event)
{
    const struct nccl_abi_ev_coll *coll = &event->u.coll;
    const struct nccl_abi_ev_coll_api *api = &event->u.api;

    if (event->type == NCCL_ABI_EV_COLL_API)
        count(profiler, api->func, api->count, api->datatype,
              api->captured ? ST_RAN_CAPTURED : ST_RAN_CALLED);
    else if (event->type == NCCL_ABI_EV_COLL)
        count(profiler, coll->func, coll->count, coll->datatype,
              is_symmetric(profiler, version, event) ? ST_RAN_SYMMETRIC : ST_RAN_GENERAL);
    else if (event->type == NCCL_ABI_EV_CE_COLL) /* a copy-engine event begins like a Coll event */
        count(profiler, coll->func, coll->count, coll->datatype, ST_RAN_CE);
}

#define EVENT(version)                                                                             \
    nccl_abi_result st_profiler_event_v##version(void *ctx, void **handle,                         \
                                                 struct nccl_abi_event_v5 *event)                  \
    {                                                                                              \
        struct st_profiler *profiler = pass_on(ctx, version, event->type, event, handle);          \
                                                                                                   \
        if (profiler)                                                                              \
            count_event(profiler, version, event);                                                 \
        return NCCL_ABI_SUCCESS;                                                                   \
    }
EVENT(5)
EVENT(6)
EVENT(7)

nccl_abi_result st_profiler_stop(int abi, void *handle)
{
    st_next_profiler_stop(abi, handle);
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_profiler_state(int abi, void *handle, int state, void *args)
{
    st_next_profiler_state(abi, handle, state, args);
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_profiler_close(void *ctx)
{
    struct st_profiler *profiler = find(ctx);

    if (profiler) {
        atomic_store(&contexts[(uintptr_t)ctx - 1], NULL);
        st_next_profiler_close(&profiler->next);
        st_ledger_close(profiler->ledger);
        free(profiler);
    }
    return NCCL_ABI_SUCCESS;
}
