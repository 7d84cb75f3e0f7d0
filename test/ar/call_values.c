/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_values.c - small integers, so that sums are exact in every type; and for most operators on
 * f32, sums and products of f16 and bf16, and sums of f64, numbers that show how often and in which
 * order a result was rounded.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/ar_kinds.h"
#include "test/ar/call_values.h"

static int value(const struct call *c, int rank, size_t i)
{
    unsigned h = (unsigned)i * 2654435761u ^ (unsigned)(rank * 40503 + c->salt * 7919);

    h = (h ^ h >> 15) * 2246822519u;
    h >>= 13;
    /* sums of four must be exact in e5m2's three bits, sums of eight in e4m3's four */
    return c->op == ST_PROD ? 1 + (int)h % 2 : (int)h % (c->dtype >= ST_F8E4M3 ? 2 : 4);
}

/* bf16 or f16, to the nearest even; for f16 0 and what is neither too small nor too large. Of the
 * two floats around ${v} the odd one is rounded: no tie comes of what is none. */
static void put_16bit(const struct call *c, char *p, size_t i, double v)
{
    unsigned bits, dropped = c->dtype == ST_F16 ? 13 : 16, sign;
    float f = (float)v;

    memcpy(&bits, &f, 4);
    if (f != v && isfinite(f) && bits % 2 == 0)
        bits = fabs(v) > fabs(f) ? bits + 1 : bits - 1;
    sign = bits >> 31 << 15;
    bits = bits << 1 >> 1;
    if (c->dtype == ST_F16 && bits != 0)
        bits -= 112u << 23;
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    bits = sign | bits >> dropped;
    memcpy(p + 2 * i, &bits, 2);
}

/* For 8 bits and for integers ${v} must be small and whole. NaN: all ones. */
static void put(const struct call *c, char *p, size_t i, double v)
{
    size_t size = (size_t)st_dtype_bytes(c->dtype);
    float f = (float)v;
    long long w;
    unsigned bits;

    memcpy(&bits, &f, 4);
    if (v != v) {
        memset(p + size * i, 0xff, size);
        return;
    }
    switch (c->dtype) {
    case ST_F64:
        memcpy(p + 8 * i, &v, 8);
        break;
    case ST_F32:
        memcpy(p + 4 * i, &f, 4);
        break;
    case ST_BF16:
    case ST_F16:
        put_16bit(c, p, i, v);
        break;
    case ST_F8E5M2:
        bits = v == 0 ? 0 : ((bits >> 23) - 112) << 2 | (bits >> 21 & 3);
        p[i] = (char)bits;
        break;
    case ST_F8E4M3:
        bits = v == 0 ? 0 : ((bits >> 23) - 120) << 3 | (bits >> 20 & 7);
        p[i] = (char)bits;
        break;
    default:
        w = (long long)v;
        memcpy(p + size * i, &w, size);
    }
}

static int expected(const struct call *c, int ranks, size_t i)
{
    int acc = value(c, 0, i);

    for (int r = 1; r < ranks; r++) {
        int v = value(c, r, i);

        acc = c->op == ST_PROD  ? acc * v
              : c->op == ST_MAX ? (v > acc ? v : acc)
              : c->op == ST_MIN ? (v < acc ? v : acc)
                                : acc + v;
    }
    return acc;
}

static bool is_16bit(const struct call *c)
{
    return st_dtype_bytes(c->dtype) == 2;
}

/* What is not small integers, since it is to show how results are rounded. */
static bool is_rough(const struct call *c)
{
    if (is_16bit(c))
        return c->op == ST_SUM || c->op == ST_PROD;
    return c->dtype == ST_F32 ? c->op != ST_MAX && c->op != ST_MIN
                              : c->dtype == ST_F64 && c->op == ST_SUM;
}

/* 16 bits: small integers, and of 61 elements one that f32 adds up to something else in any other
 * order, and a few whose products f32 cannot hold: of bf16 it has not the range, and of f16 it
 * rounds these three and these four to just between two numbers. f32, f64: both signs, sixteen
 * powers of two; of 61 elements one is the NaN of all ones, which Lamport words must not carry, on
 * one rank, one is infinite on one, one is -0 on all, and one is as large as f32 gets and cancels:
 * FLT_MAX - 1.5 ulp is a tie, whose error TwoSum finds in one order of the two only and overflows
 * in the other. */
