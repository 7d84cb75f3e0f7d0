/* SPDX-License-Identifier: Apache-2.0 */
/* staged_fetch.cuh - warp 3 of tma_staged.cuh: it copies chunks from scratch to recv. In an
 * all-gather, the warps from warp 4 on copy this rank's own part. */
#ifndef AR_TMA_STAGED_FETCH_CUH_
#define AR_TMA_STAGED_FETCH_CUH_

#include "kernels/device/tma/staged_call.cuh"

namespace ar
{

/* Start to load a chunk whose flag is up. */
template <int Coll>
__device__ __forceinline__ void fetch_load(const move_ring &ring, const staged_job<Coll> &j)
{
    const uint32_t n = j.length();

    barrier_expect(ring.full(j.place), n);
    if (n != 0)
        bulk_load(ring.stage(j.place), j.c.fetched(j.peer()) + j.at, n, ring.full(j.place));
}

/* Fetch all chunks by TMA. Only lane 0 calls this. Returns false if the rank gave up waiting. */
template <int Coll>
static __device__ __forceinline__ bool fetch(const staged_call<Coll> &c, const move_ring &ring,
                                             spin_limit &wait)
{
    constexpr uint32_t lag = AR_TMA_MOVES / 3;
    uint32_t ahead = 0, done = 0, ready = 0;
    staged_job<Coll> load(c), store(c);
    bool alive = true;

    while (alive ? store.here() : done < ahead) {
        if (alive && load.here() && ahead + lag < done + AR_TMA_MOVES &&
            (ahead == done || !barrier_has_ended(ring.full(store.place), store.place.parity))) {
#ifndef ST_BREAK_GATHER
            if (load.k >= ready) {
                ready = c.await(c.fetch_flag, load.k + 1, wait);
                alive = ready != 0;
                fence_async(); /* so that later bulk copies see the data that the flags announced */
            }
#endif
            if (alive) {
                if (ahead >= AR_TMA_MOVES)
                    bulk_wait_read<lag>();
                fetch_load(ring, load);
                load.next();
                ahead++;
            }
            continue;
        }
        barrier_wait(ring.full(store.place), store.place.parity);

        const uint32_t n = store.length();

        if (n != 0)
            bulk_store(c.out(store.peer()) + store.at, ring.stage(store.place), n);
        bulk_commit();
        store.next();
        done++;
    }
    bulk_wait<0>();
    return alive;
}

/* Fetch all chunks by loads and stores; used if recv is not aligned for TMA. All lanes of the warp
 * call this. Returns false if the rank gave up waiting. */
template <int Coll>
static __device__ __noinline__ bool fetch_slowly(const staged_call<Coll> &c, spin_limit &wait)
{
    for (staged_job<Coll> j(c); j.here(); j.next()) {
        bool here = true;

        if (j.i == 1 && threadIdx.x % 32 == 0)
            here = c.await(c.fetch_flag, j.k + 1, wait) != 0;
        if (!__all_sync(~0u, here))
            return false;
        copy_out(c.out(j.peer()), c.fetched(j.peer()), j.at, j.length(), c.bytes(j.peer()),
                 c.args.out_align);
    }
    return true;
}

/* Wait for the peers' last flags, and fetch the last bytes. Returns false if the rank gave up
 * waiting. */
template <int Coll>
static __device__ __forceinline__ bool fetch_tail(const staged_call<Coll> &c, spin_limit &wait)
{
    if (c.await(c.fetch_flag, c.chunks + 1, wait) == 0)
        return false;
    for (int i = 1; i < c.args.ranks; i++) {
        const int from = c.peer(i);

        if ((Coll == AR_ALL_GATHER || c.args.staged) && c.has_tail(from))
            store_payload(c.out(from), c.whole(from), c.bytes(from), c.args.out_align,
                          as_payload(load_bulk(c.fetched(from) + c.whole(from))));
    }
    return true;
}

/* Copy this rank's part of an all-gather to recv, unless it is there already. All warps from warp 4
 * on call this. */
template <int Coll> static __device__ __forceinline__ void keep_own(const staged_call<Coll> &c)
{
    const char *from = c.in(c.args.me);
    char *to = c.out(c.args.me);
    const uint64_t end = c.bytes(c.args.me);

    uint64_t next = c.first();

    for (uint32_t k = 0; from != to && k <= c.chunks; k++, next += c.step) {
        const bool tail = k == c.chunks;
        const uint64_t first = tail ? c.whole(c.args.me) : next;
        const uint32_t n = tail ? c.has_tail(c.args.me) : c.length(c.args.me, first, AR_TMA_CHUNK);

        for (uint32_t at = c.adder() * AR_WORD; at < n; at += c.adders() * AR_WORD)
            store_payload(to, first + at, end, c.args.out_align,
                          load_payload(from, first + at, end, c.args.in_align));
    }
}

} // namespace ar

#endif
