/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/next/profiler.h"

#include <stdatomic.h>
#include <string.h>

#include "plugin/log.h"
#include "plugin/next/events.h"
#include "plugin/next/open.h"

/* sides[v] is the profiler behind ours, as it serves the copies of NCCL that speak version v of the
 * interface. We do not store it per communicator: when NCCL stops an event, it does not say to
 * which communicator the event belongs, but we know the version. */
enum { ABIS = 8 };
static struct side {
    _Atomic(const struct st_next_library *) other; /* NULL: none */
    atomic_int own;      /* the events that we want                                        */
    int theirs;          /* the other profiler's own mask; used only if we want events, too */
    _Atomic(int *) nccl; /* NCCL's mask; NULL if the other profiler writes to it directly  */
} sides[ABIS];

/* If the other profiler gives a Group event no handle, NCCL gets the address of this variable as
 * the event's handle. */
static char own_group;

/* known[v] has the bits of the events that version v of the interface knows. */
static const int known[] = {
    [1] = 0x3f, [2] = 0x3f, [3] = 0xff, [4] = 0xff, [5] = 0xfff, [6] = 0x7fff, [7] = 0xffff};

/* wanted_by[b] has the bits of the mask that make NCCL send the event with bit number b: the
 * event's own bit, and the bits of all events inside that event. The bits are the same in NCCL 2.27
 * to 2.31.2, but the older of these releases lack some events. */
enum {
    PHASE = NCCL_ABI_EV_KERNEL_PHASE,
    KERNEL = NCCL_ABI_EV_KERNEL_CH | PHASE,
    STEP = NCCL_ABI_EV_PROXY_STEP | NCCL_ABI_EV_NET_PLUGIN,
    OP = NCCL_ABI_EV_PROXY_OP | STEP,
    P2P = NCCL_ABI_EV_P2P | OP | KERNEL,
    COLL = NCCL_ABI_EV_COLL | OP | KERNEL,
    GROUP = NCCL_ABI_EV_GROUP | COLL | P2P,
    CE = NCCL_ABI_EV_CE_COLL | NCCL_ABI_EV_CE_SYNC | NCCL_ABI_EV_CE_BATCH,
    P2P_API = NCCL_ABI_EV_P2P_API | P2P,
    COLL_API = NCCL_ABI_EV_COLL_API | COLL | CE,
    GROUP_API = NCCL_ABI_EV_GROUP_API | GROUP | P2P_API | COLL_API | NCCL_ABI_EV_KERNEL_LAUNCH,
};
static const int wanted_by[] = {
    GROUP, COLL, P2P, OP, STEP, NCCL_ABI_EV_PROXY_CTRL, KERNEL, NCCL_ABI_EV_NET_PLUGIN,
    GROUP_API, COLL_API, P2P_API, NCCL_ABI_EV_KERNEL_LAUNCH,
    CE, NCCL_ABI_EV_CE_SYNC, NCCL_ABI_EV_CE_BATCH, PHASE,
};
enum { EVENTS = sizeof wanted_by / sizeof *wanted_by };

/* ---- the mask ------------------------------------------------------------------------------- */

static int theirs(const struct side *side, const struct st_next_library *library)
{
    return __atomic_load_n(&side->theirs, __ATOMIC_RELAXED) & known[library->version];
}

/* Set ${*nccl}, the mask of NCCL, to the events that we or the other profiler want. Other
 * communicators read the mask at the same time. So we write the mask only if it changes, and in one
 * store of all bits. */
static void carry_mask(const struct side *side, const struct st_next_library *library, int *nccl)
{
    int all = atomic_load(&side->own) | (library ? theirs(side, library) : 0);

    if (nccl && __atomic_load_n(nccl, __ATOMIC_RELAXED) != all)
        __atomic_store_n(nccl, all, __ATOMIC_RELAXED);
}

/* ---- a communicator ------------------------------------------------------------------------- */

static nccl_abi_result start(const struct st_next_library *library,
                             const struct st_profiler_init *init, int *mask, void **ctx)
{
    if (library->version < 4)
        return ((const struct nccl_abi_profiler_old *)library->table)->init(ctx, mask);
    if (library->version == 4)
        return ((const struct nccl_abi_profiler_v4 *)library->table)
            ->init(ctx, mask, init->name, init->comm_id, init->nodes, init->ranks, init->rank,
                   init->logger);
    return ((const struct nccl_abi_profiler_v5 *)library->table)
        ->init(ctx, init->comm_id, mask, init->name, init->nodes, init->ranks, init->rank,
               init->logger);
}

