/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_values.c - small integers, so that sums are exact in every type; and for most operators on
 * f32, and sums of f64, numbers that show how often and in which order a result was rounded.
 */
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

static void put(const struct call *c, char *p, size_t i, int v)
{
    float f = (float)v;
    double d = v;
    long long w = v;
    unsigned bits;

    memcpy(&bits, &f, 4);
    switch (c->dtype) {
    case ST_F64:
        memcpy(p + 8 * i, &d, 8);
        break;
    case ST_F32:
        memcpy(p + 4 * i, &f, 4);
        break;
    case ST_BF16:
        memcpy(p + 2 * i, (char *)&bits + 2, 2);
        break;
    case ST_F16: /* small integers only: rebias the exponent */
        bits = v == 0 ? 0 : ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff);
        memcpy(p + 2 * i, &bits, 2);
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
        memcpy(p + (size_t)st_dtype_bytes(c->dtype) * i, &w, (size_t)st_dtype_bytes(c->dtype));
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

/* What is not small integers, since it is to show how results are rounded. */
static bool is_rough(const struct call *c)
{
    return (c->dtype == ST_F32 && c->op != ST_MAX && c->op != ST_MIN) ||
           (c->dtype == ST_F64 && c->op == ST_SUM);
}

/* Both signs, sixteen powers of two; of 61 elements one is the NaN of all ones, which Lamport words
 * must not carry, on one rank, one is infinite on one, and one is -0 on all. */
static double rough(const struct call *c, int rank, size_t i)
{
    unsigned h = (unsigned)i * 97u + (unsigned)c->salt,
             far = h * 2654435761u * (unsigned)(rank + 1);
    double v = ((value(c, rank, i) + 1) * 0.3 + rank * 1e-3) * (1 << (far >> 28));

    if (h % 61 == (unsigned)rank)
        return NAN;
    if (h % 61 == 30)
        return -0.0;
    if (h % 61 == 40 && rank == 1)
        return INFINITY;
    v = far >> 27 & 1 ? -v : v;
    return c->dtype == ST_F32 ? (float)v : v;
}

static void put_rough(const struct call *c, char *p, size_t i, double v)
{
    float f = (float)v;

    if (v != v)
        memset(p + (size_t)st_dtype_bytes(c->dtype) * i, 0xff, (size_t)st_dtype_bytes(c->dtype));
    else if (c->dtype == ST_F32)
        memcpy(p + 4 * i, &f, 4);
    else
        memcpy(p + 8 * i, &v, 8);
}

void values_put(const struct call *c, char *p, int rank, size_t i)
{
    if (is_rough(c))
        put_rough(c, p, i, rough(c, rank, i));
    else
        put(c, p, i, value(c, rank, i));
}

/* In double, and in the order of the word kernels (kernels/ar_reduce.cuh) or, as the others add, in
 * that of the ranks. Sums of f32 are exact in it, whatever the order; so is rounding them once. */
static double rough_result(const struct call *c, int ranks, size_t i)
{
    int by_fours = strncmp(c->kernel, "one_", 4) == 0 || strncmp(c->kernel, "two_", 4) == 0;
    double acc = rough(c, 0, i);

    for (int r = 1; r < ranks && c->op == ST_PROD; r++)
        acc *= rough(c, r, i);
    if (c->op == ST_PROD)
        return acc;
    for (int r = 1; r < ranks && !by_fours; r++)
        acc += rough(c, r, i);
    for (int r = 0; r < ranks && by_fours; r += 4) {
        double two[2] = {rough(c, r, i), r + 2 < ranks ? rough(c, r + 2, i) : 0};

        for (int k = 0; k < 2; k++)
            if (r + 2 * k + 1 < ranks)
                two[k] += rough(c, r + 2 * k + 1, i);
        if (r + 2 < ranks)
            two[0] += two[1];
        acc = r == 0 ? two[0] : acc + two[0];
    }
    return c->op == ST_AVG ? acc / ranks : acc;
}

int values_right(const struct call *c, int ranks, const char *recv, size_t i)
{
    size_t size = (size_t)st_dtype_bytes(c->dtype);
    double sum, got;
    char want[8];
    float f;

    if (!is_rough(c)) {
        put(c, want, 0, expected(c, ranks, i));
        return memcmp(recv + i * size, want, size) == 0;
    }
    sum = rough_result(c, ranks, i);
    put_rough(c, want, 0, sum);
    if (memcmp(recv + i * size, want, size) == 0)
        return 1;
    memcpy(size == 4 ? (void *)&f : &got, recv + i * size, size);
    if (sum != sum)
        return size == 4 ? f != f : got != got;
    /* a third of a sum may lie in the middle between two floats: either is as near */
    return c->op == ST_AVG && fabs(f - sum) <= fabs((float)sum - sum) * (1 + 1e-6);
}
