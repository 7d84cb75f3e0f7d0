/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_values.c - the inputs of random calls. Integer types get small integers. Floats get numbers
 * whose results show how often, and in which order, they were rounded. reference.h computes what
 * must come out, bit by bit.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/shared/dtypes.h"
#include "test/kernels/emulated/call_values.h"
#include "test/kernels/reference.h"

static int value(const struct call *c, int rank, size_t i)
{
    unsigned h = (unsigned)i * 2654435761u ^ (unsigned)(rank * 40503 + c->salt * 7919);

    h = (h ^ h >> 15) * 2246822519u;
    h >>= 13;
    return c->op == AR_PROD ? 1 + (int)h % 2 : (int)h % 4;
}

static int whole_scalar(const struct call *c, int rank)
{
    /* for unsigned types this number wraps around, and so do the products */
    return (c->salt + 4 * rank) % 9 - 4;
}

/* The float types smaller than f32. They have ${exponent} bits of the exponent, and ${digits} bits
 * after the leading 1. ${most} is the largest number if conversions saturate, or 0 if they go to
 * infinity. */
static const struct format {
    int exponent, digits;
    double most;
} formats[AR_DTYPES] = {
    [AR_F16] = {5, 10, 0},
    [AR_BF16] = {8, 7, 0},
    [AR_F8E4M3] = {4, 3, 448},
    [AR_F8E5M2] = {5, 2, 57344},
};

/* Return the bits of ${v} in format ${f}, rounded to the nearest, ties to even. */
static unsigned round_small(const struct format *f, double v)
{
    int bias = (1 << (f->exponent - 1)) - 1, e;
    unsigned sign = signbit(v) ? 1u << (f->exponent + f->digits) : 0;
    unsigned infinite = ((1u << f->exponent) - 1) << f->digits, n;

    if (fabs(v) > f->most && f->most > 0)
        v = f->most;
    if (v == 0)
        return sign;
    if (isinf(v))
        return sign | infinite;
    frexp(v, &e);
    e = e - 1 < 1 - bias ? 1 - bias : e - 1;
    /* If f stores v as a subnormal, n < 1 << digits. */
    n = (unsigned)nearbyint(ldexp(fabs(v), f->digits - e));
    n += (unsigned)(e + bias - 1) << f->digits; /* a carry may go into the exponent */
    return sign | (n < infinite || f->most > 0 ? n : infinite);
}

/* Write ${v} as element ${i} at ${p}. An integer type must be able to hold ${v}. A NaN is written
 * as ones in all bits. */
static void put(const struct call *c, char *p, size_t i, double v)
{
    size_t size = (size_t)ar_dtype_bytes(c->dtype);
    const struct format *small = &formats[c->dtype];
    float f = (float)v;
    unsigned bits;
    long long w;

    if (isnan(v)) {
        memset(p + size * i, 0xff, size);
    } else if (c->dtype == AR_F64) {
        memcpy(p + 8 * i, &v, 8);
    } else if (c->dtype == AR_F32) {
        memcpy(p + 4 * i, &f, 4);
    } else if (small->digits > 0) {
        bits = round_small(small, v);
        memcpy(p + size * i, &bits, size);
    } else {
        w = (long long)v;
        memcpy(p + size * i, &w, size);
    }
}

/* Return the value of the float at ${p}. */
static double get(int dtype, const char *p)
{
    const struct format *f = &formats[dtype];
    unsigned bits = 0, digits, infinite = (1u << f->exponent) - 1;
    int e;
    double v;
    float single;

    if (dtype == AR_F64)
        return memcpy(&v, p, 8), v;
    if (dtype == AR_F32)
        return memcpy(&single, p, 4), single;
    memcpy(&bits, p, (size_t)ar_dtype_bytes(dtype));
    digits = bits & ((1u << f->digits) - 1);
    e = (int)(bits >> f->digits & infinite);
    v = ldexp(digits + (e > 0 ? 1u << f->digits : 0),
              (e > 0 ? e : 1) + 1 - (1 << (f->exponent - 1)) - f->digits);
    if (dtype == AR_F8E4M3 ? (bits & 0x7f) == 0x7f : (unsigned)e == infinite)
        v = digits == 0 ? INFINITY : NAN;
    return bits >> (f->exponent + f->digits) ? -v : v;
}

