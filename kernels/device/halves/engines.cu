/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engines.cu - the kernel watch, which waits for flags while the copies of kernels/engines run, or
 * after them.
 *
 * The kernel is one warp with at most 8 registers per thread on sm_90; make test-kernels checks
 * this (test/kernels/compiled/resources.sh). With so few registers it fits on a multiprocessor
 * beside a GEMM of cuBLAS that leaves hardly any registers free. It needs no more registers,
 * because it counts milliseconds in 32 bits, and because the host computes the addresses to which
 * it stores.
 */
#include "kernels/device/ptx.cuh"

#include <stddef.h>

namespace ar
{

/* Return the time in ticks of 2^AR_ENGINES_TICK ns, about a millisecond. */
__device__ __forceinline__ uint32_t ticks()
{
    return (uint32_t)(now_ns() >> AR_ENGINES_TICK);
}

/* Return threadIdx.x. The asm reads it anew for each use, so it need not stay in a register. */
__device__ __forceinline__ uint32_t lane()
{
#ifdef ST_EMULATE
    return threadIdx.x;
#else
    uint32_t i;

    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(i));
    return i;
#endif
}

/* Wait for this thread's flag and clear it. Returns 0, or why the rank must give up: a verdict
 * (enum ar_verdict), or after a time-out a number above all verdicts. */
__device__ __forceinline__ uint32_t await_flag(const ar_args &args)
{
    uint32_t *flag = (uint32_t *)(args.in + 8 * lane());
    const uint32_t end = ticks() + (uint32_t)args.words;
    uint32_t v;

    do {
        v = end - ticks();
        if ((int32_t)v < 0)
            return v;
        if (v < (uint32_t)args.shard) {
            __nanosleep(100000);
            v = load_relaxed(&args.mailbox->abort);
            if (v != 0)
                return v;
        }
        v = load_relaxed(flag);
    } while (v == 0);
#ifndef ST_BREAK_RESET
    store_relaxed(flag, 0u);
#endif
    return AR_ALIVE;
}

/* Called when all fetches have ended. Returns 0, or a number above all verdicts if this thread's
 * peer has given up. The program of such a peer may have changed the peer's send before this rank
 * fetched it. */
__device__ __forceinline__ uint32_t peer_gave_up(const ar_args &args)
{
#ifdef ST_BREAK_GAVEUP
    return 0;
#else
    return load_relaxed((uint32_t *)(args.in + AR_FLAG_ROW + 8 * lane())) << 4;
#endif
}

/*
 * Fields of args:
 *   in      the row of flags in this rank's scratch
 *   ranks   how many flags to wait for, from the first one of the row on
 *   words   the time limit in ticks
 *   shard   when fewer ticks than this are left, the kernel also reads the host's abort word
 *   staged  1: the row is AR_ENGINES_FETCHED, and AR_ENGINES_GAVE_UP follows it
 *   dst     dst[r]: the word to which thread r stores the verdict if this rank gives up
 *   src     src[r]: the word to which thread 16 + r stores the verdict, after all of dst
 *
 * If the kernel finds AR_PEERS_GONE when it begins, it stores only to src, whose words lie in the
 * memory of this rank. Those of dst lie in the memory of the peers.
 */
__global__ void __launch_bounds__(32) watch(const __grid_constant__ ar_args args)
{
    static_assert(offsetof(ar_args, src) == offsetof(ar_args, dst) + sizeof args.dst, "one list");
    uint32_t v = load_relaxed(&args.state->dead);

    if (v == AR_DESTROYED)
        __trap();
    if (v == AR_ALIVE && (int)lane() < args.ranks)
        v = await_flag(args);
    v = __reduce_max_sync(~0u, v);
    if (v == AR_ALIVE && args.staged)
        v = __reduce_max_sync(~0u, (int)lane() < args.ranks ? peer_gave_up(args) : 0);
    if (v == AR_ALIVE)
        return;
    if (v > AR_PEERS_GONE)
        v = AR_TIMEOUT;

    uint32_t *to = *(uint32_t *const *)((const char *)args.dst + 8 * lane());

    if (lane() < AR_MAX_RANKS && v != AR_PEERS_GONE)
        store_relaxed(to, v);
    fence_sys();
    __syncwarp(~0u);
    if (lane() >= AR_MAX_RANKS)
        store_relaxed(to, v);
}

} // namespace ar

extern "C" const struct ar_kernel_row ar_kernels_engines = {};
extern "C" const struct ar_kernel_row ar_gather_engines = {{{(const void *)&ar::watch}}};
