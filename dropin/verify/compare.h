/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - are two results of one collective the same, within the rounding of its type? Pure. */
#ifndef ST_COMPARE_H_
#define ST_COMPARE_H_

#include <stdbool.h>
#include <stddef.h>

/* Return the largest magnitude of ${count} numbers of NCCL's type ${dtype}. NaNs do not count. */
double st_compare_most(const void *numbers, size_t count, int dtype);

/*
 * st_compare_alike(a, b, count, dtype, op, ranks, most, where_out):
 * Compare the results ${a} and ${b} of operator ${op} over ${ranks} ranks, whose inputs have
 * magnitudes of at most ${most}. Integers must be equal, but averages of integers may differ by 1.
 * Floats may differ as much as if the same numbers were added or multiplied in another order, and
 * rounded to the type after each step. Returns false if a number differs more, with its index in
 * ${where_out}.
 */
bool st_compare_alike(const void *a, const void *b, size_t count, int dtype, int op, int ranks,
                      double most, size_t *where_out);

#endif
