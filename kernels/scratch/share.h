/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - scratch that all ranks of a communicator can reach: peer memory through an NCCL window,
 * or else pinned host memory. All ranks use the same kind of memory.
 */
#ifndef AR_SHARE_H_
#define AR_SHARE_H_

#include "kernels/scratch/members.h"

/*
 * ar_scratch_share(m, config, probes, host):
 * Collective: make scratch in peer memory, or if that fails in host memory (*host is then true).
 * All ranks use the same kind. If it is host memory, h->no_peer keeps the reason. If both fail, all
 * calls are left to NCCL. ${probes}: the links will be probed at start-up, unless scratch is host
 * memory.
 */
ncclResult_t ar_scratch_share(struct ar_members *m, const struct symtuner_ar_config *config,
                              bool probes, bool *host);

#endif
