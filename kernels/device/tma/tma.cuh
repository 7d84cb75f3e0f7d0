/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma.cuh - what the kernels of pull.cuh do, with fewer blocks: TMA moves the data, and the threads
 * only add.
 *
 *   warp 0        loads tile k of every rank's send into stage k of a ring in shared memory
 *   warps 2+      add up the stage's tiles, rank by rank as in reduce.cuh; the sum replaces rank
 *                 0's tile. Two teams of warps take turns, so that two tiles are added up at a time
 *   warp 1        stores the sum to every rank's recv, and hands the stage back to warp 0
 *
 * In each of warps 0 and 1 one thread works. The table shows an all-reduce, in which each rank adds
 * up its shard. In a reduce-scatter the shard is the part of this rank, and the sum goes to this
 * rank's recv only. In an all-gather nothing is added, and warps 0 and 1 move this rank's part
 * without the other warps. TMA needs addresses at multiples of 16 bytes. If a buffer of this rank
 * has another alignment, warps 2+ load from that buffer or store to it.
 *
 * The barriers at the start and at the end are those of pull.cuh. A call in place is safe: only the
 * owner of a shard reads or writes the shard, and it loads a tile before it stores the sum.
 *
 * A block moves a tile in about 0.4 us, so each thread that moves data has only a few hundred
 * cycles for a tile. That is why the next tile and stage are found by addition, not by division.
 */
#ifndef AR_TMA_CUH_
#define AR_TMA_CUH_

#include "kernels/device/pull.cuh"
#include "kernels/device/tma/tma_ptx.cuh"

namespace ar
{

using add_ring = tma_ring<AR_TMA_STAGES>;

/* The addresses of the buffers, which the host passes in args. src(i, r) and dst(i, r) return where
 * send and recv of rank ${r} are mapped; rank ${r} is the i-th rank after this one. This struct
 * uses only ${r}, and found_buffers in tma_ipc.cuh uses only ${i}. */
struct told_buffers {
    const ar_args &args;

