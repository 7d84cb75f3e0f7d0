/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/call.h"

#include <stdio.h>
#include <string.h>

#include "dropin/ledger/book.h"
#include "dropin/life.h"
#include "dropin/operators/operator.h"
#include "dropin/streams/streams.h"
#include "dropin/verify/cuda.h"
#include "dropin/verify/verify.h"
#include "dropin/window.h"

static nccl_abi_result run_nccl(const struct st_real *real, const struct st_call *call)
{
    const struct st_functions *f = &real->call;

    st_separate(real, call->stream);
    switch (call->coll) {
    case ST_TALLY_ALL_REDUCE:
        return f->AllReduce(call->send, call->recv, call->count, call->dtype, call->op, call->comm,
                            call->stream);
    case ST_TALLY_REDUCE_SCATTER:
        return f->ReduceScatter(call->send, call->recv, call->count, call->dtype, call->op,
                                call->comm, call->stream);
    default:
        return f->AllGather(call->send, call->recv, call->count, call->dtype, call->comm,
                            call->stream);
    }
}

/* ---- who runs a call? ------------------------------------------------------------------------ */

/* The library gives a call to NCCL, and its text ${why} says why. Return the enum st_plan for this
 * reason. */
static unsigned nccl_plan(const char *why)
{
    static const char span[] = "the ranks span several nodes";
    int boxes = 0;

    sscanf(why, "%*d boxes of %*d ranks: %n", &boxes);
    /* If a rule names a kernel that cannot run the call, the choice of NCCL comes from the
     * library's table, not from the rule. */
    if (strncmp(why + boxes, "rules: ", 7) == 0 && !strstr(why, " cannot run this call; "))
        return ST_PLAN_RULE;
    return boxes || strncmp(why, span, sizeof span - 1) == 0 ? ST_PLAN_ACROSS : ST_PLAN_NCCL;
}

/* Ask the kernels' library how it would run the call. It looks at the buffers, too. */
static unsigned ask(struct st_comm *c, const struct st_call *call)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    struct symtuner_ar *handle = st_life_hold(c);
    int result;

    if (!handle)
        return ST_PLAN_NCCL;
    st_inside++;
    result = c->kernels->query_coll_
                 ? c->kernels->query_coll_(call->coll, call->send, call->recv, call->count,
                                           call->dtype, call->op, handle, &plan)
                 : c->kernels->query_(call->send, call->recv, call->count, call->dtype, call->op,
                                      handle, &plan);
    st_inside--;
    st_life_release(c);
    if (result != NCCL_ABI_SUCCESS)
        return ST_PLAN_NCCL;
    if (plan.boxes > 0) { /* box by box, though NCCL's kernels may add up inside a box */
        c->by_boxes = plan.boxes;
        return plan.pieces < ST_PLANS - ST_PLAN_BOXES ? ST_PLAN_BOXES + (unsigned)plan.pieces
                                                      : ST_PLANS - 1;
    }
    if (strcmp(plan.kernel, "tma_ipc") == 0 && c->kernels->decide_) {
        c->either = true;
        return ST_PLAN_EITHER;
    }
    return strcmp(plan.kernel, "nccl") != 0 ? ST_PLAN_OURS : nccl_plan(plan.why);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* Return what ask() answers for this call. ask() is too slow to run on every call, so we keep its
 * answers in a table, by a hash of the call. Calls with the same hash share an answer. */
