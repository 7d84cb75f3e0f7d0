/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunked.cu - two-shot with plain stores and flags, tile by tile, for messages of several MiB.
 *
 *   tile k      push in[shard o] to my slot at owner o, raise REDUCE flag k
 *   tile k-lag  await the peers' REDUCE flag, add up, push the sum to every rank's recv
 *   end         raise GATHER, await the peers' GATHER: their sums are in my recv
 *
 * The table shows what one rank does; "my" means "of this rank". Owner o is rank o, which adds up
 * shard o. "lag" is args.lag. No barrier is needed at the start. A peer writes my recv only after
 * it has received my words of this call. By then my stream has reached the call, so earlier users
 * of recv are done. A call in place is safe, too: an owner stores the sum of a tile only after my
 * push of that tile, and my push has read the tile. If the peers do not map recv, the sums go
 * through scratch and one local copy ("staged").
 *
 * One set of slots is enough for all calls, but the reduce slots and the gather slots must not
 * share memory. A rank that has finished the call has the GATHER flag of each owner. The owner
 * raised this flag after reading its reduce slots, so the reduce slots may be written again. But a
 * rank A may still be reading its gather slots. These are safe for another reason: another rank
 * writes them only after it has received A's words of the next call, and A sends these words only
 * after it has read its gather slots.
 */
#include "kernels/device/bulk.cuh"

namespace ar
{

template <class R, int N, int Unroll>
__global__ void __launch_bounds__(512, 1) chunked(const __grid_constant__ ar_args args)
{
    const int ranks = N ? N : args.ranks;
    const uint64_t shard = args.shard;
    const uint64_t tile = (uint64_t)blockDim.x * AR_WORD * Unroll;
    const uint64_t mine = ar_shard_bytes(args.bytes, shard, args.me);
    spin_limit wait;
    bool alive;

    await_previous_kernel(args);

    call_counters counters(args);
    const uint64_t reduce = args.region;
    const uint64_t gather = args.half;

    alive = !__syncthreads_or(counters.dead);
    for (uint64_t k = 0; alive && k < args.tiles + args.lag; k++) {
        if (k < args.tiles) {
            uint64_t at = tile_start(k, tile);

            stall(args, counters.epoch, (int)k);
            for (int i = 1; i < ranks; i++) {
                int to = args.me + i < ranks ? args.me + i : args.me + i - ranks;
                uint64_t bytes = ar_shard_bytes(args.bytes, shard, to);
                payload v[Unroll];

                load_tile<Unroll>(v, args.in + shard * to, at, bytes, args.in_align);
                if constexpr (multiplies<R>)
                    multiply_tile(args, v);
#pragma unroll
                for (int u = 0; u < Unroll; u++) {
                    uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                    if (x < bytes)
                        store_bulk(args.peer[to] + reduce + args.me * shard + x, as_word(v[u]));
                }
            }
            raise_flags(args, AR_FLAG_REDUCE, ar_flag_step(counters.epoch, k + 1));
        }
        if (k < (uint64_t)args.lag)
            continue;

        uint64_t done = k - args.lag;
        uint64_t at = tile_start(done, tile);

#ifndef ST_BREAK_REDUCE
        alive = await_flags(args, AR_FLAG_REDUCE, ar_flag_step(counters.epoch, done + 1), wait);
#endif
        if (!alive)
            break;

        constexpr int some = N ? Unroll : 2; /* how many sums fit into registers at a time */
        payload sum[Unroll];

        load_tile<Unroll>(sum, args.in + shard * args.me, at, mine, args.in_align);
        if constexpr (multiplies<R>)
            multiply_tile(args, sum);
#pragma unroll
        for (int u = 0; u < Unroll; u += some)
            sum_words<R, N, some>(args, args.peer[args.me] + reduce,
                                  at + (uint64_t)u * blockDim.x * AR_WORD, mine, sum + u);
#pragma unroll
        for (int u = 0; u < Unroll; u++) {
            uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

            if (x >= mine)
                continue;
            store_payload(args.out + shard * args.me, x, mine, args.out_align, sum[u]);
            for (int i = 1; i < ranks; i++) {
                int to = args.me + i < ranks ? args.me + i : args.me + i - ranks;

                if (args.staged)
                    store_bulk(args.peer[to] + gather + args.me * shard + x, as_word(sum[u]));
                else
                    store_payload(args.dst[to] + shard * args.me, x, mine, AR_WORD, sum[u]);
            }
        }
    }
    counters.book_in(args);
#ifndef ST_BREAK_GATHER
    if (alive) {
        raise_flags(args, AR_FLAG_GATHER, ar_flag_step(counters.epoch, 1));
        alive = await_flags(args, AR_FLAG_GATHER, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    for (uint64_t k = 0; alive && args.staged && k < args.tiles; k++) {
        uint64_t at = tile_start(k, tile);

        for (int i = 1; i < ranks; i++) {
            int from = args.me + i < ranks ? args.me + i : args.me + i - ranks;
            uint64_t bytes = ar_shard_bytes(args.bytes, shard, from);
            uint4 v[Unroll];

#pragma unroll
            for (int u = 0; u < Unroll; u++) {
                uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                if (x < bytes)
                    v[u] = load_bulk(args.peer[args.me] + gather + from * shard + x);
            }
#pragma unroll
            for (int u = 0; u < Unroll; u++) {
                uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                if (x < bytes)
                    store_payload(args.out + shard * from, x, bytes, args.out_align,
                                  as_payload(v[u]));
            }
        }
    }
    counters.publish(args);
}

} // namespace ar

extern "C" const struct ar_kernel_row ar_kernels_chunked = AR_TILES_ROW(chunked);
