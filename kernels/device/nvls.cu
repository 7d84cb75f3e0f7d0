/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvls.cu - the kernels of pull.cuh that let the NVSwitch add.
 *
 * These kernels are for sm_90 and later. On older targets they trap, and the host never selects
 * them there. Multicast addresses are used in multimem instructions only, as PTX requires. The host
 * selects these kernels only for messages of whole 16-byte words. The NVSwitch adds 16-bit types in
 * f32.
 */
#include "kernels/device/pull.cuh"

namespace ar
{

enum nvls_type { NVLS_F32, NVLS_F16, NVLS_BF16 };

template <int Type> struct nvls : keep {
    static __device__ __forceinline__ payload load_reduce(const ar_args &args, uint64_t at,
                                                          uint64_t)
    {
        uint4 v = {};

#if __CUDA_ARCH__ >= 900
        if (Type == NVLS_F32)
            asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                         : "l"(args.multi_src + at)
                         : "memory");
        else if (Type == NVLS_F16)
            asm volatile(
                "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0,%1,%2,%3}, [%4];"
                : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                : "l"(args.multi_src + at)
                : "memory");
        else
            asm volatile(
                "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0,%1,%2,%3}, [%4];"
                : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                : "l"(args.multi_src + at)
                : "memory");
#else
        __trap();
#endif
        return as_payload(v);
    }
    static __device__ __forceinline__ void store(const ar_args &args, uint64_t at, uint64_t,
                                                 payload p)
    {
#if __CUDA_ARCH__ >= 900
        asm volatile(
            "multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(args.multi_dst + at),
            "r"(p.lo.x), "r"(p.lo.y), "r"(p.hi.x), "r"(p.hi.y)
            : "memory");
#else
        __trap();
#endif
    }
};

} // namespace ar

#define AR_NVLS(type, one)                                                                         \
    {                                                                                              \
        (const void *)&ar::pull<ar::nvls<ar::type>, one>                                           \
    }

extern "C" const struct ar_kernel_row ar_kernels_nvls = {{
    AR_NVLS(NVLS_F32, false),
    AR_NVLS(NVLS_F16, false),
    AR_NVLS(NVLS_BF16, false),
}};

extern "C" const struct ar_kernel_row ar_kernels_nvls_one = {{
    AR_NVLS(NVLS_F32, true),
    AR_NVLS(NVLS_F16, true),
    AR_NVLS(NVLS_BF16, true),
}};