    __device__ __forceinline__ const char *src(int, int r) const
    {
        return args.src[r];
    }
    __device__ __forceinline__ char *dst(int, int r) const
    {
        return args.dst[r];
    }
};

/* The tiles that this block moves in a collective ${Coll}. In an all-reduce they are tiles of this
 * rank's shard. The last bytes of the shard are in no tile if they do not fill a word. */
template <int Coll> struct tma_tiles {
    static constexpr bool cut = Coll == AR_ALL_REDUCE; /* whether the message is cut into shards */
    const ar_args &args;
    const uint64_t first, mine, bytes; /* this rank handles ${mine} bytes of every rank's buffer,
                                          from ${first} on; the first ${bytes} are in tiles */
    const uint32_t tile;
    uint32_t count;

    __device__ __forceinline__ explicit tma_tiles(const ar_args &args)
        : args(args), first(cut ? args.shard * (uint64_t)args.me : 0),
          mine(cut ? ar_shard_bytes(args.bytes, args.shard, args.me) : args.bytes),
          bytes(mine / AR_WORD * AR_WORD), tile(ar_tma_tile_of(Coll, args.ranks))
    {
        count = (uint32_t)ar_tma_count(bytes, tile, (int)blockIdx.x, (int)gridDim.x);
    }
    __device__ __forceinline__ int peer(int i) const
    {
        return args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;
    }
    /* Return whether warps 0 and 1 work without the other warps: nothing is added, and TMA can load
     * from send. */
    __device__ __forceinline__ bool moves_alone() const
    {
        return Coll == AR_ALL_GATHER && args.in_align == AR_WORD;
    }
};

/* One tile of tma_tiles: where it begins, how long it is, and its place in the ring. */
template <int Coll> struct tma_tile {
    const tma_tiles<Coll> &all;
    uint64_t at;
    uint32_t k;
    add_ring::place place;

    __device__ __forceinline__ explicit tma_tile(const tma_tiles<Coll> &all)
        : all(all), at((uint64_t)blockIdx.x * all.tile), k(0)
    {
    }
    __device__ __forceinline__ bool here() const
    {
        return k < all.count;
    }
    __device__ __forceinline__ uint32_t length() const
    {
        return all.bytes - at < all.tile ? (uint32_t)(all.bytes - at) : all.tile;
    }
    __device__ __forceinline__ void skip(uint32_t tiles)
    {
        k += tiles;
        at += (uint64_t)tiles * gridDim.x * all.tile;
        place.skip(tiles);
    }
    __device__ __forceinline__ void next()
    {
        skip(1);
    }
};

/* Start to load one tile of every rank. ${N}: the number of ranks; 0: any. */
template <int Coll, int N, class At>
__device__ __forceinline__ void load_tile(const add_ring &ring, const tma_tile<Coll> &t,
                                          const At &buffers)
{
    const tma_tiles<Coll> &all = t.all;
    const ar_args &args = all.args;
    const uint32_t n = t.length();
    const int ranks = N ? N : args.ranks;
    uint64_t *const full = ring.full(t.place);
    char *const stage = ring.stage(t.place);

    if (Coll == AR_ALL_GATHER) {
        barrier_expect(full, all.moves_alone() ? n : 0); /* no bytes if threads fill the stage */
        if (all.moves_alone())
            bulk_load(stage, args.in + t.at, n, full);
        return;
    }
    barrier_expect(full, n * (uint32_t)ranks);
#pragma unroll
    for (int i = 1; i <= ranks; i++) { /* the peers' tiles come first, because they take longer */
        int r = all.peer(i);

        bulk_load(stage + (uint32_t)r * all.tile, buffers.src(i, r) + all.first + t.at, n, full);
    }
}

template <int Coll, int N, class At>
__device__ __forceinline__ void store_tile(const add_ring &ring, const tma_tile<Coll> &t,
                                           const At &buffers)
{
    const tma_tiles<Coll> &all = t.all;
    const ar_args &args = all.args;
    const int ranks = N ? N : args.ranks;

    if constexpr (Coll == AR_REDUCE_SCATTER) {
        if (args.out_align == AR_WORD) /* if out is not aligned, add_tiles() has stored the sum */
            bulk_store(args.out + t.at, ring.stage(t.place), t.length());
    } else {
#pragma unroll
        for (int i = 1; i <= ranks; i++) {
            char *to = buffers.dst(i, all.peer(i));

            if (Coll != AR_ALL_GATHER || to != args.in) /* if in place, the data is there already */
                bulk_store(to + all.first + t.at, ring.stage(t.place), t.length());
        }
    }
    bulk_commit();
}

/* What thread 0 does: load all tiles of this block. */
template <int Coll, int N, class At>
__device__ __forceinline__ void load_tiles(const tma_tiles<Coll> &tiles, const add_ring &ring,
                                           const At &buffers)
{
    for (tma_tile<Coll> t(tiles); t.here(); t.next()) {
        if (t.k >= ring.stages)
            barrier_wait(ring.free(t.place), t.place.parity ^ 1);
        load_tile<Coll, N>(ring, t, buffers);
    }
}

/* What the first thread of warp 1 does: store all tiles. A stage is free when the copies out of it
 * have read it. To wait less, the thread checks this only ${lag} tiles later. */
template <int Coll, int N, class At>
__device__ __forceinline__ void store_tiles(const tma_tiles<Coll> &tiles, const add_ring &ring,
                                            const At &buffers)
{
    constexpr uint32_t lag = AR_TMA_STAGES / 3;
    add_ring::place old;

    for (tma_tile<Coll> t(tiles); t.here(); t.next()) {
        uint64_t *const ready = tiles.moves_alone() ? ring.full(t.place) : ring.done(t.place);

#ifdef ST_BREAK_DONE
        barrier_wait(ring.full(t.place), t.place.parity);
        store_tile<Coll, N>(ring, t, buffers);
        bulk_wait_read<0>();
#endif
        barrier_wait(ready, t.place.parity);
#ifndef ST_BREAK_DONE
        store_tile<Coll, N>(ring, t, buffers);
#endif
        if (t.k >= lag) {
#ifndef ST_BREAK_STAGE
            bulk_wait_read<lag>();
#endif
            barrier_arrive(ring.free(old));
            old.next();
        }
    }
    bulk_wait<0>();
}

/* Add up the words at byte ${at} of all tiles in a stage. */
template <class R, int N>
__device__ __forceinline__ payload add_word(const ar_args &args, const char *stage, uint32_t tile,
                                            uint32_t at)
{
    return sum_of_ranks<R, N>(
        args, [&](int r) { return as_payload(load_shared(stage + r * tile + at)); });
}

/* The warps that add are split into teams. Team i adds up every ${teams}-th tile, from tile i on.
 * The number of teams divides the number of stages, so each stage belongs to one team. */
static_assert(AR_TMA_STAGES % AR_TMA_TEAMS == 0, "a stage would belong to several teams");

struct adders {
    int warps, teams;

