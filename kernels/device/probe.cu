/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.cu - store to all peers, or load from all peers, for a given time; or check once what the
 * peers have stored. kernels/choose/probe.h says what this is for.
 *
 * In the scratch of every rank, each byte of slot r must be the mark of rank r. The host stores the
 * mark of a rank in that rank's own scratch. This kernel stores the mark in the peers' scratch.
 */
#include "kernels/choose/probe.h"
#include "kernels/device/ptx.cuh"

namespace ar
{

__device__ __forceinline__ uint32_t mark(int rank)
{
    return 0x01010101u * (uint32_t)(AR_PROBE_MARK + rank);
}

__device__ __forceinline__ bool differs(uint4 v, uint32_t w)
{
    return v.x != w || v.y != w || v.z != w || v.w != w;
}

/*
 * Fields of args:
 *   lag         enum ar_probe_step
 *   region      offset of slot 0
 *   shard       bytes from slot to slot
 *   timeout_ns  how long to run
 *   out         one struct ar_probe_seen for each block
 */
__global__ void __launch_bounds__(256, 1) probe(const __grid_constant__ ar_args args)
{
    constexpr int unroll = AR_PROBE_UNROLL;
    const uint64_t tile = (uint64_t)blockDim.x * AR_WORD * unroll;
    const uint64_t begin = now_ns();
    uint64_t at = blockIdx.x * tile, bytes = 0;
    bool wrong = false, over = false;

    while (!over) {
        for (int i = 1; i < args.ranks; i++) {
            const int peer = args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;
            const int where = args.lag == AR_PROBE_CHECK ? args.me : peer;
            const int slot = args.lag == AR_PROBE_PUSH ? args.me : peer;
            char *p =
                args.peer[where] + args.region + slot * args.shard + at + threadIdx.x * AR_WORD;
            const uint32_t w = mark(slot);
            uint4 v[unroll];

            if (args.lag == AR_PROBE_PUSH) {
#pragma unroll
                for (int u = 0; u < unroll; u++)
                    store_bulk(p + u * blockDim.x * AR_WORD, make_uint4(w, w, w, w));
                continue;
            }
#pragma unroll
            for (int u = 0; u < unroll; u++)
                v[u] = load_bulk(p + u * blockDim.x * AR_WORD);
#pragma unroll
            for (int u = 0; u < unroll; u++)
                wrong = differs(v[u], w) || wrong;
        }
        bytes += tile * (uint64_t)(args.ranks - 1);
        at += gridDim.x * tile;
        if (at + tile > args.shard)
            at = blockIdx.x * tile;
        over = __syncthreads_or(args.lag == AR_PROBE_CHECK ||
                                (threadIdx.x == 0 && now_ns() - begin > args.timeout_ns));
    }
    fence_sys(); /* when this fence ends, the stores have arrived */
    wrong = __syncthreads_or(wrong);
    if (threadIdx.x == 0) {
        ar_probe_seen *seen = (ar_probe_seen *)args.out + blockIdx.x;

        seen->bytes = bytes;
        seen->ns = now_ns() - begin;
        seen->wrong = wrong;
    }
}

} // namespace ar

extern "C" const void *const ar_kernel_probe = (const void *)&ar::probe;
