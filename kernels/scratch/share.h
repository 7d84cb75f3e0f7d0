/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - make scratch that all ranks of a communicator can reach: peer memory through an NCCL
 * window, or else pinned host memory. All ranks use the same kind of memory.
 */
#ifndef AR_SHARE_H_
#define AR_SHARE_H_

#include "kernels/scratch/members.h"

/*
 * ar_scratch_share(m, config, probes, host):
 * Collective: make scratch as config->transport says. With SYMTUNER_AR_AUTO, make it in peer
 * memory. If that fails, make it in host memory; then h->no_peer says why peer memory failed. *host
 * says whether scratch is host memory. If no scratch can be made, all calls are left to NCCL.
 * ${probes}: if scratch is in peer memory, the caller will run the start-up probe
 * (kernels/choose/probe.h). For that, all arenas are made now, and none later.
 */
ncclResult_t ar_scratch_share(struct ar_members *m, const struct symtuner_ar_config *config,
                              bool probes, bool *host);

#endif