    __device__ __forceinline__ adders() : warps((int)blockDim.x / 32 - AR_TMA_MOVERS)
    {
        teams = warps < AR_TMA_TEAMS ? 1 : AR_TMA_TEAMS;
    }
    __device__ __forceinline__ int team(int warp) const
    {
        return warp % teams;
    }
    __device__ __forceinline__ int size(int team) const /* returns how many warps a team has */
    {
        return (warps - team + teams - 1) / teams;
    }
};

/* The work of the warps from warp 2 on. Each thread adds up several words before it stores the
 * sums, so that it waits for the loads of several words at once. */
template <class R, int N, int Coll>
__device__ __forceinline__ void add_tiles(const tma_tiles<Coll> &tiles, const add_ring &ring,
                                          const adders &add)
{
    constexpr int some = N == 2 ? 4 : N == 4 ? 2 : 1;
    const ar_args &args = tiles.args;
    const int warp = (int)threadIdx.x / 32 - AR_TMA_MOVERS, team = add.team(warp);
    const uint32_t lane = (uint32_t)(warp / add.teams * 32 + (int)threadIdx.x % 32) * AR_WORD;
    const uint32_t width = (uint32_t)add.size(team) * 32 * AR_WORD;
    tma_tile<Coll> t(tiles);

    for (t.skip((uint32_t)team); t.here() && !tiles.moves_alone(); t.skip((uint32_t)add.teams)) {
        char *const stage = ring.stage(t.place);
        const uint32_t n = t.length();

#ifndef ST_BREAK_FULL
        barrier_wait(ring.full(t.place), t.place.parity);
#endif
        for (uint32_t at = lane; at < n; at += width * some) {
            payload v[some];

#pragma unroll
            for (int i = 0; i < some; i++)
                if (at + i * width < n) {
                    if constexpr (Coll == AR_ALL_GATHER)
                        v[i] = load_payload(args.in, t.at + at + i * width, tiles.bytes,
                                            args.in_align);
                    else
                        v[i] = add_word<R, N>(args, stage, tiles.tile, at + i * width);
                }
#pragma unroll
            for (int i = 0; i < some; i++)
                if (at + i * width < n) {
                    if (Coll == AR_REDUCE_SCATTER && args.out_align != AR_WORD)
                        store_payload(args.out, t.at + at + i * width, tiles.bytes, args.out_align,
                                      v[i]);
                    else
                        store_shared(stage + at + i * width, as_word(v[i]));
                }
        }
        fence_async_shared(); /* the copies that follow must see what the threads have stored */
        __syncwarp(~0u);
        if (threadIdx.x % 32 == 0)
            barrier_arrive(ring.done(t.place));
    }
}

/* Return the ring that begins at ${shared} in the block's shared memory. */
__device__ __forceinline__ add_ring ring_of(char *shared)
{
    uint64_t *const barriers = (uint64_t *)(shared + AR_TMA_STAGES * AR_TMA_TILES);

    return {shared, AR_TMA_TILES, barriers, barriers + AR_TMA_STAGES, barriers + 2 * AR_TMA_STAGES};
}

/* Initialize the barriers of a ring. All threads of the block must pass a __syncthreads() between
 * this and the first use of a barrier. */
__device__ __forceinline__ void prepare_ring(const add_ring &ring)
{
    const adders add;

    if (threadIdx.x == 0)
        for (int s = 0; s < AR_TMA_STAGES; s++) {
            barrier_init(ring.full_ + s, 1);
            barrier_init(ring.done_ + s, add.size(s % add.teams));
            barrier_init(ring.free_ + s, 1);
        }
}

/* Move this block's tiles. In an all-reduce, block ${last} also adds up the last bytes of the
 * shard, which are in no tile. For that it takes the addresses of the buffers from ${ends}. */
template <class R, int N, int Coll, class At>
__device__ __forceinline__ void move_tiles(const tma_tiles<Coll> &tiles, const At &buffers,
                                           const add_ring &ring, uint32_t last, const ar_args &ends)
{
    if (threadIdx.x == 0) {
        fence_async(); /* so that later bulk copies see the data that the peers' flags announced */
        load_tiles<Coll, N>(tiles, ring, buffers);
    } else if (threadIdx.x == 32) {
        fence_async();
        store_tiles<Coll, N>(tiles, ring, buffers);
    } else if (threadIdx.x >= 32 * AR_TMA_MOVERS) {
        add_tiles<R, N>(tiles, ring, adders());
    }
    if constexpr (Coll == AR_ALL_REDUCE)
        if (blockIdx.x == last && threadIdx.x == 1 && tiles.bytes != tiles.mine) {
            const uint64_t at = tiles.first + tiles.bytes, end = tiles.first + tiles.mine;

            spread<R>::store(ends, at, end, spread<R>::load_reduce(ends, at, end));
        }
}

template <class R, int N, int Coll>
__global__ void __launch_bounds__(AR_TMA_THREADS, 1) tma(const __grid_constant__ ar_args args)
{
    AR_SHARED(shared);
    const add_ring ring = ring_of(shared);
    const tma_tiles<Coll> tiles(args);
    spin_limit wait;

    prepare_ring(ring);
    await_previous_kernel(args);

    call_counters counters(args);
    const bool alive = enter(args, counters, wait);

    stall(args, counters.epoch, 2);
    if (alive)
        move_tiles<R, N>(tiles, told_buffers{args}, ring, 0, args);
    leave(args, counters, alive, wait);
}

} // namespace ar

/* The kernels of reducer ${R} for any number of ranks; FAST also has those for 2 and 4 ranks. */
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
