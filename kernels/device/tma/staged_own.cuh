/* SPDX-License-Identifier: Apache-2.0 */
/* staged_own.cuh - warp 1 of tma_staged.cuh, and the warps that add: my shard. */
#ifndef AR_TMA_STAGED_OWN_CUH_
#define AR_TMA_STAGED_OWN_CUH_

#include "kernels/device/tma/staged_call.cuh"

namespace ar
{

/* Which tile of my shard is the q-th: where it begins, and how many bytes it has, perhaps none. */
struct my_tile {
    uint64_t at;
    uint32_t bytes;

    template <int Coll>
    __device__ __forceinline__ my_tile(const staged_call<Coll> &c, uint64_t q, uint32_t tile)
    {
        const uint32_t parts = ar_tma_parts(c.args.ranks);

        at = c.offset(q >> parts) + (q & ((1u << parts) - 1)) * tile;
        bytes = c.length(c.args.me, at, tile);
    }
};

template <int Coll>
__device__ __forceinline__ void own_load(const staged_call<Coll> &c, const sum_ring &ring,
                                         uint64_t q, uint32_t tile)
{
    const my_tile t(c, q, tile);
    const bool mine = c.args.in_align == AR_WORD;

    barrier_expect(ring.full(q), t.bytes * (uint32_t)(c.args.ranks - !mine));
    for (int r = 0; r < c.args.ranks && t.bytes != 0; r++)
        if (r != c.args.me)
            bulk_load(ring.stage(q) + (uint32_t)r * tile,
                      c.slot(c.args.me, c.args.region, r) + t.at, t.bytes, ring.full(q));
        else if (mine)
            bulk_load(ring.stage(q) + (uint32_t)r * tile, c.in(c.args.me) + t.at, t.bytes,
                      ring.full(q));
}

template <int Coll>
__device__ __forceinline__ void own_store(const staged_call<Coll> &c, const sum_ring &ring,
                                          uint64_t q, uint32_t tile)
{
    const my_tile t(c, q, tile);
    const uint64_t shard = c.args.shard * (uint64_t)c.args.me; /* in every rank's recv */

    for (int i = 1; i < c.args.ranks && t.bytes != 0 && Coll == AR_ALL_REDUCE; i++) {
        int to = c.peer(i);

        bulk_store((c.args.staged ? c.slot(to, c.args.half, c.args.me) : c.args.dst[to] + shard) +
                       t.at,
                   ring.stage(q), t.bytes);
    }
    if (c.args.out_align == AR_WORD && t.bytes != 0)
        bulk_store(c.out(c.args.me) + t.at, ring.stage(q), t.bytes);
    bulk_commit();
}

/* Add up the last bytes of my shard. */
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

/* What lane 0 of warp 1 does. Returns false if the rank gave up, which ${stop} says of warp 2. */
template <class R, int Coll>
static __device__ __forceinline__ bool own(const staged_call<Coll> &c, const sum_ring &ring,
                                           spin_limit &wait, const volatile uint32_t *stop)
{
    constexpr int lag = AR_TMA_SUMS / 3;
    const uint32_t tile = ar_tma_tile(c.args.ranks), parts = ar_tma_parts(c.args.ranks);
    const uint64_t tiles = c.my_chunks() << parts;
    uint64_t loaded = 0, stored = 0, ready = 0, told = 0;
    uint32_t polls = 0;
    bool alive = true;

    while (alive && stored < tiles) {
        bool idle = true;

        if (loaded < tiles && loaded + lag < stored + AR_TMA_SUMS) {
#ifndef ST_BREAK_REDUCE
            bool here = loaded < ready;

            if (!here) {
                here = true;
                for (int i = 1; i < c.args.ranks; i++)
                    here = here && c.reached(AR_FLAG_REDUCE, c.peer(i), (loaded >> parts) + 1);
                if (here) {
                    fence_async();
                    ready = ((loaded >> parts) + 1) << parts;
                }
            }
            if (here)
#endif
            {
                if (loaded >= AR_TMA_SUMS)
                    bulk_wait_read<lag>();
                own_load(c, ring, loaded, tile);
                loaded++;
                idle = false;
            }
        }
        if (stored < loaded && barrier_has_ended(ring.done(stored), ring.parity(stored))) {
            own_store(c, ring, stored, tile);
            stored++;
            idle = false;
            if (stored > AR_TMA_PENDING) {
                bulk_wait<AR_TMA_PENDING>();
                if ((stored - AR_TMA_PENDING) >> parts >= told + c.batch) {
                    told = (stored - AR_TMA_PENDING) >> parts;
                    c.raise_sums(told);
                }
            }
        }
        if (idle && loaded == stored && stored >> parts > told) { /* waits for peers */
            bulk_wait<0>();
            told = stored >> parts;
            c.raise_sums(told);
        }
        if (idle) /* if warp 2 has given up, the warps that add may have left */
            alive = *stop == 0 && !give_up(c.args, polls, wait);
    }
    for (uint64_t q = stored; q < loaded; q++) /* gave up: no copy may outlive the block */
        barrier_wait(ring.full(q), ring.parity(q));
    bulk_wait<0>();
    if (alive && c.has_tail(c.args.me)) {
        for (int i = 1; i < c.args.ranks && alive; i++)
            alive = c.await(AR_FLAG_REDUCE, c.peer(i), c.chunks + 1, wait);
        if (alive)
            own_tail<R>(c);
    }
    if (alive)
        c.raise_sums(c.chunks + 1);
    return alive;
}

/* What the warps that add do. ${stop}: nothing more will come. */
template <class R, int N, int Coll>
static __device__ __forceinline__ void add(const staged_call<Coll> &c, const sum_ring &ring,
                                           const volatile uint32_t *stop)
{
    constexpr int batch = N ? N : 4;
    const ar_args &args = c.args;
    const int ranks = N ? N : args.ranks;
    const uint32_t tile = ar_tma_tile(ranks);
    const uint64_t tiles = c.my_chunks() << ar_tma_parts(ranks);
    const uint64_t end = c.bytes(args.me);

    for (uint64_t q = 0; q < tiles; q++) {
        const my_tile t(c, q, tile);
        char *stage = ring.stage(q);

        while (!barrier_ended(ring.full(q), ring.parity(q)))
            if (*stop != 0)
                return;
        for (uint32_t at = (threadIdx.x - 96) * AR_WORD; at < t.bytes;
             at += (blockDim.x - 96) * AR_WORD) {
            rank_sum<R, 2, N> sum;
            payload own, all;

            if (args.in_align != AR_WORD)
                own = load_payload(c.in(args.me), t.at + at, end, args.in_align);
            else
                own = as_payload(load_shared(stage + args.me * tile + at));
            for (int first = 0; first < ranks; first += batch) {
                payload v[batch];

#pragma unroll
                for (int i = 0; i < batch; i++) {
                    v[i] = own;
                    if (first + i < ranks && first + i != args.me)
                        v[i] = as_payload(load_shared(stage + (first + i) * tile + at));
                }
                sum.take(first, ranks, v, args.kind);
            }
            all = sum.finish(args);
            store_shared(stage + at, as_word(all));
            if (args.out_align != AR_WORD)
                store_payload(c.out(args.me), t.at + at, end, args.out_align, all);
        }
        fence_async();
        __syncwarp(~0u);
        if (threadIdx.x % 32 == 0)
            barrier_arrive(ring.done(q));
    }
}

} // namespace ar

#endif
