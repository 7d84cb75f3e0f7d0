/* SPDX-License-Identifier: Apache-2.0 */
/* create.h - the steps that both ways of making a group share. */
#ifndef ST_AR_CREATE_H_
#define ST_AR_CREATE_H_

#include "kernels/group/handle.h"
#include "kernels/host/options.h"

/* Defaults, range checks and environment; the error goes to symtuner_ar_error(NULL). */
ncclResult_t st_config_check(const struct symtuner_ar_config *given,
                             struct symtuner_ar_config *config, struct st_options *options);

/* The time limit of a group with these; fit for settings that were refused, too. */
uint64_t st_timeout_ns(const struct symtuner_ar_config *config, const struct st_options *options);

/* ${asked}: struct st_options.overlap; ${arch}: what the kernels were compiled for, 90 for sm_90;
 * ${driver}: as cudaDriverGetVersion says; ${nccl}: as ncclGetVersion says, 0: unknown. */
enum st_start st_overlap_choose(int asked, int arch, int driver, int nccl);

/* Counters, mailbox, events, and all kernels loaded; h->device and ranks must be set. */
ncclResult_t st_rank_start(symtuner_ar *h, const struct symtuner_ar_config *config,
                           const struct st_options *options);

/* For symtuner_ar.group: on this machine no other group has it. ${h}: a bit of chance. */
uint64_t st_group_number(const symtuner_ar *h);

/* Bulk scratch that suits the current GPU. A rank finds the others' regions by its own layout, so a
 * group takes the least of its ranks: config.bulk_bytes must not be 0 any more below. */
uint64_t st_scratch_bulk(void);

void st_scratch_size(symtuner_ar *h, const struct symtuner_ar_config *config, bool host);
cudaError_t st_arena_fill(symtuner_ar *h, const struct symtuner_ar_config *config);
void st_rank_free(symtuner_ar *h);

/* The group as the probe needs it. meet(ranks, all) waits for all ranks and gives each rank's
 * h->probe. */
struct st_probe_group {
    ncclResult_t (*meet)(void *ranks, struct st_probe *all);
    void *ranks;
    uint64_t key; /* of its GPUs */
};

/* Probe with all handles of this thread, or take the figures that rank 0 finds in ${file}, if not
 * NULL. Collective; all ranks end up with the same figures, or the same gate. */
bool st_probe_wanted(const symtuner_ar *h, const struct st_options *options);
ncclResult_t st_probe_run(symtuner_ar **handles, int n, const struct st_probe_group *group,
                          const char *file);

/* What two ranks compare; 0 without rules. Ranks 0 and ${other} differ: nobody uses any. */
uint64_t st_rules_hash(const symtuner_ar *h);
void st_rules_drop(symtuner_ar **handles, int n, int other);

ncclResult_t st_create_undo(symtuner_ar **handles, int n, int failed, ncclResult_t result);

#endif