static unsigned answer(struct st_comm *c, const struct st_call *call)
{
    size_t bytes = st_call_bytes(c, call);
    size_t in = call->coll == ST_TALLY_ALL_GATHER ? bytes / (size_t)c->ranks : bytes;
    size_t out = call->coll == ST_TALLY_REDUCE_SCATTER ? bytes / (size_t)c->ranks : bytes;
    /* all operators that programs create count as one, because each rank numbers them itself */
    int op = call->op < NCCL_ABI_BUILT_IN_OPS ? call->op : NCCL_ABI_BUILT_IN_OPS;
    const uint64_t places =
        st_window_class(c, call->send, in) << 4 | st_window_class(c, call->recv, out) << 2;
    /* The key also says whether the call is in place. For a call in place the library looks only at
     * the window of the longer buffer. So it may answer otherwise than for a call whose buffers
     * have the same classes (st_window_class), but which is not in place. */
    const bool at_place = places && st_call_in_place(c, call, in < out ? in : out);
    uint64_t key =
        mix(mix(0, call->count), (uint64_t)call->coll << 32 | (uint64_t)call->dtype << 16 |
                                     (uint64_t)op << 8 | places | at_place);
    uint64_t *set;

    key = mix(key, UINT64_C(0x5bd1e995)) | ST_PLANS; /* never 0, which marks an empty entry */
    key -= key % ST_PLANS;
    set = c->answers[key >> 32 & (ST_SETS - 1)];
    for (int i = 0; i < ST_WAYS; i++)
        if (set[i] - set[i] % ST_PLANS == key)
            return set[i] % ST_PLANS;
    memmove(set + 1, set, (ST_WAYS - 1) * sizeof *set); /* drop the oldest answer */
    set[0] = key | ask(c, call);
    return set[0] % ST_PLANS;
}

/* Return ST_WHY_OURS if our kernels run the call, else the reason why NCCL runs it. If the ranks
 * must still decide which of the two runs it (ST_PLAN_EITHER), return ST_WHY_OURS and set
 * *either. */
static enum st_tally_why judge(struct st_comm *c, const struct st_call *call, bool *either)
{
    unsigned plan;

