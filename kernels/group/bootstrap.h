/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - what the ranks of a communicator tell each other between calls.
 *
 * A step that any rank may fail in (allocate, register, open) is followed by ar_bootstrap_agree: ranks
 * of which one went on to the next collective step and another gave up would wait for ever. So a
 * rank that failed comes to each meeting, too, until all know.
 */
#ifndef AR_BOOTSTRAP_H_
#define AR_BOOTSTRAP_H_

#include "kernels/group/endpoint.h"
#include "kernels/group/nccl.h"

#define AR_INFO_BYTES 512 /* most that one rank says */

/* Fails only for a communicator or a GPU of no use. */
ncclResult_t ar_endpoint_open(struct ar_endpoint *endpoint, const struct ar_nccl *nccl,
                              ncclComm_t comm, uint64_t limit_ns, char *why);
void ar_endpoint_close(struct ar_endpoint *endpoint); /* a late one keeps what it has */

/* Collective. ${mine}: ${bytes} of each of the ${n} ranks of this thread; ${all}: of each rank.
 * ${why}: AR_WHY bytes. */
ncclResult_t ar_bootstrap_exchange(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                   int n, const void *mine, void *all, size_t bytes, char *why);

/*
 * Collective. ${result} and ${why} are how it went here; ${alike} must be the same on all ranks.
 * When any rank failed, all get an error (their own, or ncclRemoteError) and the sentence of the
 * lowest rank that did, with its number; *met is false when even that could not be found out.
 */
ncclResult_t ar_bootstrap_agree(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                int n, ncclResult_t result, uint64_t alike, char *why, bool *met);

#endif
