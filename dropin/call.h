/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - the three collectives that may run on our kernels, and NCCL's groups.
 *
 * All ranks must decide alike whether NCCL or our kernels run a call. So the decision depends only
 * on what is the same on all ranks: the communicator, the collective, count, type and operator,
 * whether the buffers lie in windows, and which collectives the group has on this communicator.
 * The group's sends and receives must not matter, because another rank may have none.
 *
 * In a group, calls for our kernels wait until the outermost ncclGroupEnd, and run after the
 * group's calls that go to NCCL. The reason: our library may ask NCCL for more scratch memory,
 * and this works only when no group is open.
 *
 * Threads    each thread has its own groups, as in NCCL.
 */
#ifndef ST_CALL_H_
#define ST_CALL_H_

#include "dropin/group.h"

/* If a group has more collectives than this on one communicator, NCCL runs them. NCCL runs them all
 * in one kernel, but we would launch one kernel for each. */
enum { ST_GROUP_MOST = 4 };

nccl_abi_result st_call(struct st_from from, const struct st_call *call);
/* Count a call of a function that NCCL always runs. Call this just before NCCL's function. ${c}:
 * the record of ${comm}, or NULL.
 * ${collective}: in an open group the call also counts as one of the group's collectives.
 * ${per_rank}: the call's larger buffer has ${elements} elements for each rank. */
void st_call_forwarded(struct st_comm *c, struct st_real *real, enum st_tally_coll coll,
                       bool collective, void *comm, size_t elements, int dtype, bool per_rank);
/* Remember that NCCL refused a call of this thread. If a group is open, our kernels will run no
 * call of that group. */
void st_call_failed(struct st_real *real);

nccl_abi_result st_group_start(struct st_from from);
nccl_abi_result st_group_end(struct st_from from);
nccl_abi_result st_group_simulate(struct st_from from, void *info);

#endif
