/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - exchange small data between the ranks of a communicator, for example while handles
 * are made.
 *
 * After each step in which a rank may fail (allocate, register, open) all ranks call
 * ar_bootstrap_agree, even a rank that has failed. If the failed rank did not call it, the other
 * ranks would wait for that rank in the next collective step until the time limit.
 */
#ifndef AR_BOOTSTRAP_H_
#define AR_BOOTSTRAP_H_

#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"

#define AR_INFO_BYTES 512 /* largest number of bytes that a rank sends in an exchange */

/* Fill ${endpoint} for ${comm}. ${limit_ns} is the time limit of each wait for other ranks. After
 * an error ${why} (AR_WHY bytes) says why, and the other ranks do not learn of the error. */
ncclResult_t ar_endpoint_open(struct ar_endpoint *endpoint, const struct ar_nccl *nccl,
                              ncclComm_t comm, uint64_t limit_ns, char *why);
void ar_endpoint_close(struct ar_endpoint *endpoint); /* frees nothing after a timeout */

/* Collective: send ${bytes} bytes from each rank to all ranks. ${mine} holds what the ${n} ranks of
 * this thread send, one after the other. ${all} receives what all ranks of the communicator send.
 * After an error ${why} (AR_WHY bytes) says why. */
ncclResult_t ar_bootstrap_exchange(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                   int n, const void *mine, void *all, size_t bytes, char *why);

/*
 * Collective: agree on the outcome of a step. ${result} and ${why} are the outcome on this rank. If
 * any rank failed, all ranks return an error (their own, or ncclRemoteError), and ${why} names the
 * lowest rank that failed and its reason. ${alike} is a number that must be the same on all ranks;
 * if ranks differ in it, all ranks fail. *met is false if the exchange itself failed. If
 * endpoints[i] is of another group of ranks than endpoints[0], endpoints[i]->stranger becomes true.
 */
ncclResult_t ar_bootstrap_agree(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                int n, ncclResult_t result, uint64_t alike, char *why, bool *met);

#endif
