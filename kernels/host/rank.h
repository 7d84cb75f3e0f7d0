/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h - what one rank owns: scratch, counters, streams and events on its GPU, and a mailbox. */
#ifndef AR_RANK_H_
#define AR_RANK_H_

#include "kernels/group/handle.h"
#include "kernels/host/options.h"

/* Return the time limit of a group, in ns. It is also valid if ar_config_check() has rejected the
 * settings, because even then the rank opens endpoints, which need a limit. */
uint64_t ar_timeout_ns(const struct symtuner_ar_config *config, const struct ar_options *options);

/* Copy the settings to ${h}, read the rules, load all kernels, and allocate counters, mailbox,
 * events and stream. h->device, h->ranks and h->nccl must be set. */
ncclResult_t ar_rank_start(symtuner_ar *h, const struct symtuner_ar_config *config,
                           const struct ar_options *options);

/* Make a number for symtuner_ar.group that no other group on this machine has. The address of ${h}
 * is used as a source of randomness only. */
uint64_t ar_group_number(const symtuner_ar *h);

/* Return how many bytes of bulk scratch suit the current GPU. All ranks of a group need the same
 * layout, so they use the smallest number that any rank gets from this function. */
uint64_t ar_scratch_bulk(void);

/* Free ${h} and all that it owns, except what a stuck kernel or NCCL may still use. */
void ar_rank_free(symtuner_ar *h);

#endif
