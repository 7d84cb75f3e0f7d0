/* SPDX-License-Identifier: Apache-2.0 */
/* reduction.h - recognise the operator of a reduction from the instructions of its computation. */
#ifndef HLO_REDUCTION_H_
#define HLO_REDUCTION_H_

#include "jax/hlo/module.h"
#include "jax/hlo/types.h"

/* Set *op to the ncclRedOp_t that does what computation ${id} does to elements of ${type}. Returns
 * NULL, or why there is no such operator. */
const char *hlo_reduction_read(const struct hlo_module *module, int64_t id,
                               const struct hlo_type *type, int *op);

#endif
