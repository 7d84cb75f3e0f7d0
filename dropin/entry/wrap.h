/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrap.h - the functions that programs call instead of NCCL's.
 *
 * There are two kinds. The exported functions are for programs that are linked with NCCL. They use
 * the return address to find the copy of NCCL that a call is for. The other functions are for
 * programs that get NCCL's functions from dlsym. There is one such function for each function of
 * known.h and each copy of NCCL; st_wrapper returns it.
 */
#ifndef ST_WRAP_H_
#define ST_WRAP_H_

#include "dropin/entry/real.h"

/* Return our function that programs call instead of function number ${known} of NCCL ${real}. */
void *st_wrapper(const struct st_real *real, int known);

/* Is ${symbol} our exported function number ${known}? */
bool st_wrapper_is_export(const void *symbol, int known);

#endif
