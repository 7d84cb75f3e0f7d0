/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.cuh - add up one 8-byte unit per rank, in an order that is the same on every rank.
 *
 * A reducer has an accumulator and four functions. start() sets the accumulator to one rank's unit,
 * add() adds another rank's unit, join() adds another accumulator, and finish() returns the result
 * as a unit of the same type.
 *
 * The order is the same for every type and operator, and in all kernels except those of nvls.cu,
 * where the NVSwitch decides it. Each group of four ranks is added as (0+1) + (2+3). Then the sums
 * of the groups are added one after the other: ((0+1)+(2+3)) + ((4+5)+6) for seven ranks. Here 0
 * stands for the word of rank 0, and so on, whichever rank adds. x+y and y+x have the same bits. So
 * with 2, 4 or 8 ranks, a rank "me" may start with its own word. For 4 ranks this gives
 * (me + me^1) + (me^2 + me^3), where ^ is XOR. test/kernels/reference.h has the order in plain C.
 */
#ifndef AR_REDUCE_CUH_
#define AR_REDUCE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <float.h>

#include "kernels/shared/args.h"

namespace ar
{

template <class To, class From> __device__ __forceinline__ To bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits() copies, it does not convert");
    To to;

    memcpy(&to, &from, sizeof to);
    return to;
}

/*
 * Add a group of up to four ranks to ${acc} as (0+1) + (2+3). u[0], u[1], ... are the units of
 * ranks ${first}, ${first} + 1, ...; ${first} is 0, 4, 8, ... Ranks from ${ranks} on do not exist.
 * For two ranks, two units in u are enough. The test build ST_BREAK_PAIRS adds one rank after the
 * other, as a loop would.
 */
template <class R, class Unit, int Most>
__device__ __forceinline__ void add_in_order(R &acc, int first, int ranks, const Unit (&u)[Most],
                                             int kind)
{
#ifdef ST_BREAK_PAIRS
#pragma unroll
    for (int i = 0; i < Most; i++)
        if (first + i == 0)
            acc.start(u[i], kind);
        else if (first + i < ranks)
            acc.add(u[i], kind);
#else
    R two[2];

#pragma unroll
    for (int i = 0; i < Most; i++)
        if (first + i < ranks) {
            if (i % 2 == 0)
                two[i / 2].start(u[i], kind);
            else
                two[i / 2].add(u[i], kind);
        }
    if (Most > 2 && first + 2 < ranks)
        two[0].join(two[1], kind);
    if (first == 0)
        acc = two[0];
    else
        acc.join(two[0], kind);
#endif
}

/* Sums of f32 over two ranks. Only one addition is needed, so the sum is rounded once. */
struct pair_f32 {
    float2 acc;

    __device__ __forceinline__ void start(uint2 u, int)
    {
        acc = bits<float2>(u);
    }
    __device__ __forceinline__ void add(uint2 u, int)
    {
        float2 v = bits<float2>(u);

        acc.x += v.x;
        acc.y += v.y;
    }
    __device__ __forceinline__ void join(const pair_f32 &other, int)
    {
        acc.x += other.acc.x;
        acc.y += other.acc.y;
    }
    __device__ __forceinline__ uint2 finish(const ar_args &args)
    {
        return bits<uint2>(make_float2(acc.x * args.scale, acc.y * args.scale));
    }
};

/*
 * Sums of f32 over any number of ranks. Each sum is rounded only once. For this it is kept as two
 * floats: the rounded sum, and what the roundings dropped. Dekker's Fast2Sum (Numer. Math. 18,
 * 1971) finds exactly what one addition drops if the larger operand comes first. The code below
 * puts the larger operand first, so both orders of the operands give the same result. Knuth's
 * TwoSum needs no comparison, but near FLT_MAX one of its steps may overflow in one order of the
 * operands only, although the sum does not overflow (Boldo, Graillat and Muller, ACM TOMS 44,
 * 2017). f64 would be simpler, but sm_86, 89, 103 and 120 have one f64 unit for every 64 of f32.
 */
struct sum_f32 {
    float2 acc, lost;

