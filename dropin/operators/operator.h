/* SPDX-License-Identifier: Apache-2.0 */
/* operator.h - the operators that a program creates with ncclRedOpCreatePreMulSum.
 *
 * Threads    as in NCCL: one thread at a time for each communicator. */
#ifndef ST_OPERATOR_H_
#define ST_OPERATOR_H_

#include "dropin/group.h"

/* Does libsymtuner_ar.so know operators that programs create? An older version does not. */
bool st_op_known(const struct st_comm *c);

/* Create an operator. If ${c} has a handle, our kernels know the operator, too. */
nccl_abi_result st_op_create(struct st_comm *c, int *op, void *scalar, int dtype, int residence);
/* Destroy an operator, at once or at the end of the open group: calls that wait for the end of the
 * group may still use it. NCCL itself destroys it at once, because it needs an operator only until
 * the call that uses it has returned. */
nccl_abi_result st_op_destroy(struct st_comm *c, int op);
/* Destroy the operators whose destruction waited for the end of the group. */
void st_ops_destroy(struct st_group *g);

#endif
