/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunked.cu - reduce-scatter and all-gather, the two halves of the all-reduce in ../chunked.cu,
 * for long messages in buffers that are not registered.
 *
 *   tile k      reduce-scatter: push in[part o] to my slot at owner o; all-gather: push "in" to
 *               my slot at every rank; raise REDUCE flag k
 *   tile k-lag  await the peers' REDUCE flag, then add up my part, or copy each part to recv
 *   end         raise GATHER, await the peers' GATHER: they have read their slots
 *
 * The last line of this table protects the next call, which uses the same slots: as soon as that
 * call begins on a rank, the rank may write to its slots at the peers.
 *
 * The previous call may be an all-reduce of ../chunked.cu. When it ends on any rank, all ranks have
 * read their reduce slots, but some may still be reading their gather slots. That is why the
 * all-gather, like the reduce-scatter, uses the reduce slots.
 *
 * A call in place is safe: a rank writes only to its own recv, and only where it has nothing to
 * send or has sent the data already. No rank reads or writes the buffers of another rank.
 */
#include "kernels/device/bulk.cuh"

namespace ar
{

/* Each kernel of this file begins with this constructor: it waits for the previous kernel of the
 * stream and reads the counters. All threads of the block must call it together. */
struct begun_call {
    call_counters counters;
    bool alive; /* false: this rank has given up */

    __device__ __forceinline__ explicit begun_call(const ar_args &args)
        : counters(after_previous_kernel(args))
    {
        /* This is not in the initializer list, because nvcc gives that list to the host compiler,
         * too, which cannot compile it. */
        alive = !__syncthreads_or(counters.dead);
    }

  private:
    static __device__ __forceinline__ call_counters after_previous_kernel(const ar_args &args)
    {
        await_previous_kernel(args);
        return call_counters(args);
    }
};

/* Called by all threads of the block: tell the peers that this rank has read its slots, so that
 * their next calls may write these slots. Wait until the peers have read theirs. */
__device__ __forceinline__ void leave_slots(const ar_args &args, call_counters &counters,
                                            bool alive, spin_limit &wait)
{
    counters.book_in(args);
#ifndef ST_BREAK_SLOTS
    if (alive) {
        raise_flags(args, AR_FLAG_GATHER, ar_flag_step(counters.epoch, 1));
        await_flags(args, AR_FLAG_GATHER, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    counters.publish(args);
}

template <class R, int N, int Unroll>
__global__ void __launch_bounds__(512, 1) scatter_tiles(const __grid_constant__ ar_args args)
{
    constexpr int some = N ? Unroll : 2; /* how many sums fit into registers at a time */
    const int ranks = N ? N : args.ranks;
    const uint64_t tile = (uint64_t)blockDim.x * AR_WORD * Unroll;
    spin_limit wait;
    auto [counters, alive] = begun_call(args);

    for (uint64_t k = 0; alive && k < args.tiles + args.lag; k++) {
        if (k < args.tiles) {
            const uint64_t at = tile_start(k, tile);

            stall(args, counters.epoch, (int)k);
            for (int i = 1; i < ranks; i++) {
                int to = args.me + i < ranks ? args.me + i : args.me + i - ranks;
                payload v[Unroll];

                load_tile<Unroll>(v, args.in + args.stride * to, at, args.bytes, args.in_align);
                if constexpr (multiplies<R>)
                    multiply_tile(args, v);
#pragma unroll
                for (int u = 0; u < Unroll; u++) {
                    uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                    if (x < args.bytes)
                        store_bulk(args.peer[to] + args.region + args.me * args.shard + x,
                                   as_word(v[u]));
                }
            }
            raise_flags(args, AR_FLAG_REDUCE, ar_flag_step(counters.epoch, k + 1));
        }
        if (k < (uint64_t)args.lag)
            continue;

        const uint64_t done = k - args.lag;
        const uint64_t at = tile_start(done, tile);
        payload sum[Unroll];

#ifndef ST_BREAK_PARTS
        alive = await_flags(args, AR_FLAG_REDUCE, ar_flag_step(counters.epoch, done + 1), wait);
#endif
        if (!alive)
            break;
        load_tile<Unroll>(sum, args.in + args.stride * args.me, at, args.bytes, args.in_align);
        if constexpr (multiplies<R>)
            multiply_tile(args, sum);
#pragma unroll
        for (int u = 0; u < Unroll; u += some)
            sum_words<R, N, some>(args, args.peer[args.me] + args.region,
                                  at + (uint64_t)u * blockDim.x * AR_WORD, args.bytes, sum + u);
#pragma unroll
        for (int u = 0; u < Unroll; u++) {
            uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

            if (x < args.bytes)
                store_payload(args.out, x, args.bytes, args.out_align, sum[u]);
        }
    }
    leave_slots(args, counters, alive, wait);
}

template <int Unroll>
__global__ void __launch_bounds__(512, 1) gather_tiles(const __grid_constant__ ar_args args)
{
    const int ranks = args.ranks;
    const uint64_t tile = (uint64_t)blockDim.x * AR_WORD * Unroll;
    char *const own = args.out + args.stride * args.me;
    spin_limit wait;
    auto [counters, alive] = begun_call(args);

    for (uint64_t k = 0; alive && k < args.tiles + args.lag; k++) {
        if (k < args.tiles) {
            const uint64_t at = tile_start(k, tile);
            payload v[Unroll];

            stall(args, counters.epoch, (int)k);
            load_tile<Unroll>(v, args.in, at, args.bytes, args.in_align);
#pragma unroll
            for (int u = 0; u < Unroll; u++) {
                uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                if (x >= args.bytes)
                    continue;
                for (int i = 1; i < ranks; i++) {
                    int to = args.me + i < ranks ? args.me + i : args.me + i - ranks;

                    store_bulk(args.peer[to] + args.region + args.me * args.shard + x,
                               as_word(v[u]));
                }
                if (own != args.in)
                    store_payload(own, x, args.bytes, args.out_align, v[u]);
            }
            raise_flags(args, AR_FLAG_REDUCE, ar_flag_step(counters.epoch, k + 1));
        }
        if (k < (uint64_t)args.lag)
            continue;

        const uint64_t done = k - args.lag;
        const uint64_t at = tile_start(done, tile);

#ifndef ST_BREAK_PARTS
        alive = await_flags(args, AR_FLAG_REDUCE, ar_flag_step(counters.epoch, done + 1), wait);
#endif
        for (int i = 1; alive && i < ranks; i++) {
            int from = args.me + i < ranks ? args.me + i : args.me + i - ranks;
            const char *slot = args.peer[args.me] + args.region + from * args.shard;
            uint4 v[Unroll];

#pragma unroll
            for (int u = 0; u < Unroll; u++) {
                uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                if (x < args.bytes)
                    v[u] = load_bulk(slot + x);
            }
#pragma unroll
            for (int u = 0; u < Unroll; u++) {
                uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                if (x < args.bytes)
                    store_payload(args.out + args.stride * from, x, args.bytes, args.out_align,
                                  as_payload(v[u]));
            }
        }
    }
    leave_slots(args, counters, alive, wait);
}

} // namespace ar

extern "C" const struct ar_kernel_row ar_scatter_chunked = AR_TILES_ROW(scatter_tiles);
extern "C" const struct ar_kernel_row ar_gather_chunked = {
    {{(const void *)&ar::gather_tiles<AR_CHUNKED_UNROLL>}}};