static double rough(const struct call *c, int rank, size_t i)
{
    unsigned h = (unsigned)i * 97u + (unsigned)c->salt,
             far = h * 2654435761u * (unsigned)(rank + 1);
    double v = ((value(c, rank, i) + 1) * 0.3 + rank * 1e-3) * (1 << (far >> 28));
    static const double order[4] = {0x1p15, 0x1p-10, -0x1p15, 0x3p-10};
    static const double huge[4] = {FLT_MAX, -0x1.8p104, -FLT_MAX, 0x1p100};
    static const double far_off[4] = {0x1.8p100, 0x1.4p90, 0x1.02p-120, 0x1.ap-70};
    static const double three[4] = {0x1.06p0, 0x1.96cp0, 0x1.53p0, 1};
    static const double four[4] = {0x1.38cp0, 0x1.5d8p0, 0x1.794p0, 0x1.288p0};

    if (is_16bit(c) && c->op == ST_PROD && h % 61 % 20 == 0)
        return (c->dtype == ST_BF16 ? far_off : h % 61 == 20 ? three : four)[rank % 4];
    if (is_16bit(c))
        return h % 61 == 20 ? order[rank % 4] : value(c, rank, i);
    if (h % 61 == (unsigned)rank)
        return NAN;
    if (h % 61 == 30)
        return -0.0;
    if (h % 61 == 40 && rank == 1)
        return INFINITY;
    if (h % 61 == 50 && c->op != ST_PROD)
        return huge[rank % 4];
    v = far >> 27 & 1 ? -v : v;
    return c->dtype == ST_F32 ? (float)v : v;
}

void values_put(const struct call *c, char *p, int rank, size_t i)
{
    put(c, p, i, is_rough(c) ? rough(c, rank, i) : value(c, rank, i));
}

static double add(const struct call *c, double x, double y)
{
    return is_16bit(c) ? (float)(x + y) : x + y;
}

/* In double (sums of 16 bits: in float), and in the order of the word kernels
 * (kernels/ar_reduce.cuh) or, as the others add, in that of the ranks. Sums of f32 are exact in
 * double, whatever the order, so that putting them rounds them once. */
static double rough_result(const struct call *c, int ranks, size_t i)
{
    int by_fours = strncmp(c->kernel, "one_", 4) == 0 || strncmp(c->kernel, "two_", 4) == 0;
    double acc = rough(c, 0, i);

    for (int r = 1; r < ranks && c->op == ST_PROD; r++)
        acc *= rough(c, r, i);
    if (c->op == ST_PROD)
        return acc;
    for (int r = 1; r < ranks && !by_fours; r++)
        acc = add(c, acc, rough(c, r, i));
    for (int r = 0; r < ranks && by_fours; r += 4) {
        double two[2] = {rough(c, r, i), r + 2 < ranks ? rough(c, r + 2, i) : 0};

        for (int k = 0; k < 2; k++)
            if (r + 2 * k + 1 < ranks)
                two[k] = add(c, two[k], rough(c, r + 2 * k + 1, i));
        if (r + 2 < ranks)
            two[0] = add(c, two[0], two[1]);
        acc = r == 0 ? two[0] : add(c, acc, two[0]);
    }
    return c->op == ST_AVG ? acc / ranks : acc;
}

int values_right(const struct call *c, int ranks, const char *recv, size_t i)
{
    size_t size = (size_t)st_dtype_bytes(c->dtype);
    double sum = is_rough(c) ? rough_result(c, ranks, i) : expected(c, ranks, i), d;
    char want[8];
    float f;

    put(c, want, 0, sum);
    if (memcmp(recv + i * size, want, size) == 0)
        return 1;
    if (c->dtype == ST_F64) {
        memcpy(&d, recv + 8 * i, 8);
        return sum != sum && d != d;
    }
    if (c->dtype != ST_F32)
        return 0;
    memcpy(&f, recv + 4 * i, 4);
    if (sum != sum)
        return f != f;
    /* a third of a sum may lie in the middle between two floats: either is as near */
    return c->op == ST_AVG && fabs(f - sum) <= fabs((float)sum - sum) * (1 + 1e-6);
}