/* Return whether the element at ${p} is a NaN, with any payload. */
static bool is_nan(int dtype, const char *p)
{
    const struct format *small = &formats[dtype];
    unsigned bits = 0, infinite = ((1u << small->exponent) - 1) << small->digits;
    double d;
    float f;

    if (dtype == AR_F64)
        return memcpy(&d, p, 8), isnan(d);
    if (dtype == AR_F32)
        return memcpy(&f, p, 4), isnan(f);
    if (small->digits == 0)
        return false;
    memcpy(&bits, p, (size_t)ar_dtype_bytes(dtype));
    bits &= (1u << (small->exponent + small->digits)) - 1;
    return dtype == AR_F8E4M3 ? bits == 0x7f : bits > infinite; /* e4m3 has no infinity */
}

static int expected(const struct call *c, int ranks, size_t i)
{
    int acc = 0;

    for (int r = 0; r < ranks; r++) {
        int v = value(c, r, i) * (c->op == AR_PREMUL ? whole_scalar(c, r) : 1);

        acc = r == 0             ? v
              : c->op == AR_PROD ? acc * v
              : c->op == AR_MAX  ? (v > acc ? v : acc)
              : c->op == AR_MIN  ? (v < acc ? v : acc)
                                 : acc + v;
    }
    return c->op == AR_AVG ? acc / ranks : acc;
}

static bool is_float(const struct call *c)
{
    return c->dtype == AR_F64 || c->dtype == AR_F32 || formats[c->dtype].digits > 0;
}

static bool is_16bit(const struct call *c)
{
    return ar_dtype_bytes(c->dtype) == 2;
}

/* Return a number of either sign that uses all digits of its type. The exponents of the ranks
 * differ so much that another order of addition gives other bits. Results may leave the range of
 * small types. */
static double far_apart(const struct call *c, unsigned random)
{
    static const struct {
        int digits, sum, prod; /* bits behind the leading one; the largest exponent, up and down,
                                  for sums and for products */
    } of[AR_DTYPES] = {
        [AR_F64] = {30, 60, 60}, [AR_F32] = {23, 50, 15},  [AR_BF16] = {7, 40, 15},
        [AR_F16] = {10, 14, 1},  [AR_F8E5M2] = {2, 14, 1}, [AR_F8E4M3] = {3, 6, 1},
    };
    int most = c->op == AR_PROD ? of[c->dtype].prod : of[c->dtype].sum;
    unsigned h = random * 2246822519u;
    double v = 1 + ldexp(h >> (32 - of[c->dtype].digits), -of[c->dtype].digits);

    v = ldexp(v, (int)((random >> 1) % (unsigned)(2 * most + 1)) - most);
    return random & 1 ? -v : v;
}

/* Return element ${i} of ${rank}'s input to a float call. Half of the elements come from
 * far_apart(). The others are small integers, or in f32 and f64 fractions of both signs times a
 * power of two up to 2^15. Of 61 elements in a row some are special:
 * - NaN: on one rank it has ones in all bits, which Lamport words must not carry;
 * - -0 on all ranks;
 * - order (types of 16 bits, not products): any other order of additions in f32 gives another
 *   result;
 * - far_off (products of bf16): products of some ranks are out of the range of f32;
 * - three, four (products of f16): f32 would round the product of these three numbers, or of these
 *   four, to exactly halfway between two numbers of f16;
 * - smallest (before a multiplication): the products keep few digits, and some are ties;
 * - infinity (f32, f64): on one rank;
 * - huge (f32, f64, not products): the largest numbers of f32, which cancel each other. The sum
 *   FLT_MAX - 1.5 ulp is a tie. With one order of its two operands TwoSum finds the rounding error,
 *   with the other order TwoSum overflows. */
