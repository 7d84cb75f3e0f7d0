/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.cuh - two-shot without scratch: the owner reads its shard from every rank's send and writes
 * the sum to every rank's recv, between two barriers.
 *
 *   ENTER barrier   every rank's send is ready
 *   owner           sum = reduce(send[0..n-1][shard]); recv[0..n-1][shard] = sum
 *   LEAVE barrier   every sum has arrived; nobody reads my send any more
 *
 * One-shot (OneShot is true): every rank adds up the whole message and stores it in its own recv.
 * This has less latency, but n times the traffic. It cannot run in place, because a fast rank would
 * overwrite what its peers still read.
 *
 * The template parameter Access says how to load and store. "spread" loads from the ranks one by
 * one, and stores to them one by one. "nvls" (nvls.cu) uses the NVSwitch: one multimem instruction
 * loads the sum over all ranks, and another one stores to all ranks. The body of the kernel and its
 * barriers are the same for spread and nvls, so tests of spread cover all of nvls but these two
 * instructions. (halves/pull.cu defines two more classes for Access.)
 *
 * With nvls the NVSwitch decides the order of addition. In two-shot each element has one owner, so
 * all ranks get the same bits, but spread may give other bits. In one-shot it depends on the
 * NVSwitch whether all ranks get the same bits.
 */
#ifndef AR_PULL_CUH_
#define AR_PULL_CUH_

#include "kernels/device/bulk.cuh"

namespace ar
{

/* How one-shot kernels store sums: each rank adds up everything, and stores only in its own
 * recv. */
struct keep {
    static __device__ __forceinline__ void store_whole(const ar_args &args, uint64_t at,
                                                       uint64_t end, payload v)
    {
        store_payload(args.out, at, end, args.out_align, v);
    }
};

/* Adds up one word of every rank. The words lie at multiples of Access::align() bytes. */
template <class R, class Access> struct adds : keep {
    static __device__ __forceinline__ payload load_reduce(const ar_args &args, uint64_t at,
                                                          uint64_t end)
    {
        return sum_of_ranks<R, 0>(
            args, [&](int r) { return load_payload(args.src[r], at, end, Access::align(args)); });
    }
};

template <class R> struct spread : adds<R, spread<R>> {
    static __device__ __forceinline__ int align(const ar_args &)
    {
        return AR_WORD;
    }
    static __device__ __forceinline__ void store(const ar_args &args, uint64_t at, uint64_t end,
                                                 payload v)
    {
        for (int i = 0; i < args.ranks; i++) {
            int to = args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;

            store_payload(args.dst[to], at, end, AR_WORD, v);
        }
    }
};

/* Called by all threads of the block: wait until every rank's send is ready and every rank's recv
 * is free. Returns false in all threads if the rank gave up waiting. */
__device__ __forceinline__ bool enter(const ar_args &args, const call_counters &counters,
                                      spin_limit &wait)
{
    bool alive = !__syncthreads_or(counters.dead);

    stall(args, counters.epoch, 1);
#ifndef ST_BREAK_ENTER
    if (alive) {
        raise_flags(args, AR_FLAG_ENTER, ar_flag_step(counters.epoch, 1));
        alive = await_flags(args, AR_FLAG_ENTER, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    return alive;
}

/* Called by all threads of the block: wait until every peer has done its loads and stores, and end
 * the call. */
__device__ __forceinline__ void leave(const ar_args &args, call_counters &counters, bool alive,
                                      spin_limit &wait)
{
    counters.book_in(args);
#ifndef ST_BREAK_LEAVE
    if (alive) {
        raise_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1));
        await_flags(args, AR_FLAG_LEAVE, ar_flag_step(counters.epoch, 1), wait);
    }
#endif
    counters.publish(args);
}

template <class Access, bool OneShot>
__global__ void __launch_bounds__(512, 1) pull(const __grid_constant__ ar_args args)
{
    constexpr int unroll = AR_PULL_UNROLL;
    const uint64_t tile = (uint64_t)blockDim.x * AR_WORD * unroll;
    const uint64_t first = OneShot ? 0 : args.shard * (uint64_t)args.me;
    const uint64_t end =
        OneShot ? args.bytes : first + ar_shard_bytes(args.bytes, args.shard, args.me);
    spin_limit wait;

    await_previous_kernel(args);

    call_counters counters(args);
    const bool alive = enter(args, counters, wait);

    for (uint64_t k = 0; alive && k < args.tiles; k++) {
        uint64_t at = first + (k * gridDim.x + blockIdx.x) * tile + threadIdx.x * AR_WORD;
        payload v[unroll];

        stall(args, counters.epoch, 2);
#pragma unroll
        for (int u = 0; u < unroll; u++)
            if (at + (uint64_t)u * blockDim.x * AR_WORD < end)
                v[u] = Access::load_reduce(args, at + (uint64_t)u * blockDim.x * AR_WORD, end);
#pragma unroll
        for (int u = 0; u < unroll; u++)
            if (at + (uint64_t)u * blockDim.x * AR_WORD < end) {
                if (OneShot)
                    Access::store_whole(args, at + (uint64_t)u * blockDim.x * AR_WORD, end, v[u]);
                else
                    Access::store(args, at + (uint64_t)u * blockDim.x * AR_WORD, end, v[u]);
            }
    }
    leave(args, counters, alive, wait);
}

} // namespace ar

#endif
