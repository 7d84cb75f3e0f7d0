/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - the three collectives that may run on our kernels, and NCCL's groups.
 *
 * Who runs a call depends only on what all ranks share: communicator, collective, count, type,
 * operator, whether the buffers lie in windows, and the collectives of the same communicator in the
 * same group. Sends and receives in a group change nothing, because other ranks may have none.
 *
 * A group's calls for our kernels wait until the outermost ncclGroupEnd. They run after NCCL's part
 * of the group, because the kernels may need NCCL for more scratch memory, outside of groups.
 *
 * Threads    groups are of one thread, as in NCCL.
 */
#ifndef ST_CALL_H_
#define ST_CALL_H_

#include "dropin/group.h"

/* A group of more collectives than this on one communicator is NCCL's, which runs them in one
 * kernel. */
enum { ST_GROUP_MOST = 4 };

nccl_abi_result st_call(struct st_from from, const struct st_call *call);
/* Count a call that NCCL always runs, just before it goes there; if it is a collective, also in the
 * open group. ${per_rank}: the call's larger buffer has ${count} elements for each rank. */
void st_call_forwarded(struct st_comm *c, struct st_real *real, enum st_tally_coll coll,
                       bool collective, size_t count, int dtype, bool per_rank);
/* Note that NCCL refused a call: if a group is open, our kernels run none of it. */
void st_call_failed(struct st_real *real);

/* Make an operator, known to our kernels as well if ${c} has a handle. */
nccl_abi_result st_op_create(struct st_comm *c, int *op, void *scalar, int dtype, int residence);
/* Destroy an operator, at the end of a group if calls of the group may use it. NCCL no longer needs
 * an operator once the call with it has returned. */
nccl_abi_result st_op_destroy(struct st_comm *c, int op);

nccl_abi_result st_group_start(struct st_from from);
nccl_abi_result st_group_end(struct st_from from);
nccl_abi_result st_group_simulate(struct st_from from, void *info);

#endif
