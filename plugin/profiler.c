/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/profiler.h"

#include <stdlib.h>
#include <string.h>

#include "plugin/ledger.h"

struct st_profiler {
    struct st_ledger *ledger;
    int ranks;
};

nccl_abi_result st_profiler_open(int abi, uint64_t comm_id, int nodes, int ranks,
                                 nccl_abi_logger logger, int *mask_out, void **ctx_out)
{
    const struct st_process *process = st_process();
    struct st_profiler *profiler;

    (void)logger; /* the tuner's init speaks; here CUDA may not be up yet */
    *ctx_out = NULL;
    *mask_out = 0;
    if (process->options.mode == ST_MODE_OFF || !process->options.ledger[0] ||
        !(profiler = calloc(1, sizeof *profiler)))
        return NCCL_ABI_SUCCESS;
    profiler->ranks = ranks;
    profiler->ledger = st_ledger_open(comm_id, ranks, nodes);
    *mask_out = NCCL_ABI_EV_COLL | (abi >= 5 ? NCCL_ABI_EV_COLL_API : 0) |
                (abi >= 6 ? NCCL_ABI_EV_CE_COLL : 0);
    *ctx_out = profiler;
    return NCCL_ABI_SUCCESS;
}

/* "AllReduce" ... as NCCL spells them; -1 for what no tuner sees (SendRecv, AlltoAll ...). At most
 * two comparisons: this runs for every call. */
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

/* Bytes of "ncclFloat32" and the like by the first digit; 8-bit types and those that NCCL calls
 * "Unknown" (uint8) have one. */
static uint64_t parse_size(const char *datatype)
{
    while (*datatype && (*datatype < '0' || *datatype > '9'))
        datatype++;
    return *datatype == '6' ? 8 : *datatype == '3' ? 4 : *datatype == '1' ? 2 : 1;
}

static uint64_t total_bytes(const struct st_profiler *profiler, int coll, size_t count,
                            const char *datatype)
{
    return count * parse_size(datatype) * st_coll_parts(coll, profiler->ranks);
}

static void count(struct st_profiler *profiler, const char *func, size_t elements,
                  const char *datatype, enum st_ran what)
{
    int coll = func && datatype ? parse_func(func) : -1;

    if (coll >= 0 && profiler->ledger)
        st_ledger_add(profiler->ledger, &profiler->ledger->ran[coll][st_ledger_bucket(
            total_bytes(profiler, coll, elements, datatype))][what]);
}

static void call(struct st_profiler *profiler, const struct nccl_abi_ev_coll_api *api)
{
    count(profiler, api->func, api->count, api->datatype,
          api->captured ? ST_RAN_CAPTURED : ST_RAN_CALLED);
}

/* From 2.31.2 symmetric kernels have Coll events; older interfaces show an empty protocol. */
static bool symmetric(const struct nccl_abi_ev_coll *coll)
{
    return st_era_shows_symmetric(st_process()->era) && coll->proto && !coll->proto[0];
}

nccl_abi_result st_profiler_event_v4(void *ctx, void **handle, struct nccl_abi_event_v4 *event)
{
    *handle = NULL;
    if (ctx && event->type == NCCL_ABI_EV_COLL)
        count(ctx, event->coll.func, event->coll.count, event->coll.datatype, ST_RAN_GENERAL);
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_profiler_event_v5(void *ctx, void **handle, struct nccl_abi_event_v5 *event)
{
    const struct nccl_abi_ev_coll *coll = &event->u.coll;

    *handle = NULL;
    if (!ctx)
        return NCCL_ABI_SUCCESS;
    if (event->type == NCCL_ABI_EV_COLL_API)
        call(ctx, &event->u.api);
    else if (event->type == NCCL_ABI_EV_COLL)
        count(ctx, coll->func, coll->count, coll->datatype,
              symmetric(coll) ? ST_RAN_SYMMETRIC : ST_RAN_GENERAL);
    else if (event->type == NCCL_ABI_EV_CE_COLL) /* its first members are those of coll */
        count(ctx, coll->func, coll->count, coll->datatype, ST_RAN_CE);
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_profiler_event_v7(void *ctx, void **handle, struct nccl_abi_event_v5 *event)
{
    const struct nccl_abi_ev_coll_v7 *coll = &event->u.coll_v7;

    if (!ctx || event->type != NCCL_ABI_EV_COLL)
        return st_profiler_event_v5(ctx, handle, event);
    *handle = NULL;
    count(ctx, coll->head.func, coll->head.count, coll->head.datatype,
          coll->is_sym ? ST_RAN_SYMMETRIC : ST_RAN_GENERAL);
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_profiler_stop(void *handle)
{
    (void)handle;
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_profiler_state(void *handle, int state, void *args)
{
    (void)handle, (void)state, (void)args;
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_profiler_close(void *ctx)
{
    struct st_profiler *profiler = ctx;

    if (profiler) {
        st_ledger_close(profiler->ledger);
        free(profiler);
    }
    return NCCL_ABI_SUCCESS;
}
