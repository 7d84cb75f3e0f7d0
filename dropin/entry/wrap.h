/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrap.h - the functions that programs call in NCCL's place.
 *
 * There are two kinds. The exported functions serve programs that are linked with NCCL. They find
 * the NCCL by the address of their caller. Further functions serve programs that ask dlsym for a
 * function of one copy of NCCL. There is a set of them for each copy, and st_wrapper returns them.
 */
#ifndef ST_WRAP_H_
#define ST_WRAP_H_

#include "dropin/entry/real.h"

/* Return our function that stands in front of function number ${known} of NCCL ${real}. */
void *st_wrapper(const struct st_real *real, int known);

/* Is ${symbol} our exported function number ${known}? */
bool st_wrapper_is_export(const void *symbol, int known);

#endif
