/* SPDX-License-Identifier: Apache-2.0 */
/* staged_own.cuh - warps 1 and 2 of tma_staged.cuh, and the warps that add: they load, add up and
 * store this rank's own shard. */
#ifndef AR_TMA_STAGED_OWN_CUH_
#define AR_TMA_STAGED_OWN_CUH_

#include "kernels/device/tma/staged_call.cuh"

namespace ar
{

/* A tile of this rank's shard: tile ${part} of the ${parts} tiles in the block's k-th chunk. */
template <int Coll> struct my_tile {
    const staged_call<Coll> &c;
    const uint32_t tile, parts;
    uint64_t chunk_at;
    uint32_t k = 0, part = 0;
    sum_ring::place place;

    __device__ __forceinline__ explicit my_tile(const staged_call<Coll> &c)
        : c(c), tile(ar_tma_tile(c.args.ranks)), parts(1u << ar_tma_parts(c.args.ranks)),
          chunk_at(c.first())
    {
    }
    __device__ __forceinline__ uint64_t at() const
    {
        return chunk_at + part * tile;
    }
    __device__ __forceinline__ uint32_t bytes() const /* returns 0 past the end of the shard */
    {
        return c.length(c.args.me, at(), tile);
    }
    __device__ __forceinline__ void next()
    {
        place.next();
        if (++part == parts) {
            part = 0;
            k++;
            chunk_at += c.step;
        }
    }
};

template <int Coll>
__device__ __forceinline__ void own_load(const sum_ring &ring, const my_tile<Coll> &t)
{
    const ar_args &args = t.c.args;
    const uint32_t n = t.bytes();
    const uint64_t at = t.at();
    const bool mine = args.in_align == AR_WORD;
    uint64_t *const full = ring.full(t.place);
    char *const stage = ring.stage(t.place);

    barrier_expect(full, n * (uint32_t)(args.ranks - !mine));
    for (int r = 0; r < args.ranks && n != 0; r++)
        if (r != args.me)
            bulk_load(stage + (uint32_t)r * t.tile, t.c.slot(args.me, args.region, r) + at, n,
                      full);
        else if (mine)
            bulk_load(stage + (uint32_t)r * t.tile, t.c.in(args.me) + at, n, full);
}

template <int Coll>
__device__ __forceinline__ void own_store(const sum_ring &ring, const my_tile<Coll> &t)
{
    const ar_args &args = t.c.args;
    const uint32_t n = t.bytes();
    const uint64_t at = t.at();

    for (int i = 1; i < args.ranks && n != 0 && Coll == AR_ALL_REDUCE; i++) {
        int to = t.c.peer(i);

        bulk_store((args.staged ? t.c.slot(to, args.half, args.me)
                                : args.dst[to] + args.shard * (uint64_t)args.me) +
                       at,
                   ring.stage(t.place), n);
    }
    if (args.out_align == AR_WORD && n != 0)
        bulk_store(t.c.out(args.me) + at, ring.stage(t.place), n);
    bulk_commit();
}

/* Wait until the phase of ${barrier} with this parity has ended. Returns false if another warp has
 * set *stop. */
__device__ __forceinline__ bool await_phase(uint64_t *barrier, uint32_t parity,
                                            const volatile uint32_t *stop)
{
    while (!barrier_ended(barrier, parity))
        if (*stop != 0)
            return false;
    return true;
}

/* Add up the last bytes of this rank's shard, which do not fill a word. */
template <class R, int Coll>
static __device__ __noinline__ void own_tail(const staged_call<Coll> &c)
{
    const ar_args &args = c.args;
    const uint64_t shard = args.shard * args.me, at = c.whole(args.me), end = c.bytes(args.me);
    rank_sum<R, 2, 0> sum;
    payload v[4], own = load_payload(c.in(args.me), at, end, args.in_align), all;

    for (int first = 0; first < args.ranks; first += 4) {
        for (int i = 0; i < 4; i++)
            if (first + i < args.ranks)
                v[i] = first + i == args.me
                           ? own
                           : as_payload(load_bulk(c.slot(args.me, args.region, first + i) + at));
        sum.take(first, args.ranks, v, args.kind);
    }
    all = sum.finish(args);
    store_payload(c.out(args.me), at, end, args.out_align, all);
    for (int i = 1; i < args.ranks && Coll == AR_ALL_REDUCE; i++)
        if (args.staged)
            store_bulk(c.slot(c.peer(i), args.half, args.me) + at, as_word(all));
        else
            store_payload(args.dst[c.peer(i)] + shard, at, end, AR_WORD, all);
}

/* What lane 0 of warp 1 does: load tiles once the peers' flags are up. Returns false if the rank
 * gave up waiting; the caller then sets *stop to tell the other warps. */
template <int Coll>
static __device__ __forceinline__ bool own_load_all(const staged_call<Coll> &c,
                                                    const sum_ring &ring, spin_limit &wait,
                                                    const volatile uint32_t *stop)
{
    const uint32_t chunks = c.my_chunks();
    uint32_t loaded = 0, ready = 0, polls = 0;
    my_tile<Coll> t(c), back(c); /* ${back}: the oldest tile that may still be on its way */
    bool alive = true;

    while (alive && t.k < chunks) {
#ifndef ST_BREAK_REDUCE
        if (t.k >= ready) {
            do {
                ready = c.reached(AR_FLAG_REDUCE);
                alive = t.k < ready || (*stop == 0 && !give_up(c.args, polls, wait));
            } while (alive && t.k >= ready);
            fence_async(); /* so that later bulk copies see the data that the flags announced */
        }
#endif
        alive = alive &&
                (loaded < ring.stages || await_phase(ring.free(t.place), t.place.parity ^ 1, stop));
        if (!alive)
            break;
        own_load(ring, t);
        t.next();
        if (++loaded > ring.stages)
            back.next();
    }
    for (uint32_t i = 0; i < loaded && i < ring.stages; i++, back.next())
        barrier_wait(ring.full(back.place), back.place.parity); /* no copy may outlive the block */
    return alive;
}

/* What lane 0 of warp 2 does: store the sums, and tell the peers. A stage is free when the copies
 * out of it have read it. To wait less, the thread checks this only ${lag} tiles later. Returns
 * false if the rank gave up waiting. */
template <class R, int Coll>
static __device__ __forceinline__ bool own_store_all(const staged_call<Coll> &c,
                                                     const sum_ring &ring, spin_limit &wait,
                                                     const volatile uint32_t *stop)
{
    constexpr uint32_t lag = AR_TMA_SUMS / 3;
    const uint32_t chunks = c.my_chunks(), parts = ar_tma_parts(c.args.ranks);
    uint32_t stored = 0, told = 0;
    sum_ring::place old;
    my_tile<Coll> t(c);
    bool alive = true;

    while (alive && t.k < chunks) {
        uint32_t polls = 0;

        while (polls < AR_TMA_PATIENCE && !barrier_has_ended(ring.done(t.place), t.place.parity))
            polls++;
        if (polls == AR_TMA_PATIENCE) {
            if (stored >> parts > told) { /* no sum is ready: use the time to tell the peers */
                bulk_wait<0>();
                told = stored >> parts;
                c.raise_sums(told);
            }
            alive = await_phase(ring.done(t.place), t.place.parity, stop);
            if (!alive)
                break;
        }
        own_store(ring, t);
        t.next();
        stored++;
        if (stored > lag) {
            bulk_wait_read<lag>();
            barrier_arrive(ring.free(old));
            old.next();
        }
        if (stored > AR_TMA_PENDING && (stored - AR_TMA_PENDING) >> parts >= told + c.batch) {
            bulk_wait<AR_TMA_PENDING>();
            told = (stored - AR_TMA_PENDING) >> parts;
            c.raise_sums(told);
        }
    }
    bulk_wait<0>();
    if (alive && c.has_tail(c.args.me)) {
        alive = c.await(AR_FLAG_REDUCE, c.chunks + 1, wait) != 0;
        if (alive)
            own_tail<R>(c);
    }
    if (alive)
        c.raise_sums(c.chunks + 1);
    return alive;
}

/* The work of the warps that add. If *stop is not 0, no more tiles will come. */
template <class R, int N, int Coll>
static __device__ __forceinline__ void add(const staged_call<Coll> &c, const sum_ring &ring,
                                           const volatile uint32_t *stop)
{
    constexpr int batch = N ? N : 4;
    const ar_args &args = c.args;
    const int ranks = N ? N : args.ranks;
    const uint32_t chunks = c.my_chunks(), width = c.adders() * AR_WORD;
    const uint64_t end = c.bytes(args.me);

    for (my_tile<Coll> t(c); t.k < chunks; t.next()) {
        char *const stage = ring.stage(t.place);
        const uint32_t n = t.bytes();

        if (!await_phase(ring.full(t.place), t.place.parity, stop))
            return;
        for (uint32_t at = c.adder() * AR_WORD; at < n; at += width) {
            rank_sum<R, 2, N> sum;
            payload own, all;

            if (args.in_align != AR_WORD)
                own = load_payload(c.in(args.me), t.at() + at, end, args.in_align);
            else
                own = as_payload(load_shared(stage + args.me * t.tile + at));
            for (int first = 0; first < ranks; first += batch) {
                payload v[batch];

#pragma unroll
                for (int i = 0; i < batch; i++) {
                    v[i] = own;
                    if (first + i < ranks && first + i != args.me)
                        v[i] = as_payload(load_shared(stage + (first + i) * t.tile + at));
                }
                sum.take(first, ranks, v, args.kind);
            }
            all = sum.finish(args);
            store_shared(stage + at, as_word(all));
            if (args.out_align != AR_WORD)
                store_payload(c.out(args.me), t.at() + at, end, args.out_align, all);
        }
        fence_async_shared();
        __syncwarp(~0u);
        if (threadIdx.x % 32 == 0)
            barrier_arrive(ring.done(t.place));
    }
}

} // namespace ar

#endif
