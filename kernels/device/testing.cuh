/* SPDX-License-Identifier: Apache-2.0 */
/*
 * testing.cuh - builds with -DST_TESTING provoke races: they add pauses and store words in parts.
 *
 * The kernels must be right however long any warp pauses. If the form of a word allows it to arrive
 * in parts, the kernels must be right in whatever order the parts arrive. Real hardware rarely
 * shows an error of this kind: NVLink delivers 16-byte stores whole, and the warps of a block run
 * nearly in step. So without these builds nobody would notice a missing check. Without -DST_TESTING
 * stall() does nothing, and words are stored whole.
 */
#ifndef AR_TESTING_CUH_
#define AR_TESTING_CUH_

#include "kernels/device/ptx.cuh"

namespace ar
{

#ifdef ST_TESTING
__device__ __forceinline__ uint32_t scramble(uint32_t h)
{
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    return h ^ h >> 16;
}

static __device__ __noinline__ void hold_up(uint32_t ns)
{
    for (uint64_t until = now_ns() + ns; now_ns() < until;)
        __nanosleep(100);
}

/* Sometimes pause this block, or only some of its warps. With the same arguments, the same threads
 * always pause for the same time. */
__device__ __forceinline__ void stall(const ar_args &args, uint64_t epoch, int where)
{
    uint32_t h = scramble((uint32_t)epoch * 2654435761u ^
                          (blockIdx.x * 40503u + args.me * 9176u + where * 77u));
    bool warps = h % 4 == 1;

    if (args.stall_ns == 0 || h % 4 > 1)
        return;
    if (warps)
        h = scramble(h + threadIdx.x / 32);
    if (!warps || h % 2 == 0)
        hold_up((h >> 2) % args.stall_ns);
}

/* Store a word in the parts in which its form may arrive: four for Lamport, two for LL8. The parts
 * come in varying order, sometimes with a pause between them. A line of LL128 must arrive whole, so
 * its words are stored whole. */
template <int Form> __device__ __forceinline__ void store_torn(void *slot, uint4 v)
{
    if constexpr (Form == AR_LL128) {
        store_word(slot, v);
    } else {
        constexpr uint32_t parts = Form == AR_LAMPORT ? 4 : 2;
        uint32_t h = scramble((uint32_t)clock64() ^ (uint32_t)((uintptr_t)slot >> 4) * 2654435761u);
        uint32_t k = h >> 2;

        for (uint32_t i = 0; i < parts; i++) {
            k = (k + (h % 2 ? 1 : parts - 1)) % parts;
            if (Form == AR_LL8)
                store_relaxed((uint64_t *)slot + k,
                              k == 0 ? (uint64_t)v.y << 32 | v.x : (uint64_t)v.w << 32 | v.z);
            else
                store_relaxed((uint32_t *)slot + k, k == 0   ? v.x
                                                    : k == 1 ? v.y
                                                    : k == 2 ? v.z
                                                             : v.w);
            if ((h >> 8) % 64 == i)
                hold_up((h >> 16) % 4000);
        }
    }
}
#else
__device__ __forceinline__ void stall(const ar_args &, uint64_t, int)
{
}
#endif

} // namespace ar

#endif
