/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user.cuh - load words from the user's buffers, store words there, and multiply words by this
 * rank's scalar.
 *
 * The buffers may have any alignment and length. No access touches a byte outside of them.
 */
#ifndef AR_USER_CUH_
#define AR_USER_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/device/testing.cuh"

namespace ar
{

/* Up to 16 bytes of payload in registers. LL8 and the last word of an LL128 line use lo only. */
struct payload {
    uint2 lo, hi;
};

/* Return the 16 bytes that start at byte ${by} (0..15) of two consecutive words. */
__device__ __forceinline__ uint4 across(uint4 v, uint4 w, int by)
{
    uint64_t q[4] = {(uint64_t)v.y << 32 | v.x, (uint64_t)v.w << 32 | v.z,
                     (uint64_t)w.y << 32 | w.x, (uint64_t)w.w << 32 | w.z};
    bool far = by >= AR_UNIT;
    uint64_t a = far ? q[1] : q[0], b = far ? q[2] : q[1], c = far ? q[3] : q[2];
    /* Shift to the left in two steps, by 1 and by ${left}, because a shift by 64 is undefined. */
    int right = by % AR_UNIT * 8, left = 63 - right;
    uint64_t lo = a >> right | b << 1 << left, hi = b >> right | c << 1 << left;

    return make_uint4((uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32));
}

/* Return how wide an access at ${p} can be: 1, 2, 4 or 8 bytes. The alignment of ${p} must allow
 * the access, and it must not be longer than ${n} bytes. ${n} is above 0. */
__device__ __forceinline__ int widest(const char *p, int n)
{
    int by = (int)((uintptr_t)p % AR_UNIT) | AR_UNIT;

    by &= -by;
    while (by > n)
        by /= 2;
    return by;
}

/*
 * Load ${n} (0..16) bytes from any address; the other bytes of the result are 0. This is for the
 * ends of a message, and for buffers that do not start at a multiple of 16 bytes. It is out of line
 * to keep kernels short. If ${inner}, the two aligned words around ${p} lie within the message, and
 * two loads are enough. Otherwise this takes up to six loads, each as wide as the alignment allows.
 */
static __device__ __noinline__ uint4 load_slow(const char *p, int n, bool inner)
{
    uint64_t lo = 0, hi = 0;

    if (inner) {
        int by = (int)((uintptr_t)p % AR_WORD);
        uint4 v = load_local(p - by), w = load_local(p - by + AR_WORD);

        v = across(v, w, by);
        return n == AR_WORD ? v : make_uint4(v.x, v.y, 0, 0); /* here n is 16 or 8 */
    }
    for (int i = 0, step; i < n; i += step) {
        step = widest(p + i, n - i);

        uint64_t part = step == 1   ? *(const volatile uint8_t *)(p + i)
                        : step == 2 ? *(const volatile uint16_t *)(p + i)
                        : step == 4 ? *(const volatile uint32_t *)(p + i)
                                    : *(const volatile uint64_t *)(p + i);

        if (i >= AR_UNIT) {
            hi |= part << 8 * (i - AR_UNIT);
        } else {
            lo |= part << 8 * i;
            if (i + step > AR_UNIT)
                hi |= part >> 8 * (AR_UNIT - i);
        }
    }
    return make_uint4((uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32));
}

static __device__ __noinline__ void store_slow(char *p, uint4 v, int n)
{
    uint64_t lo = (uint64_t)v.y << 32 | v.x, hi = (uint64_t)v.w << 32 | v.z;

    for (int i = 0, step; i < n; i += step) {
        uint64_t part = i >= AR_UNIT ? hi >> 8 * (i - AR_UNIT)
                        : i > 0      ? lo >> 8 * i | hi << 8 * (AR_UNIT - i)
                                     : lo;

        step = widest(p + i, n - i);
        if (step == 1)
            *(volatile uint8_t *)(p + i) = (uint8_t)part;
        else if (step == 2)
            *(volatile uint16_t *)(p + i) = (uint16_t)part;
        else if (step == 4)
            *(volatile uint32_t *)(p + i) = (uint32_t)part;
        else
            *(volatile uint64_t *)(p + i) = part;
    }
}

/* Return whether the two aligned words around the 16 bytes at ${at} lie within a message that ends
 * at ${end}. */
template <class I> __device__ __forceinline__ bool inner(I at, I end)
{
    return at >= AR_WORD && at + 2 * AR_WORD <= end;
}

/* Return how many bytes lie between ${at} and ${end}, at most ${most}. */
template <class I> __device__ __forceinline__ int bytes_left(I at, I end, int most)
{
    return at >= end ? 0 : end - at < (I)most ? (int)(end - at) : most;
}

__device__ __forceinline__ payload as_payload(uint4 v)
{
    return {make_uint2(v.x, v.y), make_uint2(v.z, v.w)};
}

__device__ __forceinline__ uint4 as_word(payload p)
{
    return make_uint4(p.lo.x, p.lo.y, p.hi.x, p.hi.y);
}

/* Load 16 bytes at ${at} of a message that ends at ${end}; bytes past the end are 0. */
template <class I>
__device__ __forceinline__ payload load_payload(const char *p, I at, I end, int align)
{
    if (align == AR_WORD && at + AR_WORD <= end)
        return as_payload(load_local(p + at));
    return as_payload(load_slow(p + at, bytes_left(at, end, AR_WORD), inner(at, end)));
}

template <class I>
__device__ __forceinline__ void store_payload(char *p, I at, I end, int align, payload v)
{
    if (align == AR_WORD && at + AR_WORD <= end)
        store_bulk(p + at, as_word(v));
    else
        store_slow(p + at, as_word(v), bytes_left(at, end, AR_WORD));
}

/* Load the payload of word ${w} in form F. In a user's buffer the lines of LL128 lie 120 bytes
 * apart, so the widest loads for LL128 have 8 bytes. */
template <class F>
__device__ __forceinline__ payload load_for_word(const char *p, uint32_t w, uint32_t end, int align)
{
    const uint32_t at = ar_word_first_unit(F::id, w) * AR_UNIT;
    const int n = ar_word_units(F::id, (int)(w % AR_LINE)) * AR_UNIT;
    payload v = {};

    if (F::id == AR_LAMPORT)
        return load_payload(p, at, end, align);
    if (align < AR_UNIT || at + n > end)
        return as_payload(load_slow(p + at, bytes_left(at, end, n), inner(at, end)));
    v.lo = load_unit(p + at);
    if (F::units == 2 && n == AR_WORD)
        v.hi = load_unit(p + at + AR_UNIT);
    return v;
}

template <class F>
__device__ __forceinline__ void store_for_word(char *p, uint32_t w, uint32_t end, int align,
                                               payload v)
{
    const uint32_t at = ar_word_first_unit(F::id, w) * AR_UNIT;
    const int n = ar_word_units(F::id, (int)(w % AR_LINE)) * AR_UNIT;

    if (F::id == AR_LAMPORT) {
        store_payload(p, at, end, align, v);
    } else if (align < AR_UNIT || at + n > end) {
        store_slow(p + at, as_word(v), bytes_left(at, end, n));
    } else {
        store_unit(p + at, v.lo);
        if (F::units == 2 && n == AR_WORD)
            store_unit(p + at + AR_UNIT, v.hi);
    }
}

/* Like load_for_word(), but for messages of whole words (kernels/host/table.c). In such a message
 * only the last line of LL128 may be short. */
template <class F>
__device__ __forceinline__ payload load_whole(const char *p, uint32_t w, uint32_t end)
{
    const uint32_t at = ar_word_first_unit(F::id, w) * AR_UNIT;
    payload v = {};

    if (F::id == AR_LAMPORT)
        return as_payload(load_local(p + at));
    if (F::id == AR_LL8 || at < end)
        v.lo = load_unit(p + at);
    if (F::units == 2 && w % AR_LINE != AR_LINE - 1 && at + AR_UNIT < end)
        v.hi = load_unit(p + at + AR_UNIT);
    return v;
}

template <class F>
__device__ __forceinline__ void store_whole(char *p, uint32_t w, uint32_t end, payload v)
{
    const uint32_t at = ar_word_first_unit(F::id, w) * AR_UNIT;

    if (F::id == AR_LAMPORT) {
        store_bulk(p + at, as_word(v));
        return;
    }
    if (F::id == AR_LL8 || at < end)
        store_unit(p + at, v.lo);
    if (F::units == 2 && w % AR_LINE != AR_LINE - 1 && at + AR_UNIT < end)
        store_unit(p + at + AR_UNIT, v.hi);
}

/* ---- PreMulSum ------------------------------------------------------------------------------- */

/* Each product is rounded to the type once; integers wrap around. NCCL does the same, except that
 * it rounds products of fp8 to f16 first. */
template <class T> __device__ __forceinline__ T product(T x, T y)
{
    return (T)(x * y);
}
__device__ __forceinline__ __half product(__half x, __half y)
{
    return __hmul(x, y);
}
__device__ __forceinline__ __nv_bfloat16 product(__nv_bfloat16 x, __nv_bfloat16 y)
{
    return __hmul(x, y);
}
__device__ __forceinline__ __nv_fp8_e4m3 product(__nv_fp8_e4m3 x, __nv_fp8_e4m3 y)
{
    return (__nv_fp8_e4m3)((float)x * (float)y);
}
__device__ __forceinline__ __nv_fp8_e5m2 product(__nv_fp8_e5m2 x, __nv_fp8_e5m2 y)
{
    return (__nv_fp8_e5m2)((float)x * (float)y);
}

template <class T> __device__ __forceinline__ uint4 products(uint4 v, const void *scalar)
{
    constexpr int n = AR_WORD / sizeof(T);
    const T y = *(const T *)scalar;
    T x[n];

    memcpy(x, &v, AR_WORD);
#pragma unroll
    for (int i = 0; i < n; i++)
        x[i] = product(x[i], y);
    memcpy(&v, x, AR_WORD);
    return v;
}

/* Return the numbers in ${v}, each times the number at ${scalar}. This function is out of line to
 * keep kernels short. It also keeps the compiler from fusing a product with a sum: a fused
 * operation rounds once, where other ranks round twice. */
static __device__ __noinline__ uint4 times_scalar(uint4 v, const void *scalar, int dtype)
{
#ifdef ST_BREAK_SCALAR
    return v;
#endif
    switch (dtype) {
    case AR_I8:
    case AR_U8:
        return products<uint8_t>(v, scalar);
    case AR_I32:
    case AR_U32:
        return products<uint32_t>(v, scalar);
    case AR_I64:
    case AR_U64:
        return products<uint64_t>(v, scalar);
    case AR_F16:
        return products<__half>(v, scalar);
    case AR_F32:
        return products<float>(v, scalar);
    case AR_F64:
        return products<double>(v, scalar);
    case AR_BF16:
        return products<__nv_bfloat16>(v, scalar);
    case AR_F8E4M3:
        return products<__nv_fp8_e4m3>(v, scalar);
    default:
        return products<__nv_fp8_e5m2>(v, scalar);
    }
}

} // namespace ar

#endif
