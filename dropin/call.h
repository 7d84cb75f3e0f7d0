/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - decides whether NCCL or our own kernels (libsymtuner_ar.so) run a call of ncclAllReduce,
 * ncclReduceScatter or ncclAllGather; also handles NCCL's groups.
 *
 * All ranks must make the same decision. So it depends only on what is the same on all ranks: the
 * communicator, the collective, count, type and operator, whether the buffers lie in windows, and
 * which collectives of this communicator the open group has. The group's sends and receives must
 * not matter, because another rank may have none.
 *
 * While a group is open, calls for our kernels wait. At the outermost ncclGroupEnd NCCL first runs
 * the group's calls that go to NCCL, and then our kernels run theirs. Our kernels come last because
 * our library may ask NCCL for more scratch memory, and this works only when no group is open.
 *
 * Threads    each thread has its own groups, as in NCCL.
 */
#ifndef ST_CALL_H_
#define ST_CALL_H_

#include "dropin/group.h"

/* If a group has more collectives of one communicator than this, NCCL runs all of them: NCCL puts
 * them into one kernel, but we would launch one kernel for each. */
enum { ST_GROUP_MOST = 4 };

nccl_abi_result st_call(struct st_from from, const struct st_call *call);
/* Count a call of a function that NCCL always runs. Call this just before NCCL's function. ${c}:
 * the record of ${comm}, or NULL. ${per_rank}: the call's larger buffer has ${elements} elements
 * for each rank. */
void st_call_forwarded(struct st_comm *c, struct st_real *real, enum st_tally_coll coll, void *comm,
                       size_t elements, int dtype, bool per_rank);
/* Call this with the ${result} of NCCL's function, which it returns. If NCCL has accepted a
 * ${collective} of ${c} in an open group, the call counts among the group's collectives. A call
 * that NCCL refused does not count, because this rank may now make another call instead, as its
 * peers do. The result does not say whether the whole group fails: NCCL checks some arguments
 * before it looks at the group (ncclParseCollConfig in 2.32). Only ncclGroupEnd says that. */
nccl_abi_result st_call_returned(struct st_comm *c, struct st_real *real, bool collective,
                                 void *stream, nccl_abi_result result);

nccl_abi_result st_group_start(struct st_from from);
nccl_abi_result st_group_end(struct st_from from);
nccl_abi_result st_group_simulate(struct st_from from, void *info);

#endif
