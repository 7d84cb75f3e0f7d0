/* SPDX-License-Identifier: Apache-2.0 */
/* create.h - the steps that both ways of making a group share. */
#ifndef AR_CREATE_H_
#define AR_CREATE_H_

#include "kernels/group/handle.h"
#include "kernels/host/options.h"

/* Defaults, range checks and environment; the error goes to symtuner_ar_error(NULL). */
ncclResult_t ar_config_check(const struct symtuner_ar_config *given,
                             struct symtuner_ar_config *config, struct ar_options *options);

/* The group as the probe needs it. meet(ranks, all) waits for all ranks and gives each rank's
 * h->probe. */
struct ar_probe_group {
    ncclResult_t (*meet)(void *ranks, struct ar_probe *all);
    void *ranks;
    uint64_t key; /* of its GPUs */
};

/* Probe with all handles of this thread, or take the figures that rank 0 finds in ${file}, if not
 * NULL. Collective; all ranks end up with the same figures, or the same gate. */
bool ar_probe_wanted(const symtuner_ar *h, const struct ar_options *options);
ncclResult_t ar_probe_run(symtuner_ar **handles, int n, const struct ar_probe_group *group,
                          const char *file);

/* What two ranks compare; 0 without rules. Ranks 0 and ${other} differ: nobody uses any. */
uint64_t ar_rules_hash(const symtuner_ar *h);
void ar_rules_drop(symtuner_ar **handles, int n, int other);

ncclResult_t ar_create_undo(symtuner_ar **handles, int n, int failed, ncclResult_t result);

#endif