    static __device__ __forceinline__ void fast_two_sum(float &sum, float &lost, float v)
    {
        const bool larger = fabsf(v) > fabsf(sum);
        const float high = larger ? v : sum, low = larger ? sum : v, s = sum + v;

        lost += low - (s - high);
        sum = s;
    }
    /* Return the sum, or for avg the quotient, rounded once. "left" is the part of the sum that is
     * missing in the rounded result "near". It is not added in two cases. If it is not finite, the
     * sum was infinite or a NaN already. If it is 0, adding it would turn a sum of -0 into 0. */
    static __device__ __forceinline__ float rounded(float sum, float lost, const ar_args &args)
    {
        float divisor = args.scale == 1.0f ? 1.0f : (float)args.ranks;
        float near = sum * args.scale, left = fmaf(-divisor, near, sum) + lost;
        float nearest = fmaf(left, args.scale, near);

        return fabsf(left) > 0.0f && fabsf(left) <= FLT_MAX ? nearest : near;
    }

    __device__ __forceinline__ void start(uint2 u, int)
    {
        acc = bits<float2>(u);
        lost = make_float2(0, 0);
    }
    __device__ __forceinline__ void add(uint2 u, int)
    {
        float2 v = bits<float2>(u);

        fast_two_sum(acc.x, lost.x, v.x);
        fast_two_sum(acc.y, lost.y, v.y);
    }
    __device__ __forceinline__ void join(const sum_f32 &other, int)
    {
        lost.x += other.lost.x;
        lost.y += other.lost.y;
        fast_two_sum(acc.x, lost.x, other.acc.x);
        fast_two_sum(acc.y, lost.y, other.acc.y);
    }
    __device__ __forceinline__ uint2 finish(const ar_args &args)
    {
        return bits<uint2>(make_float2(rounded(acc.x, lost.x, args), rounded(acc.y, lost.y, args)));
    }
};

/* The reducer that replaces R in a kernel for ${Ranks} ranks (0: any number). Its results have the
 * same bits as those of R. */
template <class R, int Ranks> struct for_ranks {
    using reducer = R;
};
template <> struct for_ranks<sum_f32, 2> {
    using reducer = pair_f32;
};

struct half_codec {
    static __device__ __forceinline__ float2 open(uint32_t w)
    {
        return __half22float2(bits<__half2>(w));
    }
    static __device__ __forceinline__ uint32_t close(float x, float y)
    {
        return bits<uint32_t>(__floats2half2_rn(x, y));
    }
};

struct bf16_codec {
    static __device__ __forceinline__ float2 open(uint32_t w)
    {
        return make_float2(bits<float>(w << 16), bits<float>(w & 0xffff0000u));
    }
    static __device__ __forceinline__ uint32_t close(float x, float y)
    {
        return bits<uint32_t>(__floats2bfloat162_rn(x, y));
    }
};

template <class Codec> struct sum_16bit {
    float2 lo, hi;

    __device__ __forceinline__ void start(uint2 u, int)
    {
        lo = Codec::open(u.x);
        hi = Codec::open(u.y);
    }
    __device__ __forceinline__ void add(uint2 u, int)
    {
        float2 l = Codec::open(u.x), h = Codec::open(u.y);

        lo.x += l.x;
        lo.y += l.y;
        hi.x += h.x;
        hi.y += h.y;
    }
    __device__ __forceinline__ void join(const sum_16bit &other, int)
    {
        lo.x += other.lo.x;
        lo.y += other.lo.y;
        hi.x += other.hi.x;
        hi.y += other.hi.y;
    }
    __device__ __forceinline__ uint2 finish(const ar_args &args)
    {
        return make_uint2(Codec::close(lo.x * args.scale, lo.y * args.scale),
                          Codec::close(hi.x * args.scale, hi.y * args.scale));
    }
};

/* ---- other types and operators: functions out of line, to keep the code small ---------------- */

template <class T> __device__ __forceinline__ T combine(T x, T y, int op)
{
    switch (op) {
    case AR_PROD:
        return (T)(x * y);
    case AR_MAX:
        return x > y ? x : y;
    case AR_MIN:
        return x < y ? x : y;
    default:
        return (T)(x + y);
    }
}

/* If one operand is a NaN, fmax and fmin return the other, as NCCL does. */
__device__ __forceinline__ float combine(float x, float y, int op)
{
    return op == AR_PROD ? x * y : op == AR_MAX ? fmaxf(x, y) : op == AR_MIN ? fminf(x, y) : x + y;
}

__device__ __forceinline__ double combine(double x, double y, int op)
{
    return op == AR_PROD ? x * y : op == AR_MAX ? fmax(x, y) : op == AR_MIN ? fmin(x, y) : x + y;
}

