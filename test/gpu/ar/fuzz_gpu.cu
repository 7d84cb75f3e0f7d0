/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gpu.cu - kernels that make inputs, check outputs, and keep the GPU busy. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "test/gpu/ar/fuzz.h"
#include "test/kernels/reference.h"

#ifdef ST_EMULATE
#include "test/whole/launch.h"
#else
#define START(kernel, blocks, threads, stream, args)                                               \
    kernel<<<blocks, threads, 0, (cudaStream_t)(stream)>>>(args)
#endif

/* The numbers of ncclDataType_t. */
enum { I8, U8, I32, U32, I64, U64, F16, F32, F64, BF16, E4M3, E5M2 };
enum { SUM, PROD, MAX, MIN, AVG };
/* The numbers of enum symtuner_ar_coll. */
enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER };

static __device__ unsigned mix(unsigned h)
{
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h *= 0x846ca68bu;
    return h ^ h >> 16;
}

static __device__ unsigned long long encode(int type, double v)
{
    switch (type) {
    case F16:
        return __half_as_ushort(__double2half(v));
    case F32:
        return __float_as_uint((float)v);
    case F64:
        return (unsigned long long)__double_as_longlong(v);
    case BF16:
        return __bfloat16_as_ushort(__double2bfloat16(v));
    case E4M3:
        return __nv_cvt_double_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    case E5M2:
        return __nv_cvt_double_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
    default:
        return (unsigned long long)(long long)v;
    }
}

/* Return the value of these bits of a float type. */
static __device__ double decode(int type, unsigned long long bits)
{
    switch (type) {
    case F16:
        return __half2float(__ushort_as_half((unsigned short)bits));
    case F32:
        return __uint_as_float((unsigned)bits);
    case BF16:
        return __bfloat162float(__ushort_as_bfloat16((unsigned short)bits));
    case E4M3:
    case E5M2:
        return __half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)bits,
                                                           type == E4M3 ? __NV_E4M3 : __NV_E5M2)));
    default:
        return __longlong_as_double((long long)bits);
    }
}

static __device__ unsigned long long low(unsigned long long v, int bytes)
{
    return bytes == 8 ? v : v & ((1ull << 8 * bytes) - 1);
}

/* Return the largest input of a type in FUZZ_EXACT data. Sums of such inputs over 16 ranks are
 * exact. */
static __device__ int limit_of(int type)
{
    return type == E4M3 || type == E5M2 ? 1 : type == I32 || type == F32 || type == F64 ? 99 : 4;
}

static __device__ double whole(const fuzz_call &c, int rank, unsigned h)
{
    int limit = limit_of(c.type), is_signed = !(c.type == U8 || c.type == U32 || c.type == U64);

    h = mix(h + (unsigned)rank * 0x9e3779b9u);
    if (c.op == PROD)
        return (is_signed && (h & 2) ? -1 : 1) * (1 + (int)(h & 1));
    return is_signed ? (int)(h % (unsigned)(2 * limit + 1)) - limit
                     : (int)(h % (unsigned)(limit + 1));
}

/* Return the number that a rank adds to the result: its input, in a PreMulSum times its weight. */
static __device__ double weighted(const fuzz_call &c, int rank, unsigned h)
{
    return whole(c, rank, h) * (c.op == FUZZ_PREMUL ? fuzz_weight(rank) : 1);
}

/* Return the largest exponent of FUZZ_REAL numbers; the smallest is its negative. Exponents are so
 * far apart that a sum in another order, or a sum that loses small terms, has other bits. In f64
 * the product of 16 ranks stays in range. In other types the product may become infinite, and then
 * every rank must get infinity. */
static __device__ int exponents(int type, int op)
{
    if (type == F64)
        return 60;
    if (op == PROD)
        return type == F32 || type == BF16 ? 15 : 1;
    return type == F32 ? 50 : type == BF16 ? 40 : type == E4M3 ? 6 : 12;
}

/* Return the bits of rank ${rank}'s input element; ${h} depends on the element's position and on
 * the call. */
