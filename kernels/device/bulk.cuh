/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulk.cuh - pieces shared by the kernels that move plain data and raise flags about it.
 *
 * The ordering story, told once. A block stores data to a peer with all its threads;
 * __syncthreads() makes those stores happen before what thread r does next; thread r fences at
 * system scope and stores the flag word of rank r. The peer's thread polls its flag word with
 * acquire loads; its __syncthreads() passes that on to the block, which then reads the data. Every
 * flag word has a single writer and only grows, so no read-modify-write ever crosses a link, PCIe
 * included.
 */
#ifndef AR_BULK_CUH_
#define AR_BULK_CUH_

#include "kernels/device/reduce.cuh"
#include "kernels/device/packet.cuh"

namespace ar
{

/* All threads of the block: tell every peer that this block has come to ${step}. */
__device__ __forceinline__ void raise_flags(const ar_args &args, int kind, uint64_t value)
{
#ifndef ST_BREAK_SYNC
    __syncthreads();
#endif
    if ((int)threadIdx.x < args.ranks && (int)threadIdx.x != args.me) {
        fence_sys();
        store_relaxed(
            (uint64_t *)(args.peer[threadIdx.x] + ar_flag_offset(kind, blockIdx.x, args.me)),
            value);
    }
}

/* All threads of the block: wait until the same block of every peer has come to ${value}. Returns
 * false in all threads when the rank gave up. */
__device__ __forceinline__ bool await_flags(const ar_args &args, int kind, uint64_t value,
                                            spin_limit &wait)
{
    bool stop = false;

#ifndef ST_BREAK_AWAIT
    if ((int)threadIdx.x < args.ranks && (int)threadIdx.x != args.me) {
        const uint64_t *flag =
            (const uint64_t *)(args.peer[args.me] + ar_flag_offset(kind, blockIdx.x, threadIdx.x));

        uint32_t polls = 0;

        while (!stop && !ar_reached(load_acquire(flag), value))
            stop = give_up(args, polls, wait);
    }
#endif
    return !__syncthreads_or(stop);
}

} // namespace ar

#endif