template <class T, class As> __device__ __forceinline__ uint2 combine_all(uint2 u, uint2 v, int op)
{
    constexpr int n = 8 / sizeof(T);
    T x[n], y[n];

    memcpy(x, &u, 8);
    memcpy(y, &v, 8);
#pragma unroll
    for (int i = 0; i < n; i++)
        x[i] = (T)combine((As)x[i], (As)y[i], op);
    memcpy(&u, x, 8);
    return u;
}

static __device__ __noinline__ uint2 native_pair(uint2 u, uint2 v, int kind)
{
    int op = kind & 7;

    switch (kind >> 3) {
    case AR_I8:
        return combine_all<int8_t, int>(u, v, op);
    case AR_U8:
        return combine_all<uint8_t, unsigned>(u, v, op);
    case AR_I32: /* sums and products wrap, so only max and min need the sign */
        return op == AR_MAX || op == AR_MIN ? combine_all<int, int>(u, v, op)
                                            : combine_all<unsigned, unsigned>(u, v, op);
    case AR_U32:
        return combine_all<unsigned, unsigned>(u, v, op);
    case AR_I64:
        return op == AR_MAX || op == AR_MIN ? combine_all<int64_t, int64_t>(u, v, op)
                                            : combine_all<uint64_t, uint64_t>(u, v, op);
    case AR_U64:
        return combine_all<uint64_t, uint64_t>(u, v, op);
    case AR_F64:
        return combine_all<double, double>(u, v, op);
    case AR_F32: /* for this type and those below, op is max or min */
        return combine_all<float, float>(u, v, op);
    case AR_F16:
        return combine_all<__half, float>(u, v, op);
    case AR_BF16:
        return combine_all<__nv_bfloat16, float>(u, v, op);
    case AR_F8E4M3:
        return combine_all<__nv_fp8_e4m3, float>(u, v, op);
    default:
        return combine_all<__nv_fp8_e5m2, float>(u, v, op);
    }
}

template <class T> __device__ __forceinline__ uint2 divide_all(uint2 u, int ranks)
{
    constexpr int n = 8 / sizeof(T);
    T x[n];

    memcpy(x, &u, 8);
#pragma unroll
    for (int i = 0; i < n; i++)
        x[i] = (T)(x[i] / (T)ranks);
    memcpy(&u, x, 8);
    return u;
}

/* Divide a sum by the number of ranks: for averages of integers and f64. Sums of integers may have
 * wrapped around, and quotients of integers are truncated, as in NCCL. */
static __device__ __noinline__ uint2 native_divide(uint2 u, int kind, int ranks)
{
    switch (kind >> 3) {
    case AR_I8:
        return divide_all<int8_t>(u, ranks);
    case AR_U8:
        return divide_all<uint8_t>(u, ranks);
    case AR_I32:
        return divide_all<int32_t>(u, ranks);
    case AR_U32:
        return divide_all<uint32_t>(u, ranks);
    case AR_I64:
        return divide_all<int64_t>(u, ranks);
    case AR_U64:
        return divide_all<uint64_t>(u, ranks);
    default:
        return divide_all<double>(u, ranks);
    }
}

struct native {
    uint2 acc;

    __device__ __forceinline__ void start(uint2 u, int)
    {
        acc = u;
    }
    __device__ __forceinline__ void add(uint2 u, int kind)
    {
        acc = native_pair(acc, u, kind);
    }
    __device__ __forceinline__ void join(const native &other, int kind)
    {
        acc = native_pair(acc, other.acc, kind);
    }
    __device__ __forceinline__ uint2 finish(const ar_args &args)
    {
        return (args.kind & 7) == AR_AVG ? native_divide(acc, args.kind, args.ranks) : acc;
    }
};

template <class T> __device__ __forceinline__ float4 open_f64(uint32_t w)
{
    constexpr int n = 4 / sizeof(T);
    double2 d;
    T x[n];

    memcpy(x, &w, 4);
    d.x = (float)x[0];
    d.y = (float)x[n - 1];
    return bits<float4>(d);
}

template <class T> __device__ __forceinline__ uint32_t close_f64(float4 v)
{
    constexpr int n = 4 / sizeof(T);
    const double2 d = bits<double2>(v);
    uint32_t w;
    T x[n];

    x[0] = (T)d.x;
    x[n - 1] = (T)d.y;
    memcpy(&w, x, 4);
    return w;
}

template <class T> __device__ __forceinline__ float4 open_f8(uint32_t w)
{
    T x[4];

    memcpy(x, &w, 4);
    return make_float4((float)x[0], (float)x[1], (float)x[2], (float)x[3]);
}

