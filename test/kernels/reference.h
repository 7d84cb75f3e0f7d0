/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.h - computes to the last bit what an all-reduce of floats must return, with the fixed
 * order of addition and the rounding of each type. The kernels are tested against it, so it shares
 * no code with them. Compiles as C and for CUDA's device side.
 *
 * Units: all numbers are doubles. The inputs are numbers that the call's data type can hold. The
 * result is not yet rounded to this type: the caller rounds it once, to the nearest value, ties to
 * even.
 */
#ifndef ST_TEST_REFERENCE_H_
#define ST_TEST_REFERENCE_H_

#include <float.h>
#include <math.h>

#include "kernels/shared/dtypes.h"
#ifdef ST_EMULATE
#include "test/kernels/emulated/emulate.h" /* has fmax and fmin as on a GPU */
#endif

#ifdef __CUDACC__
#define ST_REFERENCE static __host__ __device__ inline
#else
#define ST_REFERENCE static inline
#endif

#define REFERENCE_MOST 16 /* the largest number of ranks */

struct reference_step {
    int to, from;
};

/*
 * Write to ${step} the additions that sum up one number of each of ${n} ranks, and return how many
 * additions there are (n - 1). Ranks form groups of four, and a group is added as (r0 + r1) + (r2 +
 * r3). Then the sums of the groups are added one after the other. Each step adds the number of rank
 * ${from} to the number of rank ${to}. After the last step, the number of rank 0 is the sum.
 */
ST_REFERENCE int reference_order(int n, struct reference_step *step)
{
    int k = 0;

#define ADD(x, y) (step[k].to = (x), step[k].from = (y), k++)
    for (int group = 0; group < n; group += 4) {
        for (int two = group; two < group + 4 && two + 1 < n; two += 2)
            ADD(two, two + 1);
        if (group + 2 < n)
            ADD(group, group + 2);
        if (group > 0)
            ADD(0, group);
    }
#undef ADD
    return k;
}

/* A sum in f32: the rounded sum, and the sum of what the roundings dropped. */
struct reference_f32 {
    float sum, lost;
};

ST_REFERENCE struct reference_f32 reference_add_f32(struct reference_f32 x, struct reference_f32 y)
{
    float high = fabsf(x.sum) < fabsf(y.sum) ? y.sum : x.sum;
    float low = fabsf(x.sum) < fabsf(y.sum) ? x.sum : y.sum;
    struct reference_f32 both;

    both.sum = x.sum + y.sum;
    both.lost = x.lost + y.lost + (low - (both.sum - high));
    return both;
}

/* Return the sum divided by ${divisor}, rounded once to a float. The quotient includes what the
 * additions dropped. */
ST_REFERENCE float reference_round_f32(struct reference_f32 x, int divisor)
{
    float share = 1.0f / (float)divisor, near = x.sum * share;
    float left = fmaf(-(float)divisor, near, x.sum) + x.lost;

    return fabsf(left) > 0 && fabsf(left) <= FLT_MAX ? fmaf(left, share, near) : near;
}

ST_REFERENCE double reference_f32_of(const double *x, int n, int divisor)
{
    struct reference_step step[REFERENCE_MOST];
    struct reference_f32 v[REFERENCE_MOST];
    int steps = reference_order(n, step);

    for (int r = 0; r < n; r++)
        v[r].sum = (float)x[r], v[r].lost = 0;
    for (int k = 0; k < steps; k++)
        v[step[k].to] = reference_add_f32(v[step[k].to], v[step[k].from]);
    return reference_round_f32(v[0], divisor);
}

/* Return x and y combined by ${op}, in the type in which the kernels combine numbers of ${dtype}:
 * f64 for f64 and for products of all types except fp8, and f32 otherwise. */
ST_REFERENCE double reference_apply(int dtype, int op, double x, double y)
{
    int small = dtype == AR_F8E4M3 || dtype == AR_F8E5M2;

    if (op == AR_MAX || op == AR_MIN)
        return op == AR_MAX ? fmax(x, y) : fmin(x, y);
    if (op == AR_PROD)
        return small ? (double)((float)x * (float)y) : x * y;
    return dtype == AR_F64 ? x + y : (double)((float)x + (float)y);
}

/* Return the reduction of x[0..n-1], one number per rank. Overwrites x. */
ST_REFERENCE double reference_reduce(int dtype, int op, double *x, int n)
{
    struct reference_step step[REFERENCE_MOST];
    int steps = reference_order(n, step);

    if (dtype == AR_F32 && (op == AR_SUM || op == AR_AVG))
        return reference_f32_of(x, n, op == AR_AVG ? n : 1);
    for (int k = 0; k < steps; k++)
        x[step[k].to] = reference_apply(dtype, op, x[step[k].to], x[step[k].from]);
    if (op != AR_AVG)
        return x[0];
    return dtype == AR_F64 ? x[0] / n : (double)((float)x[0] * (1.0f / (float)n));
}

#endif
