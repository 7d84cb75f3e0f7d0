/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma_staged.cuh - what the kernels of chunked.cu do, with fewer blocks: TMA moves the data, and
 * most threads only add. The kernels need no registered buffer.
 *
 *   push    warp 0   chunk of in[shard o] -> shared -> slot at owner o; raise the REDUCE flag
 *   own     warp 1   await all REDUCE flags; my tile and those in my slots -> shared
 *           warps 4+ add them up
 *           warp 2   sum -> out, and -> every rank's gather slot (or recv, if the peers map it);
 *                    raise the GATHER flag
 *   fetch   warp 3   await the GATHER flag; chunk of my gather slot -> shared -> out
 *
 * The table shows an all-reduce. A reduce-scatter has no fetch and no GATHER flag. In an all-gather
 * there is nothing to add: each rank pushes its part to all peers, and fetches their parts after it
 * has seen their REDUCE flags. Reduce-scatter and all-gather end with a barrier, so that no rank
 * pushes data of the next call into a slot that a peer still reads. An all-reduce needs no such
 * barrier, because an owner raises its GATHER flags only after it has read its slots.
 *
 * In each of warps 0 to 3 one thread moves data. Warps 0 and 3 have a ring each; warps 1 and 2
 * share a ring with the warps that add. Flags count chunks. Before a thread raises a flag, it must
 * wait until its copies are complete. To wait less, it raises a flag for several chunks at a time,
 * and only for copies that it started some time ago. chunked.cu says why one set of slots is
 * enough, and why a call in place is safe.
 *
 * TMA needs addresses at multiples of 16 bytes. If this rank's in or out has another alignment,
 * threads load from it or store to it instead of TMA. Threads also load and store the last bytes of
 * a message. The other ranks need not know of this.
 */
#ifndef AR_TMA_STAGED_CUH_
#define AR_TMA_STAGED_CUH_

#include "kernels/device/tma/staged_fetch.cuh"
#include "kernels/device/tma/staged_own.cuh"
#include "kernels/device/tma/staged_push.cuh"

namespace ar
{

template <class R, int N, int Coll>
__global__ void __launch_bounds__(AR_TMA_THREADS, 1)
    tma_staged(const __grid_constant__ ar_args args)
{
    AR_SHARED(shared);
    const int warp = (int)threadIdx.x / 32;
    const bool lane0 = threadIdx.x % 32 == 0;
    char *const moves = shared + AR_TMA_SUMS * AR_TMA_TILES;
    uint64_t *const barriers = (uint64_t *)(shared + AR_TMA_STAGES * AR_TMA_TILES);
    volatile uint32_t *const stop = (volatile uint32_t *)(barriers + AR_TMA_BARRIERS / 8 - 1);
    const sum_ring sums = {shared, AR_TMA_TILES, barriers, barriers + AR_TMA_SUMS,
                           barriers + 2 * AR_TMA_SUMS};
    const move_ring out = {moves, AR_TMA_CHUNK, barriers + 3 * AR_TMA_SUMS, NULL, NULL};
    const move_ring in = {moves + AR_TMA_MOVES * AR_TMA_CHUNK, AR_TMA_CHUNK,
                          out.full_ + AR_TMA_MOVES, NULL, NULL};
    spin_limit wait;

    if (threadIdx.x == 0) {
        *stop = 0;
        for (int s = 0; s < AR_TMA_SUMS; s++) {
            barrier_init(sums.full_ + s, 1);
            barrier_init(sums.done_ + s, (int)blockDim.x / 32 - AR_TMA_STAGED_MOVERS);
            barrier_init(sums.free_ + s, 1);
        }
        for (int s = 0; s < 2 * AR_TMA_MOVES; s++)
            barrier_init(out.full_ + s, 1);
    }
    await_previous_kernel(args);

    call_counters counters(args);
    const staged_call<Coll> call(args, counters.epoch);
    const bool alive = !__syncthreads_or(counters.dead);

    stall(args, counters.epoch, 1 + warp);
    if (alive && warp == 0) {
        fence_async();
        push(call, out);
    } else if (alive && warp == 1 && lane0 && Coll != AR_ALL_GATHER) {
        fence_async();
        if (!own_load_all(call, sums, wait, stop))
            *stop = 1;
    } else if (alive && warp == 2 && lane0 && Coll != AR_ALL_GATHER) {
        fence_async();
        if (!own_store_all<R>(call, sums, wait, stop))
            *stop = 1;
    } else if (alive && warp == 3 && Coll != AR_REDUCE_SCATTER) {
        const bool fetches = Coll == AR_ALL_GATHER || args.staged;
        bool right = true;

        if (fetches && args.out_align != AR_WORD)
            right = fetch_slowly(call, wait);
        else if (fetches && lane0)
            right = fetch(call, in, wait);
        if (lane0 && !(right && fetch_tail(call, wait)))
            *stop = 1;
    } else if (alive && warp >= AR_TMA_STAGED_MOVERS) {
        if constexpr (Coll == AR_ALL_GATHER)
            keep_own(call);
        else
            add<R, N>(call, sums, stop);
    }
    counters.book_in(args);
#ifndef ST_BREAK_LEAVE
    if (Coll != AR_ALL_REDUCE && alive && *stop == 0) {
        raise_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1));
        await_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    counters.publish(args);
}

} // namespace ar

/* The kernels of reducer ${R} for any number of ranks; FAST also has those for 2 and 4 ranks. */
#define AR_TMA_STAGED_FAST(R, coll)                                                                \
    {                                                                                              \
        (const void *)&ar::tma_staged<R, 0, coll>, (const void *)&ar::tma_staged<R, 2, coll>,      \
            (const void *)&ar::tma_staged<R, 4, coll>                                              \
    }
#define AR_TMA_STAGED_SMALL(R, coll)                                                               \
    {                                                                                              \
        (const void *)&ar::tma_staged<R, 0, coll>                                                  \
    }

#endif
