/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma.cu - pull.cuh's two-shot for few blocks: TMA moves the data, and the threads only add.
 *
 *   thread 0      loads tile k of every rank's send into stage k of a ring in shared memory
 *   other warps   add up the stage's tiles, rank by rank as in reduce.cuh; the sum replaces rank
 *                 0's tile
 *   thread 0      stores the sum to every rank's recv, and refills the stage
 *
 * Both barriers are those of pull.cuh, and so is the reason why it works in place: only the owner
 * of a shard touches it, and it loads a tile before it stores the sum. With 12 stages a block keeps
 * up to 96 KiB of a peer's data in flight, so that 8 blocks fill the links of two H200s; plain
 * loads take sixteen times as many.
 */
#include "kernels/device/pull.cuh"
#include "kernels/device/tma_ptx.cuh"

namespace ar
{

using add_ring = tma_ring<AR_TMA_STAGES>;

/* The tiles that this block moves: ${bytes} of every rank's buffer, from ${first} on. */
struct tma_tiles {
    uint64_t first, bytes, count;
    uint32_t tile;

    __device__ __forceinline__ tma_tiles(const ar_args &args, uint64_t first, uint64_t bytes)
        : first(first), bytes(bytes), tile(ar_tma_tile(args.ranks))
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
};

__device__ __forceinline__ void load_tiles(const ar_args &args, const tma_tiles &t,
                                           const add_ring &ring, uint64_t k)
{
    const uint32_t n = t.length(k);

    barrier_expect(ring.full(k), n * (uint32_t)args.ranks);
    for (int i = 1; i <= args.ranks; i++) { /* the peers' tiles take longer: they come first */
        int r = args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;

        bulk_load(ring.stage(k) + (uint32_t)r * t.tile, args.src[r] + t.first + t.offset(k), n,
                  ring.full(k));
    }
}

/* What thread 0 does. A stage is filled again when the copies out of it have read it, which is
 * known ${lag} tiles later without waiting. */
__device__ __forceinline__ void move_tiles(const ar_args &args, const tma_tiles &t,
                                               const add_ring &ring)
{
    constexpr int lag = 2;

    for (uint64_t k = 0; k < t.count && k < AR_TMA_STAGES; k++)
        load_tiles(args, t, ring, k);
    for (uint64_t k = 0; k < t.count; k++) {
#ifndef ST_BREAK_DONE
        barrier_wait(ring.done(k), ring.parity(k));
#endif
        for (int i = 1; i <= args.ranks; i++) {
            int r = args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;

            bulk_store(args.dst[r] + t.first + t.offset(k), ring.stage(k), t.length(k));
        }
        bulk_commit();
        if (k >= lag && k - lag + AR_TMA_STAGES < t.count) {
#ifndef ST_BREAK_STAGE
            bulk_wait_read<lag>();
#endif
            load_tiles(args, t, ring, k - lag + AR_TMA_STAGES);
        }
    }
    bulk_wait<0>();
}

/* What the warps behind the first one do. */
template <class R, int N>
__device__ __forceinline__ void add_tiles(const ar_args &args, const tma_tiles &t,
                                          const add_ring &ring)
{
    constexpr int batch = N ? N : 4;
    const int ranks = N ? N : args.ranks;

    for (uint64_t k = 0; k < t.count; k++) {
        char *stage = ring.stage(k);
        const uint32_t n = t.length(k);

#ifndef ST_BREAK_FULL
        barrier_wait(ring.full(k), ring.parity(k));
#endif
        for (uint32_t at = (threadIdx.x - 32) * AR_WORD; at < n; at += (blockDim.x - 32) * AR_WORD) {
            rank_sum<R, 2, N> sum;

            for (int first = 0; first < ranks; first += batch) {
                payload v[batch];

#pragma unroll
                for (int i = 0; i < batch; i++)
                    if (first + i < ranks)
                        v[i] = as_payload(load_shared(stage + (first + i) * t.tile + at));
                sum.take(first, ranks, v, args.kind);
            }
            store_shared(stage + at, as_word(sum.finish(args)));
        }
        fence_async(); /* the copies that follow must see the sums */
        __syncwarp(~0u);
        if (threadIdx.x % 32 == 0)
            barrier_arrive(ring.done(k));
    }
}

template <class R, int N>
__global__ void __launch_bounds__(AR_TMA_THREADS, 1) tma(const __grid_constant__ ar_args args)
{
    AR_SHARED(shared);
    const uint64_t first = args.shard * (uint64_t)args.me;
    const uint64_t mine = ar_shard_bytes(args.bytes, args.shard, args.me);
    const tma_tiles tiles(args, first, mine / AR_WORD * AR_WORD);
    uint64_t *const barriers = (uint64_t *)(shared + AR_TMA_STAGES * AR_TMA_TILES);
    const add_ring ring = {shared, AR_TMA_TILES, barriers, barriers + AR_TMA_STAGES};
    spin_limit wait;

    if (threadIdx.x == 0)
        ring.init((int)blockDim.x / 32 - 1);
    await_previous_kernel(args);

    call_counters counters(args);
    bool alive = !__syncthreads_or(counters.dead);

    stall(args, counters.epoch, 1);
#ifndef ST_BREAK_ENTER
    if (alive) {
        raise_flags(args, AR_FLAG_ENTER, ar_flag_step(counters.epoch, 1));
        alive = await_flags(args, AR_FLAG_ENTER, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    stall(args, counters.epoch, 2);
    if (alive && threadIdx.x == 0) {
        fence_async(); /* what the peers' flags said is ready must be seen by the copies, too */
        move_tiles(args, tiles, ring);
    } else if (alive && threadIdx.x >= 32) {
        add_tiles<R, N>(args, tiles, ring);
    }
    if (alive && blockIdx.x == 0 && threadIdx.x == 1 && mine % AR_WORD != 0) { /* the last bytes */
        uint64_t at = first + mine / AR_WORD * AR_WORD;

        spread<R>::store(args, at, first + mine, spread<R>::load_reduce(args, at, first + mine));
    }
    counters.book_in(args);
#ifndef ST_BREAK_LEAVE
    if (alive) {
        raise_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1));
        await_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    counters.publish(args);
}

} // namespace ar

#define AR_TMA_FAST(R)                                                                             \
    {                                                                                              \
        (const void *)&ar::tma<R, 0>, (const void *)&ar::tma<R, 2>, (const void *)&ar::tma<R, 4>   \
    }
#define AR_TMA_SMALL(R)                                                                            \
    {                                                                                              \
        (const void *)&ar::tma<R, 0>                                                               \
    }

extern "C" const struct ar_kernel_row ar_kernels_tma = {{
    AR_TMA_FAST(ar::sum_f32),
    AR_TMA_FAST(ar::sum_16bit<ar::half_codec>),
    AR_TMA_FAST(ar::sum_16bit<ar::bf16_codec>),
    AR_TMA_SMALL(ar::native),
    AR_TMA_SMALL(ar::wide),
}};
