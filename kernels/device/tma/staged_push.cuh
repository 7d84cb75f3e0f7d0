/* SPDX-License-Identifier: Apache-2.0 */
/* staged_push.cuh - warp 0 of tma_staged.cuh: chunks of send to their owners' slots. */
#ifndef AR_TMA_STAGED_PUSH_CUH_
#define AR_TMA_STAGED_PUSH_CUH_

#include "kernels/device/tma/staged_call.cuh"

namespace ar
{

template <int Coll>
__device__ __forceinline__ void push_load(const staged_call<Coll> &c, const move_ring &ring,
                                          uint64_t j, const struct job &at)
{
    const int to = c.peer(at.i);
    const uint32_t n = c.length(to, c.offset(at.k), AR_TMA_CHUNK);

    barrier_expect(ring.full(j), n);
    if (n != 0)
        bulk_load(ring.stage(j), c.in(to) + c.offset(at.k), n, ring.full(j));
}

template <int Coll>
__device__ __forceinline__ void push_store(const staged_call<Coll> &c, const char *stage,
                                           const struct job &at)
{
    const int to = c.peer(at.i);
    const uint32_t n = c.length(to, c.offset(at.k), AR_TMA_CHUNK);

    if (n != 0)
        bulk_store(c.slot(to, c.args.region, c.args.me) + c.offset(at.k), stage, n);
    bulk_commit();
}

/* All lanes call it; lane 0 works, unless the threads must load. */
template <int Coll>
static __device__ __forceinline__ void push(const staged_call<Coll> &c, const move_ring &ring)
{
    constexpr int lag = AR_TMA_MOVES / 3;
    const int ranks = c.args.ranks;
    const bool aligned = c.args.in_align == AR_WORD, lane0 = threadIdx.x % 32 == 0;
    const uint64_t jobs = c.chunks * (uint64_t)(ranks - 1);
    uint64_t ahead = 0, sent = 0, told = 0;
    job load = {0, 1}, store = {0, 1};
    int part = 0; /* jobs of the next chunk that are complete */

    if (aligned && !lane0)
        return;
    for (; aligned && ahead < jobs && ahead < AR_TMA_MOVES; ahead++, load.next(ranks))
        push_load(c, ring, ahead, load);
    for (uint64_t j = 0; j < jobs; j++, store.next(ranks)) {
        if (aligned) {
            barrier_wait(ring.full(j), ring.parity(j));
        } else {
            const int to = c.peer(store.i);

            if (lane0)
                bulk_wait_read<0>();
            __syncwarp(~0u);
            copy_in(ring.stage(j), c.in(to), c.offset(store.k),
                    c.length(to, c.offset(store.k), AR_TMA_CHUNK), c.bytes(to), c.args.in_align);
            fence_async();
            __syncwarp(~0u);
            if (!lane0)
                continue;
        }
        push_store(c, ring.stage(j), store);
        if (ahead < jobs && j >= lag && aligned) {
#ifndef ST_BREAK_STAGE
            bulk_wait_read<lag>();
#endif
            push_load(c, ring, ahead, load);
            load.next(ranks);
            ahead++;
        }
        if (j < AR_TMA_PENDING)
            continue;
#ifndef ST_BREAK_PENDING
        bulk_wait<AR_TMA_PENDING>();
#endif
        if (++part == ranks - 1) {
            part = 0;
            sent++;
        }
        if (sent >= told + c.batch) {
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