static double rough(const struct call *c, int rank, size_t i)
{
    unsigned h = (unsigned)i * 97u + (unsigned)c->salt;
    unsigned far = (h ^ h >> 7) * 2654435761u * (unsigned)(2 * rank + 1);
    bool large = c->dtype == AR_F32 || c->dtype == AR_F64;
    double v = ((value(c, rank, i) + 1) * 0.3 + rank * 1e-3) * (1 << (far >> 28));
    static const double order[4] = {0x1p15, 0x1p-10, -0x1p15, 0x3p-10};
    static const double huge[4] = {FLT_MAX, -0x1.8p104, -FLT_MAX, 0x1p100};
    static const double far_off[4] = {0x1.8p100, 0x1.4p90, 0x1.02p-120, 0x1.ap-70};
    static const double three[4] = {0x1.06p0, 0x1.96cp0, 0x1.53p0, 1};
    static const double four[4] = {0x1.38cp0, 0x1.5d8p0, 0x1.794p0, 0x1.288p0};
    static const double smallest[AR_DTYPES] = {
        [AR_F64] = 0x1p-1074, [AR_F32] = 0x1p-149,   [AR_BF16] = 0x1p-133,
        [AR_F16] = 0x1p-24,   [AR_F8E5M2] = 0x1p-16, [AR_F8E4M3] = 0x1p-9,
    };

    far ^= far >> 15;
    if (is_16bit(c) && c->op == AR_PROD && h % 61 % 20 == 0)
        return (c->dtype == AR_BF16 ? far_off : h % 61 == 20 ? three : four)[rank % 4];
    if (is_16bit(c) && h % 61 == 20)
        return order[rank % 4];
    if (h % 61 == (unsigned)rank)
        return NAN;
    if (h % 61 == 30)
        return -0.0;
    if (h % 61 == 10 && c->op == AR_PREMUL)
        return (1 + 2 * rank) * smallest[c->dtype];
    if (large && h % 61 == 40 && rank == 1)
        return INFINITY;
    if (large && h % 61 == 50 && c->op != AR_PROD)
        return huge[rank % 4];
    if (i % 2 == 0)
        return far_apart(c, far);
    if (!large)
        return value(c, rank, i);
    v = far >> 27 & 1 ? -v : v;
    return c->dtype == AR_F32 ? (float)v : v;
}

void values_put(const struct call *c, char *p, int rank, size_t i)
{
    put(c, p, i, is_float(c) ? rough(c, rank, i) : value(c, rank, i));
}

int values_same(const struct call *c, const char *p, int rank, size_t i)
{
    char want[8];

    put(c, want, 0, is_float(c) ? rough(c, rank, i) : value(c, rank, i));
    return memcmp(p, want, (size_t)ar_dtype_bytes(c->dtype)) == 0;
}

void values_put_scalar(const struct call *c, char *p, int rank)
{
    /* With these scalars no product of a bf16 is so small that f32 has few digits left for it. The
     * test would round such a product twice, but GPUs round it once. */
    static const double scalars[] = {0.5,  1 / 3.0, -1.5,      0.125,      3, -0.0,
                                     1e-2, 1,       -INFINITY, 0.0625 * 7, 0, NAN};

    put(c, p, 0,
        is_float(c) ? scalars[(c->salt + 5 * rank) % (rank == c->salt % 4 ? 12 : 5)]
                    : whole_scalar(c, rank));
}

/* Return the number that rank ${rank} adds for element ${i} of a float call. */
static double addend(const struct call *c, int rank, size_t i)
{
    char p[8];
    double v = rough(c, rank, i), s;

    if (c->op != AR_PREMUL)
        return v;
    values_put_scalar(c, p, rank);
    s = get(c->dtype, p);
    put(c, p, 0, v); /* this rounds v */
    put(c, p, 0, s * get(c->dtype, p));
    return get(c->dtype, p);
}

int values_right(const struct call *c, int ranks, const char *p, size_t i)
{
    size_t size = (size_t)ar_dtype_bytes(c->dtype);
    double x[REFERENCE_MOST] = {0}, sum;
    char want[8];

    for (int r = 0; r < ranks; r++)
        x[r] = is_float(c) ? addend(c, r, i) : 0;
    sum = is_float(c) ? reference_reduce(c->dtype, c->op == AR_PREMUL ? AR_SUM : c->op, x, ranks)
                      : expected(c, ranks, i);
    if (isnan(sum))
        return is_nan(c->dtype, p);
    put(c, want, 0, sum);
    return memcmp(p, want, size) == 0;
}
