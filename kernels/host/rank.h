/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h - what one rank owns on its GPU: scratch, counters, mailbox, streams and events. */
#ifndef AR_RANK_H_
#define AR_RANK_H_

#include "kernels/group/handle.h"
#include "kernels/host/options.h"

/* The time limit of a group with these; fit for settings that were refused, too. */
uint64_t ar_timeout_ns(const struct symtuner_ar_config *config, const struct ar_options *options);

/* ${asked}: struct ar_options.overlap; ${arch}: what the kernels were compiled for, 90 for sm_90;
 * ${driver}: as cudaDriverGetVersion says; ${nccl}: as ncclGetVersion says, 0: unknown. */
enum ar_start ar_overlap_choose(int asked, int arch, int driver, int nccl);

/* Counters, mailbox, events, and all kernels loaded; h->device and ranks must be set. */
ncclResult_t ar_rank_start(symtuner_ar *h, const struct symtuner_ar_config *config,
                           const struct ar_options *options);

/* For symtuner_ar.group: on this machine no other group has it. ${h}: a bit of chance. */
uint64_t ar_group_number(const symtuner_ar *h);

/* Bulk scratch that suits the current GPU. A rank finds the others' regions by its own layout, so a
 * group takes the least of its ranks: config.bulk_bytes must not be 0 any more below. */
uint64_t ar_scratch_bulk(void);

void ar_scratch_size(symtuner_ar *h, const struct symtuner_ar_config *config, bool host);
cudaError_t ar_arena_fill(symtuner_ar *h, const struct symtuner_ar_config *config);
void ar_rank_free(symtuner_ar *h);

#endif