static __device__ unsigned long long input(const fuzz_call &c, int rank, unsigned h)
{
    if (c.data == FUZZ_EXACT)
        return low(encode(c.type, whole(c, rank, h)), c.bytes);
    if (c.data == FUZZ_SPECIAL) {
        if (h % 61 == 0 && h / 61 % (unsigned)c.ranks == (unsigned)rank)
            /* a NaN whose bits are all ones; some kernels mark empty words by these bits */
            return low(~0ull, c.bytes);
        if (h % 61 == 1)
            return 1ull << (8 * c.bytes - 1); /* -0 */
    }
    unsigned r = mix(h + (unsigned)rank * 0x9e3779b9u + 1), most = exponents(c.type, c.op);
    double v = ((int)(r & 0xffffff) - 0x800000) / 8388608.0;

    if (h % 2) /* the exponents are near each other */
        return low(encode(c.type, v * (1 << (r >> 24 & 7))), c.bytes);
    return low(encode(c.type, ldexp(v, (int)(mix(r) % (2 * most + 1)) - (int)most)), c.bytes);
}

/* Return whether the output element ${got} is right. Set ${want} to the right bits. */
static __device__ int right(const fuzz_call &c, unsigned h, unsigned long long got,
                            unsigned long long *want)
{
    double x[REFERENCE_MOST];

    if (c.data == FUZZ_EXACT) {
        double acc = weighted(c, 0, h);

        for (int r = 1; r < c.ranks; r++) {
            double v = weighted(c, r, h);

            acc = c.op == PROD  ? acc * v
                  : c.op == MAX ? fmax(acc, v)
                  : c.op == MIN ? fmin(acc, v)
                                : acc + v;
        }
        if (c.op == AVG)
            acc = c.type <= U64 ? (double)((long long)acc / c.ranks) : acc / c.ranks;
        *want = low(encode(c.type, acc), c.bytes);
        return got == *want;
    }
    if (c.data == FUZZ_SPECIAL && h % 61 == 0) {
        double d = decode(c.type, got);

        *want = low(~0ull, c.bytes);
        return d != d;
    }
    if (c.data == FUZZ_SPECIAL && h % 61 == 1) {
        *want = 1ull << (8 * c.bytes - 1);
        return got == *want;
    }
    for (int r = 0; r < c.ranks; r++)
        x[r] = decode(c.type, input(c, r, h));
    *want = low(encode(c.type, reference_reduce(c.type, c.op, x, c.ranks)), c.bytes);
    return got == *want;
}

static __device__ unsigned seed_of(const fuzz_call &c, unsigned long long counter)
{
    return mix((unsigned)counter * 0x85ebca6bu + c.lane->lane * 0xc2b2ae35u +
               (unsigned)(counter >> 32));
}

static __device__ unsigned place(unsigned seed, size_t i)
{
    return mix(seed ^ (unsigned)i) + (unsigned)(i >> 32);
}

static __device__ void put(char *p, int bytes, size_t i, unsigned long long v)
{
    if (bytes == 1)
        ((unsigned char *)p)[i] = (unsigned char)v;
    else if (bytes == 2)
        ((unsigned short *)p)[i] = (unsigned short)v;
    else if (bytes == 4)
        ((unsigned *)p)[i] = (unsigned)v;
    else
        ((unsigned long long *)p)[i] = v;
}

static __device__ unsigned long long get(const char *p, int bytes, size_t i)
{
    return bytes == 1   ? ((const unsigned char *)p)[i]
           : bytes == 2 ? ((const unsigned short *)p)[i]
           : bytes == 4 ? ((const unsigned *)p)[i]
                        : ((const unsigned long long *)p)[i];
}

/* Return the start of the buffer around which no byte may change: recv, or the buffer of which recv
 * is a part. */
static __device__ char *guarded(const fuzz_call &c)
{
    return c.in_place && c.coll == REDUCE_SCATTER ? c.send : c.recv;
}

static __device__ size_t guarded_bytes(const fuzz_call &c)
{
    return (c.in_place && c.coll == REDUCE_SCATTER ? c.sent : c.received) * c.bytes;
}

/* In a call in place: return whether element ${i} of recv is also an element of send. */
static __device__ bool is_send(const fuzz_call &c, size_t i)
{
    return c.coll != ALL_GATHER || i / c.count == (size_t)c.me;
}

/* Return whether element ${i} of an all-gather's output, ${got}, has the bits that were sent. */
static __device__ bool same(const fuzz_call &c, unsigned seed, size_t i, unsigned long long got,
                            unsigned long long *want)
{
    *want = input(c, (int)(i / c.count), place(seed, i % c.count));
    return got == *want;
}

