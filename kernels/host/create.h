/* SPDX-License-Identifier: Apache-2.0 */
/* create.h - the steps that symtuner_ar_create and symtuner_ar_create_local share. */
#ifndef AR_CREATE_H_
#define AR_CREATE_H_

#include "kernels/group/handle.h"
#include "kernels/host/options.h"

/* Check ${given} (NULL: all defaults), copy it to ${config}, and read the environment into
 * ${options}. After an error symtuner_ar_error(NULL) says what is wrong. */
ncclResult_t ar_config_check(const struct symtuner_ar_config *given,
                             struct symtuner_ar_config *config, struct ar_options *options);

/* How the probe reaches the other ranks: exchange(ranks, all) waits for all ranks and sets all[r]
 * to the h->probe of rank r. */
struct ar_probe_group {
    ncclResult_t (*exchange)(void *ranks, struct ar_probe *all);
    void *ranks;
    uint64_t key; /* a hash that identifies the GPUs of the group */
};

/* ar_probe_wanted: whether to probe the group of ${h}. ar_probe_run is collective: it probes with
 * the ${n} handles of this thread, or takes the figures that rank 0 finds in ${file} (NULL: no
 * file). Afterwards all ranks have the same figures, or all calls go to NCCL. */
bool ar_probe_wanted(const symtuner_ar *h, const struct ar_options *options);
ncclResult_t ar_probe_run(symtuner_ar **handles, int n, const struct ar_probe_group *group,
                          const char *file);

/* ar_rules_hash returns the hash by which ranks compare their rules, 0 without rules. If it differs
 * between ranks 0 and ${other}, every thread calls ar_rules_drop to drop the rules of its handles. */
uint64_t ar_rules_hash(const symtuner_ar *h);
void ar_rules_drop(symtuner_ar **handles, int n, int other);

#endif