    *either = false;
    if (!atomic_load_explicit(&c->handle, memory_order_acquire) || c->distrusted)
        return (enum st_tally_why)atomic_load_explicit(&c->why, memory_order_relaxed);
    if (!(st_settings()->only >> call->coll & 1))
        return ST_WHY_ONLY;
    if ((call->coll == ST_TALLY_REDUCE_SCATTER && !c->kernels->reduce_scatter_) ||
        (call->coll == ST_TALLY_ALL_GATHER && !c->kernels->all_gather_) ||
        (call->coll != ST_TALLY_ALL_REDUCE && !c->kernels->query_coll_))
        return ST_WHY_COLLECTIVE;
    if (call->op < 0 || (call->op >= NCCL_ABI_BUILT_IN_OPS && !st_op_known(c)))
        return ST_WHY_OPERATOR;
    if (call->count == 0)
        return ST_WHY_EMPTY;
    if (!call->send || !call->recv || st_call_bytes(c, call) == 0)
        return ST_WHY_ARGUMENTS;
    plan = answer(c, call);
    *either = plan == ST_PLAN_EITHER;
    return plan >= ST_PLAN_OURS     ? ST_WHY_OURS
           : plan == ST_PLAN_ACROSS ? ST_WHY_BOXES
           : plan == ST_PLAN_RULE   ? ST_WHY_RULE
                                    : ST_WHY_SLOWER;
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Count a call of ${c} for the summary of symtuner run and for the ledger. The ledger also needs
 * the communicator's number of ranks. The drop-in does not know this number when a non-blocking
 * communicator is made, so ask NCCL for it now. */
static void count(struct st_comm *c, enum st_tally_coll coll, enum st_tally_why why, size_t bytes)
{
    struct st_book *book = c->book;
    int ranks;

    st_tally_count(st_slot(), coll, why, bytes);
    if (!book)
        return;
    if (atomic_load_explicit(&book->ranks, memory_order_relaxed) == 0 && c->real->comm_count &&
        c->real->comm_count(atomic_load(&c->comm), &ranks) == NCCL_ABI_SUCCESS)
        atomic_store_explicit(&book->ranks, ranks, memory_order_relaxed);
    st_book_count(book, coll, why, bytes);
}

/* ---- running --------------------------------------------------------------------------------- */

static nccl_abi_result by_kernels(struct st_comm *c, const struct st_call *call)
{
    struct symtuner_ar *handle = st_life_hold(c);
    const struct st_kernels *k = c->kernels;
    nccl_abi_result result;

    if (!handle)
        return NCCL_ABI_INVALID_USAGE; /* another thread has aborted the communicator */
    if (atomic_load(&c->comm) != call->comm) {
        st_life_release(c);
        return NCCL_ABI_INVALID_USAGE; /* aborted, and a new communicator has the record ${c} */
    }
    st_inside++;
    result = call->coll == ST_TALLY_ALL_REDUCE
                 ? k->all_reduce_(call->send, call->recv, call->count, call->dtype, call->op,
                                  handle, call->stream)
             : call->coll == ST_TALLY_REDUCE_SCATTER
                 ? k->reduce_scatter_(call->send, call->recv, call->count, call->dtype, call->op,
                                      handle, call->stream)
                 : k->all_gather_(call->send, call->recv, call->count, call->dtype, handle,
                                  call->stream);
    st_inside--;
    if (result != NCCL_ABI_SUCCESS)
        st_warn_once("%s: %s", st_tally_coll_name(call->coll), k->error_(handle));
    st_life_release(c);
    return result;
}

/* Let the ranks decide together whether NCCL or our kernel tma_ipc runs ${call}. Returns true if
 * they choose NCCL. */
static bool is_for_nccl(struct st_comm *c, const struct st_call *call)
{
    struct symtuner_ar *handle = st_life_hold(c);
    int nccl = 0;

    if (!handle)
        return false;
    st_inside++;
    if (c->kernels->decide_(call->coll, call->send, call->recv, call->count, call->dtype, call->op,
                            handle, &nccl) != NCCL_ABI_SUCCESS)
        nccl = 0; /* the call itself will fail, and say why */
    st_inside--;
    st_life_release(c);
    return nccl != 0;
}

static nccl_abi_result by_nccl(struct st_comm *c, const struct st_call *call)
{
    return run_nccl(c->real, call);
}

/* Does cli/run/times.h have times that are valid for this call (${timed} in tally.h)? */
static bool is_timed(struct st_comm *c, const struct st_tally_slot *slot,
                     const struct st_call *call)
{
    return st_settings()->usual && st_tally_is_timed(call->coll, call->dtype, call->op) &&
           c->ranks == slot->ranks && !c->spans &&
           !st_window_holds(c, call->send, st_call_bytes(c, call)) &&
           !st_window_holds(c, call->recv, st_call_bytes(c, call));
}

static nccl_abi_result run_ours(struct st_comm *c, const struct st_call *call)
{
    struct st_tally_slot *slot = st_slot();
    unsigned how = ST_PLAN_OURS;
    bool captured;
    nccl_abi_result result = call->op < NCCL_ABI_BUILT_IN_OPS && st_verify_wanted(c, call)
                                 ? st_verify(c, call, by_kernels, by_nccl)
                                 : by_kernels(c, call);

    if ((!slot && !c->book) || result != NCCL_ABI_SUCCESS)
        return result;
    count(c, call->coll, ST_WHY_OURS, st_call_bytes(c, call));
    if (c->by_boxes || c->either)
        how = answer(c, call);
    if (how >= ST_PLAN_BOXES)
        st_book_parts(c->book, st_call_bytes(c, call), c->ranks / c->by_boxes,
                      (int)(how - ST_PLAN_BOXES));
    if (slot && how >= ST_PLAN_BOXES) {
        st_tally_add(slot, &slot->by_boxes);
        atomic_fetch_add_explicit(&slot->pieces, how - ST_PLAN_BOXES, memory_order_relaxed);
    }
    captured = st_cuda_captures(st_cuda(), call->stream);
    if (captured)
        st_book_also(c->book, call->coll, ST_BOOK_CAPTURED, st_call_bytes(c, call));
    if (slot && captured)
        st_tally_add(slot, &slot->captured);
    if (slot && how == ST_PLAN_EITHER)
        st_tally_add(slot, &slot->tma_ipc);
    else if (slot && is_timed(c, slot, call))
        st_tally_time(slot, captured, st_call_bytes(c, call));
    return result;
}

static bool is_accepted(nccl_abi_result result)
{
    return result == NCCL_ABI_SUCCESS || result == NCCL_ABI_IN_PROGRESS;
}

/* Count a collective of ${c} in the open group ${g}. */
static void note(struct st_group *g, struct st_comm *c, bool by_us)
{
    if (c->group != g->number) {
        c->group = g->number;
        c->group_ours = c->group_others = 0;
    }
    if (by_us)
        c->group_ours++;
    else
        c->group_others++;
}

/* Count a call of a communicator that has no record, because the drop-in did not see NCCL make it.
 * For example, NCCL writes the pointer to a non-blocking child only after ncclCommSplit has
 * returned, so the drop-in does not see this pointer. */
static void count_unknown(const struct st_real *real, enum st_tally_coll coll, void *comm,
                          size_t elements, int dtype, bool per_rank)
{
    struct st_tally_slot *slot = st_slot();
    int ranks = 1;

    if (!slot || !comm)
        return;
    if (per_rank && (!real->comm_count || real->comm_count(comm, &ranks) != NCCL_ABI_SUCCESS))
        ranks = 1;
    st_tally_count(slot, coll, ST_WHY_UNFOLLOWED,
                   st_bytes(NULL, elements, dtype, false) * (size_t)ranks);
}

void st_call_forwarded(struct st_comm *c, struct st_real *real, enum st_tally_coll coll, void *comm,
                       size_t elements, int dtype, bool per_rank)
{
    if (c)
        count(c, coll, ST_WHY_COLLECTIVE, st_bytes(c, elements, dtype, per_rank));
    else
        count_unknown(real, coll, comm, elements, dtype, per_rank);
}

nccl_abi_result st_call_returned(struct st_comm *c, struct st_real *real, bool collective,
                                 void *stream, nccl_abi_result result)
{
    struct st_group *g = st_group_of(real);

    if (!c || g->depth == 0 || !is_accepted(result))
        return result;
    if (collective)
        note(g, c, false);
    if (atomic_load_explicit(&c->handle, memory_order_relaxed))
        st_streams_add(g, c, stream);
    return result;
}

nccl_abi_result st_call(struct st_from from, const struct st_call *call)
{
    struct st_comm *c = st_comm_find(call->comm);
    struct st_real *real = c ? c->real : st_real_of(from);
    enum st_tally_why why;
    struct st_call *queued;
    struct st_group *g;
    bool either;

    if (!real)
        return st_no_nccl();
    if (!c && !st_passes(from, real))
        count_unknown(real, call->coll, call->comm, call->count, call->dtype,
                      call->coll != ST_TALLY_ALL_REDUCE);
    if (!c || st_passes(from, real))
        return run_nccl(real, call);
    g = st_group_of(real);
    why = judge(c, call, &either);
    if (why == ST_WHY_OURS && g->depth == 0 && either && is_for_nccl(c, call))
        why = ST_WHY_UNMAPPED;
    if (why == ST_WHY_OURS && g->depth == 0)
        return run_ours(c, call);
    if (why == ST_WHY_OURS) {
        queued = st_group_more((void **)&g->call, g->calls, &g->calls_room, sizeof *g->call);
        if (!queued)
            return NCCL_ABI_INTERNAL_ERROR;
        *queued = *call;
        queued->either = either;
        g->calls++;
        note(g, c, true);
        st_streams_add(g, c, call->stream);
        return NCCL_ABI_SUCCESS;
    }
    count(c, call->coll, why, st_call_bytes(c, call));
    return st_call_returned(c, real, true, call->stream, run_nccl(real, call));
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Hand waiting calls to NCCL, in their order. If ${all}, hand over all calls. Otherwise hand over
 * - all calls of each communicator that has more than ST_GROUP_MOST collectives in this group
 * - all calls of each communicator that has a collective which our kernels cannot run
 * - of the other communicators, the calls that the ranks decide to give to NCCL (is_for_nccl).
 * The other calls stay in the queue. */
static nccl_abi_result give_back(struct st_real *real, struct st_group *g, bool all)
{
    nccl_abi_result result = NCCL_ABI_SUCCESS, latest;
    int left = 0;

    for (int i = 0; i < g->calls; i++) {
        struct st_call *call = &g->call[i];
        struct st_comm *c = st_comm_find(call->comm);
        enum st_tally_why why = ST_WHY_GROUP;

        if (!all && c && c->group_others == 0 && c->group_ours <= ST_GROUP_MOST) {
            why = call->either && is_for_nccl(c, call) ? ST_WHY_UNMAPPED : ST_WHY_OURS;
            if (why == ST_WHY_OURS) {
                g->call[left++] = *call;
                continue;
            }
        }
        if (c)
            count(c, call->coll, why, st_call_bytes(c, call));
        latest = run_nccl(real, call);
        if (result == NCCL_ABI_SUCCESS)
            result = latest;
    }
    g->calls = left;
    return result;
}

static nccl_abi_result run_queue(struct st_group *g)
{
    nccl_abi_result result = NCCL_ABI_SUCCESS, latest;
    int calls = g->calls;

    g->calls = 0;
    for (int i = 0; i < calls; i++) {
        struct st_comm *c = st_comm_find(g->call[i].comm);

        latest = c ? run_ours(c, &g->call[i]) : NCCL_ABI_INVALID_USAGE;
        if (result == NCCL_ABI_SUCCESS)
            result = latest;
    }
    return result;
}

nccl_abi_result st_group_start(struct st_from from)
{
    static _Atomic uint64_t latest;
    struct st_real *real = st_real_of(from);
    struct st_group *g;
    nccl_abi_result result;

    if (!real)
        return st_no_nccl();
    result = real->call.GroupStart();
    if (result != NCCL_ABI_SUCCESS || st_passes(from, real))
        return result;
    g = st_group_of(real);
    if (g->depth++ == 0) {
        g->number = atomic_fetch_add_explicit(&latest, 1, memory_order_relaxed) + 1;
        st_made_drop(g->made, g->mades); /* left by a group that was only simulated */
        g->calls = g->uses = g->mades = g->seens = 0;
    }
    return result;
}

static nccl_abi_result end_group(struct st_real *real, struct st_group *g)
{
    nccl_abi_result before = NCCL_ABI_SUCCESS, latest, result;
    bool ordered;

    if (g->calls)
        before = give_back(real, g, false);
    ordered = st_streams_before(g);
    g->depth = 0;
    result = real->call.GroupEnd();
    for (int i = 0; i < g->mades && result == NCCL_ABI_IN_PROGRESS; i++)
        g->made[i].blocking = g->made[i].parent_spans = false;
    if (g->mades && is_accepted(result))
        st_made_settle(real, g->made, g->mades);
    else
        st_made_drop(g->made, g->mades);
    g->mades = 0;
    if (!is_accepted(result))
        return result;
    if (g->calls) {
        latest = ordered ? run_queue(g) : NCCL_ABI_CUDA_ERROR;
        if (!st_streams_after(g) && latest == NCCL_ABI_SUCCESS)
            latest = NCCL_ABI_CUDA_ERROR;
        if (before == NCCL_ABI_SUCCESS)
            before = latest;
    }
    if (g->seens)
        st_seen_settle(g->seen, g->seens);
    return before != NCCL_ABI_SUCCESS ? before : result;
}

nccl_abi_result st_group_end(struct st_from from)
{
    struct st_real *real = st_real_of(from);
    nccl_abi_result result;
    struct st_group *g;

    if (!real)
        return st_no_nccl();
    g = st_group_of(real);
    if (st_passes(from, real))
        return real->call.GroupEnd();
    if (g->depth != 1) {
        g->depth -= g->depth > 0;
        return real->call.GroupEnd();
    }
    result = end_group(real, g);
    st_ops_destroy(g);
    return result;
}

nccl_abi_result st_group_simulate(struct st_from from, void *info)
{
    struct st_real *real = st_real_of(from);
    struct st_group *g;

    if (!real)
        return st_no_nccl();
    g = st_group_of(real);
    if (!st_passes(from, real) && g->depth > 0 && --g->depth == 0) {
        give_back(real, g, true); /* NCCL estimates the group's time, so it must see all calls */
        st_ops_destroy(g);
    }
    return real->call.GroupSimulateEnd ? real->call.GroupSimulateEnd(info) : st_no_nccl();
}
