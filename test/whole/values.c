/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.c - elements of NCCL's types, and reductions of two elements. Sums and products are
 * computed as double and then rounded to the type. The result is right for all types, but 64-bit
 * integers must stay below 2^53.
 */
#include "test/whole/values.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint16_t bits;
} bf16;

static double from_bf16(bf16 x)
{
    uint32_t wide = (uint32_t)x.bits << 16;
    float f;

    memcpy(&f, &wide, sizeof f);
    return (double)f;
}

static bf16 to_bf16(double value)
{
    float f = (float)value;
    uint32_t wide;

    memcpy(&wide, &f, sizeof wide);
    return (bf16){(uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16)};
}

typedef struct {
    uint16_t bits;
} f16;

static double from_f16(f16 x)
{
    int exponent = x.bits >> 10 & 31, mantissa = x.bits & 1023;
    double value = exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(mantissa, -24)
                                   : ldexp(mantissa + 1024, exponent - 25);

    return x.bits >> 15 != 0 ? -value : value;
}

static f16 to_f16(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0, infinite = 0x7c00;
    double units;
    int unit; /* the last bit stands for 2^unit */

    if (isnan(value))
        return (f16){sign | infinite | 0x200};
    if (isinf(value))
        return (f16){sign | infinite};
    if (value == 0)
        return (f16){sign};
    frexp(value, &unit);
    unit = unit - 11 < -24 ? -24 : unit - 11;
    units = ((unit + 24) << 10) + nearbyint(ldexp(fabs(value), -unit));
    return (f16){sign | (units < infinite ? (uint16_t)units : infinite)};
}

#define WRAPPED(type) (type)(int64_t)

#define TYPE(name, type, from, to)                                                                 \
    static double get_##name(const void *p, size_t i)                                              \
    {                                                                                              \
        return from(((const type *)p)[i]);                                                         \
    }                                                                                              \
    static void put_##name(void *p, size_t i, double value)                                        \
    {                                                                                              \
        ((type *)p)[i] = to(value);                                                                \
    }
TYPE(int8, int8_t, (double), WRAPPED(int8_t))
TYPE(uint8, uint8_t, (double), WRAPPED(uint8_t))
TYPE(int32, int32_t, (double), WRAPPED(int32_t))
TYPE(uint32, uint32_t, (double), WRAPPED(uint32_t))
TYPE(int64, int64_t, (double), WRAPPED(int64_t))
TYPE(uint64, uint64_t, (double), WRAPPED(uint64_t))
TYPE(float, float, (double), (float))
TYPE(double, double, (double), (double))
TYPE(f16, f16, from_f16, to_f16)
TYPE(bf16, bf16, from_bf16, to_bf16)

/* A type without functions can be moved, but not added up. */
static const struct row {
    size_t size;
    double (*get)(const void *p, size_t i);
    void (*put)(void *p, size_t i, double value);
} rows[] = {
    [ncclInt8] = {1, get_int8, put_int8},
    [ncclUint8] = {1, get_uint8, put_uint8},
    [ncclInt32] = {4, get_int32, put_int32},
    [ncclUint32] = {4, get_uint32, put_uint32},
    [ncclInt64] = {8, get_int64, put_int64},
    [ncclUint64] = {8, get_uint64, put_uint64},
    [ncclFloat16] = {2, get_f16, put_f16},
    [ncclFloat32] = {4, get_float, put_float},
    [ncclFloat64] = {8, get_double, put_double},
    [ncclBfloat16] = {2, get_bf16, put_bf16},
    [ncclFloat8e4m3] = {1, NULL, NULL},
    [ncclFloat8e5m2] = {1, NULL, NULL},
};

static const struct row *row_of(int type, bool adds)
{
    const bool known = type >= 0 && type < (int)(sizeof rows / sizeof *rows);

    if (!known || (adds && rows[type].get == NULL)) {
        fprintf(stderr, "nccl: add type %d to the table of test/whole/values.c\n", type);
        abort();
    }
    return &rows[type];
}

size_t whole_size(int type)
{
    return row_of(type, false)->size;
}

double whole_get(const void *p, size_t i, int type)
{
    return row_of(type, true)->get(p, i);
}

void whole_put(void *p, size_t i, int type, double value)
{
    row_of(type, true)->put(p, i, value);
}

double whole_rounded(double value, int type)
{
    double stored;

    whole_put(&stored, 0, type, value);
    return whole_get(&stored, 0, type);
}

double whole_both(double a, double b, int reduction, int type)
{
    return whole_rounded(reduction == ncclProd  ? a * b
                         : reduction == ncclMax ? (a > b ? a : b)
                         : reduction == ncclMin ? (a < b ? a : b)
                                                : a + b,
                         type);
}