void st_next_profiler_open(struct st_next_profiler *next, const struct st_profiler_init *init,
                           int own, const char *chosen, bool quiet)
{
    static atomic_bool failed;
    /* NCCL 2.27 does not look for a profiler in the NET library */
    const struct st_next_library *library =
        st_next_find(ST_NEXT_PROFILER, chosen, init->abi, init->abi >= 5);
    struct side *side = &sides[init->abi];
    int *mask = init->mask;
    nccl_abi_result result;

    *next = (struct st_next_profiler){.mask = own ? init->mask : NULL};
    st_log_use(init->logger);
    if (own) {
        atomic_fetch_or(&side->own, own);
        atomic_store(&side->nccl, init->mask);
        mask = &side->theirs;
    }
    if (!quiet)
        st_next_say(ST_NEXT_PROFILER, library);
    if (library->table) {
        atomic_store(&side->other, library);
        result = start(library, init, mask, &next->ctx);
        if (result == NCCL_ABI_SUCCESS)
            next->table = library->table;
        else if (!quiet && !atomic_exchange(&failed, true))
            st_warn("the profiler of %s failed its init with error %d: this communicator goes on "
                    "without it",
                    library->path, result);
        if (!own) /* as NCCL does, drop the events that the other profiler's version lacks */
            __atomic_fetch_and(mask, known[library->version], __ATOMIC_RELAXED);
    }
    if (own || library->table)
        carry_mask(side, library->table ? library : NULL, next->mask);
    else
        __atomic_store_n(init->mask, 0, __ATOMIC_RELAXED);
}

void st_next_profiler_close(struct st_next_profiler *next)
{
    /* In every version finalize is at the same offset in the table. */
    const struct nccl_abi_profiler_v5 *table = next->table;

    if (table && table->finalize)
        table->finalize(next->ctx);
    next->table = NULL;
}

/* ---- events --------------------------------------------------------------------------------- */

static bool wants(const struct side *side, const struct st_next_library *library, uint64_t type)
{
    int bit = type ? __builtin_ctzll(type) : EVENTS;

    if (bit >= EVENTS || !(known[library->version] & type))
        return false;
    /* If we want no events, NCCL sends only the events that the other profiler asked for. */
    return !atomic_load(&side->nccl) || (theirs(side, library) & wanted_by[bit]);
}

static void pass_on(const struct st_next_profiler *next, int version, int abi, uint64_t type,
                    const struct nccl_abi_event_v7 *event, void **handle)
{
    const struct nccl_abi_profiler_v5 *table = next->table;

    if (version < 4 || (version == 4 && abi > 4)) {
        struct nccl_abi_event_old old;

        st_event_write(version, abi, (int)type, event, &old);
        ((const struct nccl_abi_profiler_old *)next->table)->start_event(next->ctx, handle, &old);
    } else if (version == 7 && abi < 7) { /* a v7 profiler reads more than NCCL's event has */
        struct nccl_abi_event_v7 longer = {0};

        memcpy(&longer, event, NCCL_ABI_EVENT_BYTES_V6);
        table->start_event(next->ctx, handle, (struct nccl_abi_event_v5 *)(void *)&longer);
    } else {
        table->start_event(next->ctx, handle, (struct nccl_abi_event_v5 *)(uintptr_t)event);
    }
}

void st_next_profiler_start(const struct st_next_profiler *next, int abi, uint64_t type,
                            const void *event, void **handle)
{
    static const int proxy = NCCL_ABI_EV_PROXY_OP | NCCL_ABI_EV_PROXY_STEP | NCCL_ABI_EV_NET_PLUGIN;
    const struct side *side = &sides[abi];
    const struct st_next_library *library = atomic_load(&side->other);
    const struct nccl_abi_event_v7 *head = event;
    struct st_next_profiler stray = {0};
    bool ours_around = abi == 4 && (type == NCCL_ABI_EV_COLL || type == NCCL_ABI_EV_P2P) &&
                       head->parent == &own_group;

    if (library && !next && (type & proxy)) {
        /* NCCL's proxy thread works for another process (PXN) and passed a context of that process,
         * which means nothing here. So the other profiler gets NULL as its context. */
        stray.table = library->table;
        stray.mask = atomic_load(&side->nccl);
        next = &stray;
    }
    if (library) {
        if (next)
            carry_mask(side, library, next->mask);
        if (next && next->table && !ours_around && wants(side, library, type))
            pass_on(next, library->version, abi, type, event, handle);
    }
    if (abi == 4 && type == NCCL_ABI_EV_GROUP && !*handle && atomic_load(&side->own))
        *handle = &own_group;
}

void st_next_profiler_stop(int abi, void *handle)
{
    const struct st_next_library *library = atomic_load(&sides[abi].other);
    const struct nccl_abi_profiler_v5 *table = library ? library->table : NULL;

    if (table && table->stop_event && handle != &own_group)
        table->stop_event(handle);
}

void st_next_profiler_state(int abi, void *handle, int state, void *args)
{
    const struct st_next_library *library = atomic_load(&sides[abi].other);
    const struct nccl_abi_profiler_v5 *table = library ? library->table : NULL;
    struct nccl_abi_state_old old;

    if (!table || !table->record_event_state || handle == &own_group ||
        !st_state_write(library->version, state, args, &old))
        return;
    if (library->version < 4)
        ((const struct nccl_abi_profiler_old *)library->table)
            ->record_event_state(handle, state, &old);
    else
        table->record_event_state(handle, state, args);
}