template <class T> __device__ __forceinline__ uint32_t close_f8(float4 v, float scale)
{
    const T x[4] = {(T)(v.x * scale), (T)(v.y * scale), (T)(v.z * scale), (T)(v.w * scale)};
    uint32_t w;

    memcpy(&w, x, 4);
    return w;
}

/* Adds or multiplies half a unit (4 bytes) of fp8 numbers as f32. */
template <class T> struct as_f32 {
    float4 acc;

    __device__ __forceinline__ void start(uint32_t w, int)
    {
        acc = open_f8<T>(w);
    }
    __device__ __forceinline__ void add(uint32_t w, int kind)
    {
        join({open_f8<T>(w)}, kind);
    }
    __device__ __forceinline__ void join(const as_f32 &v, int kind)
    {
        if ((kind & 7) == AR_PROD)
            acc = make_float4(acc.x * v.acc.x, acc.y * v.acc.y, acc.z * v.acc.z, acc.w * v.acc.w);
        else
            acc = make_float4(acc.x + v.acc.x, acc.y + v.acc.y, acc.z + v.acc.z, acc.w + v.acc.w);
    }
};

/* Multiplies half a unit (4 bytes) of f16, bf16 or f32 numbers as f64. */
template <class T> struct as_f64 {
    float4 acc;

    __device__ __forceinline__ void start(uint32_t w, int)
    {
        acc = open_f64<T>(w);
    }
    __device__ __forceinline__ void add(uint32_t w, int kind)
    {
        join({open_f64<T>(w)}, kind);
    }
    __device__ __forceinline__ void join(const as_f64 &v, int)
    {
        const double2 d = bits<double2>(acc), e = bits<double2>(v.acc);

        acc = bits<float4>(make_double2(d.x * e.x, d.y * e.y));
    }
};

/* Computes sums and products of fp8 in f32, and products of f32, f16 and bf16 in f64. f64 is needed
 * because the product of the first few ranks may exceed the range of f32 although the product of
 * all ranks does not. f64 is slow on some GPUs, but products are rare. Half a unit is four fp8
 * numbers, two 16-bit numbers or one f32 number. An accumulator has room for two f64 numbers, so a
 * single f32 number is kept twice. */
struct wide {
    float4 lo, hi;

    template <class Half>
    static __device__ __forceinline__ float4 four_of(float4 acc, uint4 w, int first, int ranks,
                                                     int kind)
    {
        const uint32_t u[4] = {w.x, w.y, w.z, w.w};
        Half half = {acc};

        add_in_order(half, first, ranks, u, kind);
        return half.acc;
    }
    static __device__ __noinline__ float4 four(float4 acc, uint4 w, int first, int ranks, int kind)
    {
        switch (kind >> 3) {
        case AR_F16:
            return four_of<as_f64<__half>>(acc, w, first, ranks, kind);
        case AR_BF16:
            return four_of<as_f64<__nv_bfloat16>>(acc, w, first, ranks, kind);
        case AR_F32:
            return four_of<as_f64<float>>(acc, w, first, ranks, kind);
        case AR_F8E4M3:
            return four_of<as_f32<__nv_fp8_e4m3>>(acc, w, first, ranks, kind);
        default:
            return four_of<as_f32<__nv_fp8_e5m2>>(acc, w, first, ranks, kind);
        }
    }
    static __device__ __noinline__ uint32_t close(float4 v, int kind, float scale)
    {
        switch (kind >> 3) {
        case AR_F16:
            return close_f64<__half>(v);
        case AR_BF16:
            return close_f64<__nv_bfloat16>(v);
        case AR_F32:
            return close_f64<float>(v);
        case AR_F8E4M3:
            return close_f8<__nv_fp8_e4m3>(v, scale);
        default:
            return close_f8<__nv_fp8_e5m2>(v, scale);
        }
    }
    __device__ __forceinline__ uint2 finish(const ar_args &args)
    {
        return make_uint2(close(lo, args.kind, args.scale), close(hi, args.kind, args.scale));
    }
};

/* add_in_order() for "wide". One call of wide::four() adds half a unit from each of four ranks. */
__device__ __forceinline__ void add_in_order(wide &acc, int first, int ranks, const uint2 (&u)[4],
                                             int kind)
{
    acc.lo = wide::four(acc.lo, make_uint4(u[0].x, u[1].x, u[2].x, u[3].x), first, ranks, kind);
    acc.hi = wide::four(acc.hi, make_uint4(u[0].y, u[1].y, u[2].y, u[3].y), first, ranks, kind);
}

} // namespace ar

#endif
