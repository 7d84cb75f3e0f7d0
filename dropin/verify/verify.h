/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.h - SYMTUNER_VERIFY=N: run the first N calls of each collective of a communicator by our
 * kernels and by NCCL, and compare the results.
 *
 * The program gets NCCL's result. If the two results differ on one rank, NCCL alone runs every
 * later call of the communicator on all ranks. A verified call waits for the GPU and, in shared
 * memory, for the other ranks. Some calls are not verified: captured calls, calls with an operator
 * that the program has created, and calls of a communicator that has several ranks in one thread or
 * spans several boxes.
 */
#ifndef ST_VERIFY_H_
#define ST_VERIFY_H_

#include "dropin/group.h"

typedef nccl_abi_result st_run(struct st_comm *c, const struct st_call *call);

/* Are there calls left to verify, and can this call be verified? */
bool st_verify_wanted(struct st_comm *c, const struct st_call *call);

/* Run the call by ${ours} and by ${nccl}, and compare the results. Returns what ${nccl} returned.
 * If a rank cannot verify the call or is late, all ranks run it by ${ours} only, and this returns
 * what ${ours} returned. Then no later call of this collective is verified. */
nccl_abi_result st_verify(struct st_comm *c, const struct st_call *call, st_run *ours,
                          st_run *nccl);

#endif