static __global__ void prepare(const __grid_constant__ fuzz_call c)
{
    size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x,
           step = gridDim.x * (size_t)blockDim.x;
    unsigned seed = seed_of(c, c.lane->counter + c.ahead);

    for (size_t i = at; i < c.sent; i += step)
        put(c.send, c.bytes, i, input(c, c.me, place(seed, i)));
    for (size_t i = at; i < c.received; i += step)
        if (!c.in_place || !is_send(c, i))
            put(c.recv, c.bytes, i, ~0ull);
    if (at < FUZZ_GUARD) {
        guarded(c)[-1 - (long)at] = (char)0xff;
        guarded(c)[guarded_bytes(c) + at] = (char)0xff;
    }
}

static __global__ void verify(const __grid_constant__ fuzz_call c)
{
    size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    size_t step = gridDim.x * (size_t)blockDim.x;
    unsigned long long counter = *(volatile unsigned long long *)&c.lane->counter, hash = 0;
    fuzz_record *record = &c.lane->record[counter % FUZZ_RING];
    unsigned seed = seed_of(c, counter), wrong = 0;

    for (size_t i = at; i < c.sent; i += step)
        if (!c.in_place || (c.coll == REDUCE_SCATTER && i / c.count != (size_t)c.me))
            put(c.send, c.bytes, i, 0xeeeeeeeeeeeeeeeeull);
    for (size_t i = at; i < c.received; i += step) {
        unsigned long long got = get(c.recv, c.bytes, i), want = 0;
        const size_t in_message = c.coll == REDUCE_SCATTER ? i + c.me * c.count : i;

        /* in a reduce-scatter each rank has another part, so hashes would differ */
        if (c.coll != REDUCE_SCATTER)
            hash += (got + 1) * 0x9e3779b97f4a7c15ull ^ ((i + 1) * 0xbf58476d1ce4e5b9ull);
        if (c.coll == ALL_GATHER ? !same(c, seed, i, got, &want)
                                 : !right(c, place(seed, in_message), got, &want)) {
            wrong++;
            record->first = i, record->got = got, record->want = want;
        }
    }
    if (at < FUZZ_GUARD && (guarded(c)[-1 - (long)at] != (char)0xff ||
                            guarded(c)[guarded_bytes(c) + at] != (char)0xff)) {
        wrong++;
        record->first = ~0ull;
    }
    for (int d = 16; d > 0; d /= 2)
        hash += __shfl_xor_sync(~0u, hash, d);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&record->hash, hash);
    if (wrong != 0)
        atomicAdd(&record->wrong, wrong);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&c.lane->leaving, 1) == gridDim.x - 1) {
            record->tag = c.tag;
            c.lane->leaving = 0;
            c.lane->counter = counter + 1;
        }
    }
}

static __device__ unsigned long long now()
{
#ifdef ST_EMULATE
    return emulate_now_ns();
#else
    unsigned long long ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
#endif
}

static __global__ void spin(unsigned us)
{
    for (unsigned long long end = now() + us * 1000ull; now() < end;)
        __nanosleep(200);
}

static int blocks_for(const struct fuzz_call *call)
{
    size_t most = call->sent > call->received ? call->sent : call->received;
    size_t blocks = most / 1024 + 1;

    return blocks > 1056 ? 1056 : (int)blocks;
}

extern "C" int fuzz_prepare(const struct fuzz_call *call, void *stream)
{
    START(prepare, blocks_for(call), 256, stream, *call);
    return (int)cudaGetLastError();
}

extern "C" int fuzz_verify(const struct fuzz_call *call, void *stream)
{
    START(verify, blocks_for(call), 256, stream, *call);
    return (int)cudaGetLastError();
}

extern "C" int fuzz_stall(unsigned us, void *stream)
{
    START(spin, 1, 1, stream, us);
    return (int)cudaGetLastError();
}

extern "C" int fuzz_occupy(int blocks, unsigned us, void *stream)
{
    START(spin, blocks, 1024, stream, us);
    return (int)cudaGetLastError();
}

extern "C" int fuzz_load(void)
{
    struct cudaFuncAttributes a;
    cudaError_t e = cudaFuncGetAttributes(&a, (const void *)prepare);

    if (e == cudaSuccess)
        e = cudaFuncGetAttributes(&a, (const void *)verify);
    return (int)(e == cudaSuccess ? cudaFuncGetAttributes(&a, (const void *)spin) : e);
}
