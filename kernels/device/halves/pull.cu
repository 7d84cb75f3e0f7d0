/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.cu - reduce-scatter and all-gather between the two barriers of pull.cuh, without scratch.
 *
 *   reduce-scatter   each rank loads its part of every rank's send, and adds up
 *   all-gather       each rank stores its send in every rank's recv
 *
 * In a reduce-scatter src[r] is the address of this rank's part in rank r's send. In an all-gather
 * dst[r] is the address of this rank's part in rank r's recv. Parts may begin at any address.
 * in_align is an alignment that the parts have in the send of every rank, out_align an alignment
 * that they have in the recv of every rank.
 */
#include "kernels/device/pull.cuh"

namespace ar
{

template <class R> struct my_part : adds<R, my_part<R>> {
    static __device__ __forceinline__ int align(const ar_args &args)
    {
        return args.in_align;
    }
    static __device__ __forceinline__ void store(const ar_args &, uint64_t, uint64_t, payload)
    {
    }
};

struct to_all {
    static __device__ __forceinline__ payload load_reduce(const ar_args &args, uint64_t at,
                                                          uint64_t end)
    {
        return load_payload(args.in, at, end, args.in_align);
    }
    static __device__ __forceinline__ void store_whole(const ar_args &args, uint64_t at,
                                                       uint64_t end, payload v)
    {
        for (int i = args.dst[args.me] == args.in; i < args.ranks; i++) {
            int to = args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;

            store_payload(args.dst[to], at, end, args.out_align, v);
        }
    }
    static __device__ __forceinline__ void store(const ar_args &, uint64_t, uint64_t, payload)
    {
    }
};

} // namespace ar

#define AR_MY_PART(R)                                                                              \
    {                                                                                              \
        (const void *)&ar::pull<ar::my_part<R>, true>                                              \
    }

extern "C" const struct ar_kernel_row ar_scatter_pull = {{
    AR_MY_PART(ar::sum_f32),
    AR_MY_PART(ar::sum_16bit<ar::half_codec>),
    AR_MY_PART(ar::sum_16bit<ar::bf16_codec>),
    AR_MY_PART(ar::native),
    AR_MY_PART(ar::wide),
}};

extern "C" const struct ar_kernel_row ar_gather_pull = {
    {{(const void *)&ar::pull<ar::to_all, true>}}};
