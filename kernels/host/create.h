/* SPDX-License-Identifier: Apache-2.0 */
/* create.h - the steps that symtuner_ar_create and symtuner_ar_create_local share. */
#ifndef AR_CREATE_H_
#define AR_CREATE_H_

#include "kernels/host/options.h"
#include "kernels/scratch/members.h"

/* Check ${given} and copy it to ${config}. If ${given} is NULL, copy the defaults. Read the
 * environment into ${options}. After an error symtuner_ar_error(NULL) says what is wrong. */
ncclResult_t ar_config_check(const struct symtuner_ar_config *given,
                             struct symtuner_ar_config *config, struct ar_options *options);

/* How the start-up probe (kernels/choose/probe.h) reaches the other ranks. exchange(ranks, all)
 * waits for all ranks, and sets all[r] to h->probe of rank r. */
struct ar_probe_group {
    ncclResult_t (*exchange)(void *ranks, struct ar_probe *all);
    void *ranks;
    uint64_t key; /* a hash that identifies the GPUs of the group */
};

/* ar_probe_wanted returns whether to probe the group of ${h}. ar_probe_run is collective. It probes
 * with the ${n} handles of this thread, unless rank 0 finds the figures of an earlier probe in
 * ${file} (NULL: there is no file). Afterwards all ranks have the same figures, or all calls go to
 * NCCL. */
bool ar_probe_wanted(const symtuner_ar *h, const struct ar_options *options);
ncclResult_t ar_probe_run(symtuner_ar **handles, int n, const struct ar_probe_group *group,
                          const char *file);

/* ar_rules_hash returns the hash of the handle's rules, or 0 without rules. Ranks compare their
 * hashes. If those of ranks 0 and ${other} differ, every thread calls ar_rules_drop, which drops
 * the rules of its handles. */
uint64_t ar_rules_hash(const symtuner_ar *h);
void ar_rules_drop(symtuner_ar **handles, int n, int other);

/* Collective: unless the ranks' ipc_mode is AR_IPC_OFF, prepare them to map each other's buffers
 * (kernels/ipc). If that fails on one rank, no rank maps buffers of others. Returns an error only
 * if other ranks cannot be reached any more. */
ncclResult_t ar_ipc_share(struct ar_members *m);

#endif
