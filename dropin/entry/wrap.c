/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/entry/wrap.h"

#include <stdatomic.h>
#include <string.h>

#include "dropin/call.h"
#include "dropin/operators/operator.h"
#include "dropin/life.h"
#include "dropin/settings.h"
#include "dropin/window.h"

/* Return the NCCL that made ${c}, or the caller's NCCL if we do not know the communicator. */
static struct st_real *real_for(struct st_from from, const struct st_comm *c)
{
    return c ? c->real : st_real_of(from);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static nccl_abi_result in_AllReduce(struct st_from from, const void *send, void *recv, size_t count,
                                    int dtype, int op, void *comm, void *stream)
{
    const struct st_call call = {comm, ST_TALLY_ALL_REDUCE, send, recv, count, dtype, op, stream,
                                 false};

    return st_call(from, &call);
}

static nccl_abi_result in_ReduceScatter(struct st_from from, const void *send, void *recv,
                                        size_t count, int dtype, int op, void *comm, void *stream)
{
    const struct st_call call = {
        comm, ST_TALLY_REDUCE_SCATTER, send, recv, count, dtype, op, stream, false};

    return st_call(from, &call);
}

static nccl_abi_result in_AllGather(struct st_from from, const void *send, void *recv, size_t count,
                                    int dtype, void *comm, void *stream)
{
    const struct st_call call = {comm, ST_TALLY_ALL_GATHER, send, recv, count, dtype, 0, stream,
                                 false};

    return st_call(from, &call);
}

/* If ${config} is NULL, a collective with a config is the same as the plain collective (nccl.h of
 * 2.32.3), and other ranks may make the plain call. So the rows of ST_FORWARDED_MAP for the three
 * collectives above then make the plain call, too. */
#define PLAIN_ALL_REDUCE                                                                           \
    if (!config)                                                                                   \
    return in_AllReduce(from, send, recv, count, dtype, op, comm, stream)
#define PLAIN_REDUCE_SCATTER                                                                       \
    if (!config)                                                                                   \
    return in_ReduceScatter(from, send, recv, count, dtype, op, comm, stream)
#define PLAIN_ALL_GATHER                                                                           \
    if (!config)                                                                                   \
    return in_AllGather(from, send, recv, count, dtype, comm, stream)
#define PLAIN_BROADCAST
#define PLAIN_REDUCE
#define PLAIN_SEND
#define PLAIN_RECV
#define PLAIN_OTHER

/* Turn the fourth column of ST_FORWARDED_MAP, 1 or ranks, into "does the larger buffer have
 * ${count} elements for each rank?" */
enum { TIMES_1 = 0, TIMES_ranks = 1 };
#define UNPACK(...) __VA_ARGS__
#define X(name, coll, collective, factor, params, args)                                            \
    static nccl_abi_result in_##name(struct st_from from, UNPACK params)                           \
    {                                                                                              \
        struct st_comm *c = st_comm_find(comm);                                                    \
        struct st_real *real = real_for(from, c);                                                  \
                                                                                                   \
        if (!real || !real->call.name)                                                             \
            return st_no_nccl();                                                                   \
        if (st_passes(from, real))                                                                 \
            return real->call.name args;                                                           \
        PLAIN_##coll;                                                                              \
        st_call_forwarded(c, real, ST_TALLY_##coll, comm, count, dtype, TIMES_##factor);           \
        st_separate(real, stream);                                                                 \
        return st_call_returned(c, real, collective, stream, real->call.name args);                \
    }
ST_FORWARDED_MAP(X)
#undef X

static nccl_abi_result in_GroupStart(struct st_from from)
{
    return st_group_start(from);
}

static nccl_abi_result in_GroupEnd(struct st_from from)
{
    return st_group_end(from);
}

static nccl_abi_result in_GroupSimulateEnd(struct st_from from, void *info)
{
    return st_group_simulate(from, info);
}

/* Declare ${real}, the NCCL that this call is for. If that NCCL has no function ${name}, return
 * with an error. */
#define REAL(name, c)                                                                              \
    struct st_real *real = real_for(from, c);                                                      \
                                                                                                   \
    if (!real || !real->call.name)                                                                 \
    return st_no_nccl()

/* ---- operators ------------------------------------------------------------------------------- */

static nccl_abi_result in_RedOpCreatePreMulSum(struct st_from from, int *op, void *scalar,
                                               int dtype, int residence, void *comm)
{
    struct st_comm *c = st_comm_find(comm);

    REAL(RedOpCreatePreMulSum, c);
    return c && !st_passes(from, real)
               ? st_op_create(c, op, scalar, dtype, residence)
               : real->call.RedOpCreatePreMulSum(op, scalar, dtype, residence, comm);
}

static nccl_abi_result in_RedOpDestroy(struct st_from from, int op, void *comm)
{
    struct st_comm *c = st_comm_find(comm);

    REAL(RedOpDestroy, c);
    return c && !st_passes(from, real) ? st_op_destroy(c, op) : real->call.RedOpDestroy(op, comm);
}

/* ---- communicators --------------------------------------------------------------------------- */

static nccl_abi_result in_GetUniqueId(struct st_from from, struct nccl_abi_id *id)
{
    nccl_abi_result result;

    REAL(GetUniqueId, NULL);
    result = real->call.GetUniqueId(id);
    if (result == NCCL_ABI_SUCCESS && !st_passes(from, real))
        st_boxes_mark(real, id);
    return result;
}

/* Will the new communicator be blocking? If ${config} is NULL, a child is like its ${parent}, and a
 * communicator without a parent is blocking. Otherwise config->blocking decides: the communicator
 * is non-blocking only if the program has set this member to 0. */
static bool is_blocking(const void *config, const struct st_comm *parent)
{
    const struct nccl_abi_config *c = config;

    if (!c)
        return !parent || parent->blocking;
    return c->size < sizeof *c || c->blocking != 0;
}

/* NCCL ${real} is about to make a communicator. If the drop-in does not follow this copy, it will
 * not see the communicator's windows. */
static void windows_unseen(const struct st_real *real)
{
    if (real->index == ST_REALS)
        st_followers_window(real);
}

/* Return what the ${config} says about sharing resources. If it is NULL, a child is like its
 * ${parent}. NCCL looks only at the members that the config has. */
static struct st_sharing sharing_of(const void *config, const struct st_comm *parent)
{
    const struct nccl_abi_config_27 *c = config;
    struct st_sharing sharing = {false, false};

    if (!c)
        return parent ? parent->sharing : sharing;
    if (c->size >= offsetof(struct nccl_abi_config_27, traffic_class))
        sharing.split = c->split_share == 1;
    if (c->size >= offsetof(struct nccl_abi_config_27, nvls_ctas) && c->version >= 22700)
        sharing.shrink = c->shrink_share == 1;
    return sharing;
}

/* Enter the meeting (meet.h) of a communicator that NCCL is about to make. ${id} is NULL if NCCL
 * makes the communicator without an ncclUniqueId. */
static struct st_made making(struct st_from from, struct st_real *real, int ranks,
                             struct st_made made, const struct nccl_abi_id *id)
{
    windows_unseen(real);
    if (!st_passes(from, real) && id)
        made.mark = st_boxes_read(real, id);
    if (!st_passes(from, real))
        made.meet = st_made_enter(real, &made, ranks, 1);
    return made;
}

static nccl_abi_result made(struct st_from from, struct st_real *real, nccl_abi_result result,
                            struct st_made made)
{
    /* With NCCL_COMM_BLOCKING=0 the communicator is non-blocking, whatever its config says. We
     * notice that because NCCL returns ncclInProgress. */
    made.blocking &= result == NCCL_ABI_SUCCESS;
    made.parent_spans &= result == NCCL_ABI_SUCCESS;
    if (!st_passes(from, real) && (result == NCCL_ABI_SUCCESS || result == NCCL_ABI_IN_PROGRESS))
        st_made(real, &made, 1);
    else
        st_made_drop(&made, 1);
    return result;
}

static nccl_abi_result in_CommInitRank(struct st_from from, void **comm, int ranks,
                                       struct nccl_abi_id id, int rank)
{
    struct st_made m = {.comm = comm, .key = st_comm_key(&id, 1), .blocking = true};

    REAL(CommInitRank, NULL);
    m = making(from, real, ranks, m, &id);
    return made(from, real, real->call.CommInitRank(comm, ranks, id, rank), m);
}

static nccl_abi_result in_CommInitRankConfig(struct st_from from, void **comm, int ranks,
                                             struct nccl_abi_id id, int rank, void *config)
{
    struct st_made m = {.comm = comm,
                        .key = st_comm_key(&id, 1),
                        .blocking = is_blocking(config, NULL),
                        .sharing = sharing_of(config, NULL)};

    REAL(CommInitRankConfig, NULL);
    m = making(from, real, ranks, m, &id);
    return made(from, real, real->call.CommInitRankConfig(comm, ranks, id, rank, config), m);
}

static nccl_abi_result in_CommInitRankScalable(struct st_from from, void **comm, int ranks,
                                               int rank, int ids, struct nccl_abi_id *id,
                                               void *config)
{
    struct st_made m = {.comm = comm,
                        .key = id && ids > 0 ? st_comm_key(id, ids) : 0,
                        .blocking = is_blocking(config, NULL),
                        .sharing = sharing_of(config, NULL)};

    REAL(CommInitRankScalable, NULL);
    m = making(from, real, ranks, m, m.key ? id : NULL);
    return made(from, real, real->call.CommInitRankScalable(comm, ranks, rank, ids, id, config), m);
}

static nccl_abi_result in_CommInitAll(struct st_from from, void **comms, int n, const int *devices)
{
    struct st_made all[16];
    nccl_abi_result result;
    uint64_t key;

    REAL(CommInitAll, NULL);
    windows_unseen(real);
    result = real->call.CommInitAll(comms, n, devices);
    if (st_passes(from, real) || result != NCCL_ABI_SUCCESS)
        return result;
    key = st_comm_own_key();
    for (int i = 0; i < n && n <= 16; i++)
        all[i] = (struct st_made){.comm = &comms[i], .key = key, .blocking = true};
    if (n > 0 && n <= 16) {
        all[0].meet = st_made_enter(real, &all[0], n, n);
        st_made(real, all, n);
    }
    return result;
}

static nccl_abi_result in_CommSplit(struct st_from from, void *comm, int color, int key,
                                    void **child, void *config)
{
    struct st_comm *c = st_comm_find(comm);
    struct st_made m = {
        .comm = child, .blocking = is_blocking(config, c), .sharing = sharing_of(config, c)};

    REAL(CommSplit, c);
    if (c && !st_passes(from, real))
        m.key = st_comm_split_key(c, color), m.parent_spans = c->spans;
    if (c && c->sharing.split && !c->revoked) /* as in ncclCommInitChildComm (init.cc of 2.30.7) */
        m.family = c->family;
    if (color == NCCL_ABI_NO_COLOR)
        return real->call.CommSplit(comm, color, key, child, config);
    m = making(from, real, 0, m, NULL);
    return made(from, real, real->call.CommSplit(comm, color, key, child, config), m);
}

static nccl_abi_result in_CommShrink(struct st_from from, void *comm, int *without, int n,
                                     void **child, void *config, int flags)
{
    struct st_comm *c = st_comm_find(comm);
    struct st_made m = {
        .comm = child, .blocking = is_blocking(config, c), .sharing = sharing_of(config, c)};

    REAL(CommShrink, c);
    if (c && flags & NCCL_ABI_SHRINK_ABORT && !st_passes(from, real))
        st_life_abort(c);
    if (c && !st_passes(from, real))
        m.key = st_comm_shrink_key(c, without, n), m.parent_spans = c->spans;
    if (c && c->sharing.shrink && !(flags & NCCL_ABI_SHRINK_ABORT) && !c->revoked)
        m.family = c->family;
    m = making(from, real, 0, m, NULL);
    return made(from, real, real->call.CommShrink(comm, without, n, child, config, flags), m);
}

/* The new ranks were not in the parent, so there is no key that all ranks can compute. Without a
 * key, NCCL runs all calls of the communicator. */
static nccl_abi_result in_CommGrow(struct st_from from, void *comm, int ranks,
                                   const struct nccl_abi_id *id, int rank, void **child,
                                   void *config)
{
    struct st_comm *c = comm ? st_comm_find(comm) : NULL;

    REAL(CommGrow, c);
    return made(from, real, real->call.CommGrow(comm, ranks, id, rank, child, config),
                (struct st_made){.comm = child,
                                 .why = ST_WHY_UNFOLLOWED,
                                 .blocking = is_blocking(config, c),
                                 .sharing = sharing_of(config, c)});
}

static nccl_abi_result in_CommFinalize(struct st_from from, void *comm)
{
    struct st_comm *c = st_comm_find(comm);

    REAL(CommFinalize, c);
    if (c && !st_passes(from, real)) {
        if (!st_life_end(c))
            return NCCL_ABI_SUCCESS; /* as from NCCL if another thread aborts while NCCL waits */
        c->finalized = true;
    }
    return real->call.CommFinalize(comm);
}

/* Remove our record before NCCL frees the communicator, because a new communicator may then get the
 * same address. */
static nccl_abi_result in_CommDestroy(struct st_from from, void *comm)
{
    struct st_comm *c = st_comm_find(comm);

    REAL(CommDestroy, c);
    if (c && !st_passes(from, real)) {
        if (!st_life_end(c))
            return NCCL_ABI_SUCCESS; /* ncclCommAbort, in another thread, frees the communicator */
        st_comm_remove(c);
    }
    return real->call.CommDestroy(comm);
}

static nccl_abi_result in_CommAbort(struct st_from from, void *comm)
{
    struct st_comm *c = st_comm_find(comm);
    nccl_abi_result result;

    REAL(CommAbort, c);
    if (!c || st_passes(from, real))
        return real->call.CommAbort(comm);
    st_life_leave(c);
    result = real->call.CommAbort(comm);
    st_life_aborted(c, result == NCCL_ABI_SUCCESS);
    return result;
}

static nccl_abi_result in_CommRevoke(struct st_from from, void *comm, int flags)
{
    struct st_comm *c = st_comm_find(comm);

    REAL(CommRevoke, c);
    /* in all other cases NCCL refuses the call (init.cc of 2.30.7) */
    if (c && flags == NCCL_ABI_REVOKE_DEFAULT && !c->finalized && !c->revoked &&
        !st_passes(from, real)) {
        st_life_abort(c);
        c->revoked = true;
    }
    return real->call.CommRevoke(comm, flags);
}

/* If NCCL suspends this communicator, it runs all calls of it from now on. NCCL does nothing if it
 * returns an error, or without the flag. ncclCommSuspend releases only memory that NCCL itself uses
 * (mem_manager.cc of 2.30.7), not that of windows. So our kernels may run until NCCL has suspended
 * the communicator, and graphs with their calls still work afterwards. */
static nccl_abi_result in_CommSuspend(struct st_from from, void *comm, int flags)
{
    struct st_comm *c = st_comm_find(comm);
    nccl_abi_result result;

    REAL(CommSuspend, c);
    result = real->call.CommSuspend(comm, flags);
    /* another thread may have aborted the communicator meanwhile, so look again for its record */
    if (result == NCCL_ABI_SUCCESS && flags & NCCL_ABI_SUSPEND_MEMORY && !st_passes(from, real) &&
        c && st_comm_find(comm) == c)
        st_life_suspend(c);
    return result;
}

static nccl_abi_result in_CommGetAsyncError(struct st_from from, void *comm, int *error)
{
    struct st_comm *c = st_comm_find(comm);
    struct symtuner_ar *handle;
    nccl_abi_result result;

    REAL(CommGetAsyncError, c);
    result = real->call.CommGetAsyncError(comm, error);
    /* st_passes finds out whether NCCL itself makes this call. It does so in ncclCommAbort, which
     * would fail if we reported an error of our kernels. */
    if (!c || st_passes(from, real) || result != NCCL_ABI_SUCCESS || *error != NCCL_ABI_SUCCESS)
        return result;
    handle = st_life_hold(c); /* ncclCommFinalize in another thread waits for the release below */
    if (!handle)
        return result;
    if (c->kernels->status_(handle) != NCCL_ABI_SUCCESS)
        *error = NCCL_ABI_REMOTE_ERROR;
    st_life_release(c);
    return result;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* May our kernels use a window with these flags? Only with flags that we know: later releases may
 * have flags with which NCCL does not map the window for the other ranks, such as NCCL_WIN_GIN_ONLY
 * in 2.32. */
static bool suits_us(int flags)
{
    return (flags & ~NCCL_ABI_WINDOW_ORDERED) == NCCL_ABI_WINDOW_SYMMETRIC;
}

static nccl_abi_result in_CommWindowRegister(struct st_from from, void *comm, void *buffer,
                                             size_t bytes, void **window, int flags)
{
    struct st_comm *c = st_comm_find(comm);
    nccl_abi_result result;

    REAL(CommWindowRegister, c);
    if (flags & NCCL_ABI_WINDOW_SYMMETRIC && !st_passes(from, real))
        st_followers_window(real);
    result = real->call.CommWindowRegister(comm, buffer, bytes, window, flags);
    if (result == NCCL_ABI_SUCCESS && c && !st_passes(from, real) && suits_us(flags) &&
        atomic_load(&c->handle))
        st_seen(c, (struct st_seen){comm, buffer, bytes, window});
    return result;
}

static nccl_abi_result in_CommWindowDeregister(struct st_from from, void *comm, void *window)
{
    struct st_comm *c = st_comm_find(comm);

    REAL(CommWindowDeregister, c);
    if (c && !st_passes(from, real))
        st_window_forget(c, window);
    return real->call.CommWindowDeregister(comm, window);
}

/* ---- exported and looked-up functions -------------------------------------------------------- */

/* DEFINE(name, params, args) defines the exported function, and one more function for each copy of
 * NCCL. ${args} is (, a, b) for the arguments a and b, and () if there are none. */
#define ONE(linkage, symbol, name, params, args, where)                                            \
    linkage nccl_abi_result symbol params                                                          \
    {                                                                                              \
        return in_##name((struct st_from){where, __builtin_return_address(0)} UNPACK args);        \
    }
#define DEFINE(name, params, args)                                                                 \
    __attribute__((visibility("default"))) nccl_abi_result nccl##name params;                      \
    ONE(, nccl##name, name, params, args, NULL)                                                    \
    ONE(static, of0_##name, name, params, args, &st_reals[0])                                      \
    ONE(static, of1_##name, name, params, args, &st_reals[1])                                      \
    ONE(static, of2_##name, name, params, args, &st_reals[2])                                      \
    ONE(static, of3_##name, name, params, args, &st_reals[3])
_Static_assert(ST_REALS == 4, "one line per NCCL");

#define X(name) DEFINE(name, (void), ())
ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) DEFINE(name, params, (, UNPACK args))
ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args) DEFINE(name, params, (, UNPACK args))
ST_FORWARDED_MAP(X)
#undef X

/* One row for each NCCL function: our exported function, then one for each copy of NCCL. */
static void *const wrapper[ST_KNOWN][1 + ST_REALS] = {
#define ROW(name) {nccl##name, of0_##name, of1_##name, of2_##name, of3_##name},
#define X(name)   ROW(name)
    ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) ROW(name)
        ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args) ROW(name)
            ST_FORWARDED_MAP(X)
#undef X
};

void *st_wrapper(const struct st_real *real, int known)
{
    return wrapper[known][1 + real->index];
}

bool st_wrapper_is_export(const void *symbol, int known)
{
    return symbol == wrapper[known][0];
}
