/* SPDX-License-Identifier: Apache-2.0 */
/* staged_fetch.cuh - warp 2 of tma_staged.cuh: chunks of scratch to recv; in an all-gather also
 * the warps behind it. */
#ifndef AR_TMA_STAGED_FETCH_CUH_
#define AR_TMA_STAGED_FETCH_CUH_

#include "kernels/device/tma/staged_call.cuh"

namespace ar
{

/* Start to load a chunk once its flag is up; returns false if the rank gave up. */
template <int Coll>
__device__ __forceinline__ bool fetch_load(const staged_call<Coll> &c, const move_ring &ring,
                                           uint64_t j, const struct job &at, spin_limit &wait)
{
    const int from = c.peer(at.i);
    const uint32_t n = c.length(from, c.offset(at.k), AR_TMA_CHUNK);

#ifndef ST_BREAK_GATHER
    if (n != 0 && !c.await(c.fetch_flag, from, at.k + 1, wait))
        return false;
#endif
    fence_async();
    barrier_expect(ring.full(j), n);
    if (n != 0)
        bulk_load(ring.stage(j), c.fetched(from) + c.offset(at.k), n, ring.full(j));
    return true;
}

/* Fetch all chunks by TMA, in lane 0 only. Returns false if the rank gave up. */
template <int Coll>
static __device__ __forceinline__ bool fetch(const staged_call<Coll> &c, const move_ring &ring,
                                             spin_limit &wait)
{
    constexpr int lag = AR_TMA_MOVES / 3;
    const int ranks = c.args.ranks;
    const uint64_t jobs = c.chunks * (uint64_t)(ranks - 1);
    uint64_t ahead = 0, done = 0;
    job load = {0, 1}, store = {0, 1};
    bool alive = true;

    while (done < (alive ? jobs : ahead)) {
        const bool room = alive && ahead < jobs && ahead + lag < done + AR_TMA_MOVES;

        if (room && (ahead == done || !barrier_has_ended(ring.full(done), ring.parity(done)))) {
            if (ahead >= AR_TMA_MOVES)
                bulk_wait_read<lag>();
            alive = fetch_load(c, ring, ahead, load, wait);
            ahead += alive;
            load.next(ranks);
            continue;
        }
        barrier_wait(ring.full(done), ring.parity(done));

        const int from = c.peer(store.i);
        const uint32_t n = c.length(from, c.offset(store.k), AR_TMA_CHUNK);

        if (n != 0)
            bulk_store(c.out(from) + c.offset(store.k), ring.stage(done), n);
        bulk_commit();
        store.next(ranks);
        done++;
    }
    bulk_wait<0>();
    return alive;
}

/* Fetch them by loads and stores, because out is not aligned. All lanes of the warp call it. */
template <int Coll>
static __device__ __noinline__ bool fetch_slowly(const staged_call<Coll> &c, spin_limit &wait)
{
    for (uint64_t k = 0; k < c.chunks; k++)
        for (int i = 1; i < c.args.ranks; i++) {
            const int from = c.peer(i);
            const uint32_t n = c.length(from, c.offset(k), AR_TMA_CHUNK);
            bool here = true;

            if (n != 0 && threadIdx.x % 32 == 0)
                here = c.await(c.fetch_flag, from, k + 1, wait);
            if (!__all_sync(~0u, here))
                return false;
            copy_out(c.out(from), c.fetched(from), c.offset(k), n, c.bytes(from), c.args.out_align);
        }
    return true;
}

/* Wait for the peers' last flags, and fetch the last bytes. */
template <int Coll>
static __device__ __forceinline__ bool fetch_tail(const staged_call<Coll> &c, spin_limit &wait)
{
    for (int i = 1; i < c.args.ranks; i++) {
        const int from = c.peer(i);

        if (!c.await(c.fetch_flag, from, c.chunks + 1, wait))
            return false;
        if ((Coll == AR_ALL_GATHER || c.args.staged) && c.has_tail(from))
            store_payload(c.out(from), c.whole(from), c.bytes(from), c.args.out_align,
                          as_payload(load_bulk(c.fetched(from) + c.whole(from))));
    }
    return true;
}

/* Copy this rank's part of an all-gather to recv, unless it is there already. All warps from the
 * fourth on call it. */
template <int Coll> static __device__ __forceinline__ void keep_own(const staged_call<Coll> &c)
{
    const char *from = c.in(c.args.me);
    char *to = c.out(c.args.me);
    const uint64_t end = c.bytes(c.args.me);

    for (uint64_t k = 0; from != to && k <= c.chunks; k++) {
        const bool tail = k == c.chunks;
        const uint64_t first = tail ? c.whole(c.args.me) : c.offset(k);
        const uint32_t n = tail ? c.has_tail(c.args.me) : c.length(c.args.me, first, AR_TMA_CHUNK);

        for (uint32_t at = (threadIdx.x - 96) * AR_WORD; at < n; at += (blockDim.x - 96) * AR_WORD)
            store_payload(to, first + at, end, c.args.out_align,
                          load_payload(from, first + at, end, c.args.in_align));
    }
}

} // namespace ar

#endif
