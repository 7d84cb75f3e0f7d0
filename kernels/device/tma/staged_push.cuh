/* SPDX-License-Identifier: Apache-2.0 */
/* staged_push.cuh - warp 0 of tma_staged.cuh: it pushes chunks of send to this rank's slots at the
 * peers. */
#ifndef AR_TMA_STAGED_PUSH_CUH_
#define AR_TMA_STAGED_PUSH_CUH_

#include "kernels/device/tma/staged_call.cuh"

namespace ar
{

template <int Coll>
__device__ __forceinline__ void push_load(const move_ring &ring, const staged_job<Coll> &j)
{
    const uint32_t n = j.length();

    barrier_expect(ring.full(j.place), n);
    if (n != 0)
        bulk_load(ring.stage(j.place), j.c.in(j.peer()) + j.at, n, ring.full(j.place));
}

template <int Coll>
__device__ __forceinline__ void push_store(const move_ring &ring, const staged_job<Coll> &j)
{
    const uint32_t n = j.length();

    if (n != 0)
        bulk_store(j.c.slot(j.peer(), j.c.args.region, j.c.args.me) + j.at, ring.stage(j.place), n);
    bulk_commit();
}

/* Push all chunks of this block. All lanes of the warp call this. If TMA can load from send, only
 * lane 0 works. Otherwise all lanes load, and lane 0 does the rest. */
template <int Coll>
static __device__ __forceinline__ void push(const staged_call<Coll> &c, const move_ring &ring)
{
    constexpr uint32_t lag = AR_TMA_MOVES / 2;
    const int ranks = c.args.ranks;
    const bool aligned = c.args.in_align == AR_WORD, lane0 = threadIdx.x % 32 == 0;
    uint32_t jobs = 0, sent = 0, told = 0;
    staged_job<Coll> load(c);
    /* How many of the copies of chunk ${sent} are old enough for a flag, which means that at least
     * AR_TMA_PENDING copies were started after them. */
    int part = 0;

    if (aligned && !lane0)
        return;
    for (uint32_t ahead = 0; aligned && load.here() && ahead < AR_TMA_MOVES; ahead++, load.next())
        push_load(ring, load);
    for (staged_job<Coll> j(c); j.here(); j.next(), jobs++) {
        if (aligned) {
            barrier_wait(ring.full(j.place), j.place.parity);
        } else {
            if (lane0)
                bulk_wait_read<0>();
            __syncwarp(~0u);
            copy_in(ring.stage(j.place), c.in(j.peer()), j.at, j.length(), c.bytes(j.peer()),
                    c.args.in_align);
            fence_async();
            __syncwarp(~0u);
            if (!lane0)
                continue;
        }
        push_store(ring, j);
        if (aligned && jobs >= lag && load.here()) {
#ifndef ST_BREAK_STAGE
            bulk_wait_read<lag>();
#endif
            push_load(ring, load);
            load.next();
        }
        if (jobs < AR_TMA_PENDING)
            continue;
        if (++part == ranks - 1) {
            part = 0;
            sent++;
        }
        if (sent >= told + c.batch) {
#ifndef ST_BREAK_PENDING
            bulk_wait<AR_TMA_PENDING>();
#endif
            told = sent;
            c.raise(AR_FLAG_REDUCE, told);
        }
    }
    if (!lane0)
        return;
    bulk_wait<0>();
    for (int to = 0; to < ranks; to++)
        if (to != c.args.me && c.has_tail(to))
            store_bulk(c.slot(to, c.args.region, c.args.me) + c.whole(to),
                       as_word(load_payload(c.in(to), c.whole(to), c.bytes(to), c.args.in_align)));
    c.raise(AR_FLAG_REDUCE, c.chunks + 1);
}

} // namespace ar

#endif
