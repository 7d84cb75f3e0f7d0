/* SPDX-License-Identifier: Apache-2.0 */
/* create.h - the steps that symtuner_ar_create and symtuner_ar_create_local share. */
#ifndef AR_CREATE_H_
#define AR_CREATE_H_

#include "kernels/group/handle.h"
#include "kernels/host/options.h"

/* Check the configuration, fill in defaults and read the environment. Errors go to
 * symtuner_ar_error(NULL). */
ncclResult_t ar_config_check(const struct symtuner_ar_config *given,
                             struct symtuner_ar_config *config, struct ar_options *options);

/* How the probe reaches the group: exchange(ranks, all) waits for all ranks and returns the
 * h->probe of each. */
struct ar_probe_group {
    ncclResult_t (*exchange)(void *ranks, struct ar_probe *all);
    void *ranks;
    uint64_t key; /* stands for the GPUs of the group */
};

/* Collective: probe with all handles of this thread, or take the figures that rank 0 finds in
 * ${file} (NULL: no file). Afterwards all ranks have the same figures, or all calls go to NCCL. */
bool ar_probe_wanted(const symtuner_ar *h, const struct ar_options *options);
ncclResult_t ar_probe_run(symtuner_ar **handles, int n, const struct ar_probe_group *group,
                          const char *file);

/* The hash by which ranks compare their rules; 0 without rules. If ranks 0 and ${other} differ,
 * drop the rules of all ranks. */
uint64_t ar_rules_hash(const symtuner_ar *h);
void ar_rules_drop(symtuner_ar **handles, int n, int other);

ncclResult_t ar_create_undo(symtuner_ar **handles, int n, int failed, ncclResult_t result);

#endif
