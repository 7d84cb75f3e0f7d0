/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gates.h - the ordered conditions of symtuner_why.h, evaluated.
 *
 * Pure: no I/O, no allocation, no globals. The public functions are symtuner_predict and the
 * texts; this header adds what only the plugin needs.
 */
#ifndef ST_GATES_H_
#define ST_GATES_H_

#include "nccl/model/symmetric_cost.h"
#include "symtuner_why.h"

/* The call as the symmetric model wants it. */
struct st_sym_query st_sym_query_of(const struct symtuner_call *call);

#endif
