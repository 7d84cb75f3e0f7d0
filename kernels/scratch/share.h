/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.h - scratch that all ranks of a communicator can reach: peer memory through an NCCL window,
 * or else pinned host memory. All ranks use the same kind of memory.
 */
#ifndef AR_SHARE_H_
#define AR_SHARE_H_

#include "kernels/group/handle.h"

/* The ranks that this thread drives, while all ranks of a communicator make a group. */
struct ar_members {
    symtuner_ar *handles[AR_MAX_RANKS];
    int n; /* number of handles */
    const struct ar_nccl *nccl;
    struct ar_endpoint *endpoints[AR_MAX_RANKS];
    char why[AR_WHY]; /* why the last step failed, here or on another rank */
    bool lost;        /* the other ranks cannot be reached any more */
};

/* Write the reason why a step failed on this rank to m->why, and return ${result}. */
ncclResult_t __attribute__((format(printf, 3, 4)))
ar_members_fail(struct ar_members *m, ncclResult_t result, const char *format, ...);

/* Agree on the outcome of a step: if it failed on any rank, all ranks return an error. ${result}
 * and m->why are the outcome on this rank. */
ncclResult_t ar_members_agree(struct ar_members *m, ncclResult_t result);

/* Leave all calls of these ranks to NCCL; ${why} is the reason that users see. */
void ar_members_gate(struct ar_members *m, const char *why);

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
