/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrap.h - the functions that programs call in NCCL's place.
 *
 * There are two kinds. The exported functions serve programs that are linked with NCCL, and find
 * the NCCL by their caller. st_wrapper returns further functions, one set for each copy of NCCL,
 * for programs that ask dlsym for a function of one copy.
 */
#ifndef ST_WRAP_H_
#define ST_WRAP_H_

#include "dropin/entry/real.h"

/* Return our function that stands in front of function number ${known} of the library ${real}. */
void *st_wrapper(const struct st_real *real, int known);

/* Is ${symbol} our exported function number ${known}? */
bool st_wrapper_is_export(const void *symbol, int known);

#endif
