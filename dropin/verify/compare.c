/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/verify/compare.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { SUM, PROD, MAX, MIN, AVG }; /* ncclRedOp_t */

/* NCCL's types, by number. ${bytes}: the size of an element. ${fraction}, ${exponent}: the sizes of
 * these fields in bits; 0 for integers. ${ieee}: the highest exponent means infinity or NaN, as in
 * IEEE 754. False, as for e4m3: the highest exponent means ordinary numbers, and one NaN. */
static const struct {
    unsigned char bytes, is_signed, fraction, exponent;
    bool ieee;
} type[] = {
    [0] = {1, 1, 0, 0, false}, [1] = {1, 0, 0, 0, false},  [2] = {4, 1, 0, 0, false},
    [3] = {4, 0, 0, 0, false}, [4] = {8, 1, 0, 0, false},  [5] = {8, 0, 0, 0, false},
    [6] = {2, 1, 10, 5, true}, [7] = {4, 1, 23, 8, true},  [8] = {8, 1, 52, 11, true},
    [9] = {2, 1, 7, 8, true},  [10] = {1, 1, 3, 4, false}, [11] = {1, 1, 2, 5, true},
};
enum { TYPES = sizeof type / sizeof *type };

static uint64_t bits_at(const void *numbers, size_t i, int dtype)
{
    const unsigned char *at = (const unsigned char *)numbers + i * type[dtype].bytes;
    uint64_t bits = 0;

    memcpy(&bits, at, type[dtype].bytes); /* little-endian: the low bytes come first */
    return bits;
}

static double float_of(uint64_t bits, int dtype)
{
    int f = type[dtype].fraction, e = type[dtype].exponent, bias = (1 << (e - 1)) - 1;
    uint64_t fraction = bits & ((UINT64_C(1) << f) - 1);
    int exponent = (int)(bits >> f & ((UINT64_C(1) << e) - 1)), top = (1 << e) - 1;
    double sign = bits >> (f + e) & 1 ? -1 : 1;

    if (exponent == top && type[dtype].ieee)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == top && fraction == (UINT64_C(1) << f) - 1)
        return NAN;
    if (exponent == 0)
        return sign * ldexp((double)fraction, 1 - bias - f);
    return sign * ldexp((double)(fraction | UINT64_C(1) << f), exponent - bias - f);
}

static double value_of(uint64_t bits, int dtype)
{
    int shift = 64 - 8 * type[dtype].bytes;

    if (type[dtype].fraction)
        return float_of(bits, dtype);
    return type[dtype].is_signed ? (double)((int64_t)(bits << shift) >> shift) : (double)bits;
}

static double largest(int dtype)
{
    uint64_t top = (UINT64_C(1) << (type[dtype].fraction + type[dtype].exponent)) - 1;

    return float_of(type[dtype].ieee ? top - (UINT64_C(1) << type[dtype].fraction) : top - 1,
                    dtype);
}

double st_compare_most(const void *numbers, size_t count, int dtype)
{
    double most = 0;

    if (dtype < 0 || dtype >= TYPES)
        return 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(value_of(bits_at(numbers, i, dtype), dtype)));
    return most;
}

/* Are ${a} and ${b} equal within rounding? No partial sum is larger than ranks x ${most}. So each
 * rounding changes a result by at most half an epsilon times ranks x ${most}. Two results may err
 * in opposite directions, so they may differ by twice as much for each rounding. */
static bool floats_alike(double a, double b, int dtype, int op, int ranks, double most)
{
    double epsilon = ldexp(1, -type[dtype].fraction), sum = ranks * most;

    if (a == b || (isnan(a) && isnan(b)))
        return true;
    if (op == MAX || op == MIN)
        return isnan(a) || isnan(b);    /* some kernels keep a NaN, others drop it */
    if (!isfinite(a) || !isfinite(b)) { /* one kernel may add in a wider type and not overflow */
        double other = isfinite(a) ? a : b;

        return !isfinite(other) || fabs(other) > largest(dtype) / 2 || sum > largest(dtype) / 2 ||
               op == PROD;
    }
    if (op == PROD)
        return fabs(a - b) <= epsilon * ranks * fmax(fabs(a), fabs(b)) + float_of(ranks, dtype);
    if (op == AVG)
        sum = most;
    return fabs(a - b) <= epsilon * ranks * sum + float_of(1, dtype);
}

bool st_compare_alike(const void *a, const void *b, size_t count, int dtype, int op, int ranks,
                      double most, size_t *where_out)
{
    if (dtype < 0 || dtype >= TYPES)
        return true;
    for (size_t i = 0; i < count; i++) {
        uint64_t x = bits_at(a, i, dtype), y = bits_at(b, i, dtype);
        double p, q;

        if (x == y)
            continue;
        p = value_of(x, dtype);
        q = value_of(y, dtype);
        if (type[dtype].fraction ? floats_alike(p, q, dtype, op, ranks, most)
                                 : op == AVG && fabs(p - q) <= 1)
            continue;
        *where_out = i;
        return false;
    }
    return true;
}
