/* SPDX-License-Identifier: Apache-2.0 */
/* values.h - reads and writes elements of NCCL's types, and reduces two of them as NCCL does. */
#ifndef TEST_WHOLE_VALUES_H_
#define TEST_WHOLE_VALUES_H_

#include <nccl.h>
#include <stddef.h>

/* Return the size of an element in bytes. All functions here end the program if the table in
 * values.c lacks the type. */
size_t whole_size(int type);

/* Return element ${i} at ${p}. */
double whole_get(const void *p, size_t i, int type);

/* Return what NCCL stores for ${value}: integers wrap around, floats are rounded. */
double whole_rounded(double value, int type);

/* Store ${value}, rounded, as element ${i} at ${p}. */
void whole_put(void *p, size_t i, int type, double value);

/* Return ${a} and ${b} reduced by the built-in operator ${reduction}, rounded. For ncclAvg, return
 * the sum. */
double whole_both(double a, double b, int reduction, int type);

#endif
