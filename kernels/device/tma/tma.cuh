/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma.cuh - pull.cuh's kernels for few blocks: TMA moves the data, and the threads only add.
 *
 *   thread 0      loads tile k of every rank's send into stage k of a ring in shared memory
 *   other warps   add up the stage's tiles, rank by rank as in reduce.cuh; the sum replaces rank
 *                 0's tile
 *   thread 0      stores the sum to every rank's recv, and refills the stage
 *
 * That is an all-reduce, in which each rank adds up its shard. In a reduce-scatter the shard is the
 * part of this rank, and the sum goes to its own recv only. In an all-gather nothing is added, and
 * thread 0 moves this rank's part without the other threads. TMA needs addresses at multiples of 16
 * bytes. Where this rank's own buffer has another alignment, the other warps load or store it.
 *
 * Both barriers are those of pull.cuh. The kernels work in place for the same reason as there: only
 * the owner of a shard touches the shard, and it loads a tile before it stores the sum. With 12
 * stages a block keeps up to 96 KiB of a peer's data in flight.
 */
#ifndef AR_TMA_CUH_
#define AR_TMA_CUH_

#include "kernels/device/pull.cuh"
#include "kernels/device/tma/tma_ptx.cuh"

namespace ar
{

using add_ring = tma_ring<AR_TMA_STAGES>;

/* The tiles that this block moves, of a collective ${Coll}. */
template <int Coll> struct tma_tiles {
    const ar_args &args;
    uint64_t first, bytes, count; /* ${bytes} of every rank's buffer, from ${first} on */
    uint32_t tile;

    __device__ __forceinline__ tma_tiles(const ar_args &args, uint64_t first, uint64_t bytes)
        : args(args), first(first), bytes(bytes),
          tile(Coll == AR_ALL_GATHER ? AR_TMA_TILES : ar_tma_tile(args.ranks))
    {
        count = ar_tma_count(bytes, tile, (int)blockIdx.x, (int)gridDim.x);
    }
    __device__ __forceinline__ uint64_t offset(uint64_t k) const
    {
        return (k * gridDim.x + blockIdx.x) * tile;
    }
    __device__ __forceinline__ uint32_t length(uint64_t k) const
    {
        uint64_t left = bytes - offset(k);

        return left < tile ? (uint32_t)left : tile;
    }
    __device__ __forceinline__ int peer(int i) const
    {
        return args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;
    }
    /* Whether thread 0 needs no other thread: nothing is added, and TMA can load send. */
    __device__ __forceinline__ bool moves_alone() const
    {
        return Coll == AR_ALL_GATHER && args.in_align == AR_WORD;
    }

    __device__ __forceinline__ void load(const add_ring &ring, uint64_t k) const
    {
        const uint32_t n = length(k);

        if (Coll == AR_ALL_GATHER) {
            barrier_expect(ring.full(k), moves_alone() ? n : 0); /* 0: the threads fill it */
            if (moves_alone())
                bulk_load(ring.stage(k), args.in + offset(k), n, ring.full(k));
            return;
        }
        barrier_expect(ring.full(k), n * (uint32_t)args.ranks);
        for (int i = 1; i <= args.ranks; i++) { /* the peers' tiles take longer: they come first */
            int r = peer(i);

            bulk_load(ring.stage(k) + (uint32_t)r * tile, args.src[r] + first + offset(k), n,
                      ring.full(k));
        }
    }
    __device__ __forceinline__ void store(const add_ring &ring, uint64_t k) const
    {
        if constexpr (Coll == AR_REDUCE_SCATTER) {
            if (args.out_align == AR_WORD) /* else the threads have stored it */
                bulk_store(args.out + offset(k), ring.stage(k), length(k));
        } else {
            for (int i = 1; i <= args.ranks; i++) {
                int r = peer(i);

                if (Coll != AR_ALL_GATHER ||
                    args.dst[r] != args.in) /* else in place: it is there */
                    bulk_store(args.dst[r] + first + offset(k), ring.stage(k), length(k));
            }
        }
    }
};

/* What thread 0 does. A stage is filled again when the copies out of it have read it, which is
 * known ${lag} tiles later without waiting. */
template <int Coll>
__device__ __forceinline__ void move_tiles(const tma_tiles<Coll> &t, const add_ring &ring)
{
    constexpr int lag = 2;

    for (uint64_t k = 0; k < t.count && k < AR_TMA_STAGES; k++)
        t.load(ring, k);
    for (uint64_t k = 0; k < t.count; k++) {
#ifndef ST_BREAK_DONE
        barrier_wait(t.moves_alone() ? ring.full(k) : ring.done(k), ring.parity(k));
#endif
        t.store(ring, k);
        bulk_commit();
        if (k >= lag && k - lag + AR_TMA_STAGES < t.count) {
#ifndef ST_BREAK_STAGE
            bulk_wait_read<lag>();
#endif
            t.load(ring, k - lag + AR_TMA_STAGES);
        }
    }
    bulk_wait<0>();
}

template <class R, int N>
__device__ __forceinline__ payload add_word(const ar_args &args, const char *stage, uint32_t tile,
                                            uint32_t at)
{
    constexpr int batch = N ? N : 4;
    const int ranks = N ? N : args.ranks;
    rank_sum<R, 2, N> sum;

    for (int first = 0; first < ranks; first += batch) {
        payload v[batch];

#pragma unroll
        for (int i = 0; i < batch; i++)
            if (first + i < ranks)
                v[i] = as_payload(load_shared(stage + (first + i) * tile + at));
        sum.take(first, ranks, v, args.kind);
    }
    return sum.finish(args);
}

/* What the warps behind the first one do. */
template <class R, int N, int Coll>
__device__ __forceinline__ void add_tiles(const tma_tiles<Coll> &t, const add_ring &ring)
{
    const ar_args &args = t.args;

    for (uint64_t k = 0; k < t.count && !t.moves_alone(); k++) {
        char *stage = ring.stage(k);
        const uint32_t n = t.length(k);

#ifndef ST_BREAK_FULL
        barrier_wait(ring.full(k), ring.parity(k));
#endif
        for (uint32_t at = (threadIdx.x - 32) * AR_WORD; at < n;
             at += (blockDim.x - 32) * AR_WORD) {
            payload v;

            if constexpr (Coll == AR_ALL_GATHER)
                v = load_payload(args.in, t.offset(k) + at, t.bytes, args.in_align);
            else
                v = add_word<R, N>(args, stage, t.tile, at);
            if (Coll == AR_REDUCE_SCATTER && args.out_align != AR_WORD)
                store_payload(args.out, t.offset(k) + at, t.bytes, args.out_align, v);
            else
                store_shared(stage + at, as_word(v));
        }
        fence_async(); /* the copies that follow must see what the threads have stored */
        __syncwarp(~0u);
        if (threadIdx.x % 32 == 0)
            barrier_arrive(ring.done(k));
    }
}

template <class R, int N, int Coll>
__global__ void __launch_bounds__(AR_TMA_THREADS, 1) tma(const __grid_constant__ ar_args args)
{
    AR_SHARED(shared);
    const bool cut = Coll == AR_ALL_REDUCE; /* into shards; parts are whole words */
    const uint64_t first = cut ? args.shard * (uint64_t)args.me : 0;
    const uint64_t mine = cut ? ar_shard_bytes(args.bytes, args.shard, args.me) : args.bytes;
    const tma_tiles<Coll> tiles(args, first, mine / AR_WORD * AR_WORD);
    uint64_t *const barriers = (uint64_t *)(shared + AR_TMA_STAGES * AR_TMA_TILES);
    const add_ring ring = {shared, AR_TMA_TILES, barriers, barriers + AR_TMA_STAGES};
    spin_limit wait;

    if (threadIdx.x == 0)
        ring.init((int)blockDim.x / 32 - 1);
    await_previous_kernel(args);

    call_counters counters(args);
    const bool alive = enter(args, counters, wait);

    stall(args, counters.epoch, 2);
    if (alive && threadIdx.x == 0) {
        fence_async(); /* what the peers' flags said is ready must be seen by the copies, too */
        move_tiles(tiles, ring);
    } else if (alive && threadIdx.x >= 32) {
        add_tiles<R, N>(tiles, ring);
    }
    if constexpr (cut)
        if (alive && blockIdx.x == 0 && threadIdx.x == 1 && mine % AR_WORD != 0) {
            uint64_t at = first + mine / AR_WORD * AR_WORD; /* of the last bytes */

            spread<R>::store(args, at, first + mine,
                             spread<R>::load_reduce(args, at, first + mine));
        }
    leave(args, counters, alive, wait);
}

} // namespace ar

/* The kernels of one reducer. */
#define AR_TMA_FAST(R, coll)                                                                       \
    {                                                                                              \
        (const void *)&ar::tma<R, 0, coll>, (const void *)&ar::tma<R, 2, coll>,                    \
            (const void *)&ar::tma<R, 4, coll>                                                     \
    }
#define AR_TMA_SMALL(R, coll)                                                                      \
    {                                                                                              \
        (const void *)&ar::tma<R, 0, coll>                                                         \
    }

#endif
