/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - exchange data between the ranks of a communicator, outside of calls.
 *
 * After each step that a rank may fail in (allocate, register, open) all ranks call
 * ar_bootstrap_agree. Otherwise one rank would give up while another waits for it for ever in the
 * next collective step. So a rank that failed still takes part until all ranks know of the failure.
 */
#ifndef AR_BOOTSTRAP_H_
#define AR_BOOTSTRAP_H_

#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"

#define AR_INFO_BYTES 512 /* most that one rank may send */

/* Fill ${endpoint} for ${comm}. Waits end after ${limit_ns}. Fails only if the communicator or the
 * GPU is unusable; then ${why} (AR_WHY bytes) says why. */
ncclResult_t ar_endpoint_open(struct ar_endpoint *endpoint, const struct ar_nccl *nccl,
                              ncclComm_t comm, uint64_t limit_ns, char *why);
void ar_endpoint_close(struct ar_endpoint *endpoint); /* frees nothing after a timeout */

/* Collective: an all-gather. ${mine}: ${bytes} from each of the ${n} ranks of this thread; ${all}:
 * ${bytes} from every rank. ${why}: AR_WHY bytes. */
ncclResult_t ar_bootstrap_exchange(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                   int n, const void *mine, void *all, size_t bytes, char *why);

/*
 * Collective: agree on the outcome of a step. ${result} and ${why} are the outcome on this rank;
 * ${alike} must be the same on all ranks. If any rank failed, all ranks return an error (their own,
 * or ncclRemoteError), and ${why} names the lowest rank that failed and its reason. *met is false
 * if the exchange itself failed.
 */
ncclResult_t ar_bootstrap_agree(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                int n, ncclResult_t result, uint64_t alike, char *why, bool *met);

#endif
