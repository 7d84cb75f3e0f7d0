/* SPDX-License-Identifier: Apache-2.0 */
/*
 * general_cost.h - NCCL's cost table and channels of general kernels, for machines that are known.
 *
 * What NCCL shows a tuner plugin depends on the channels and bandwidths that it found in the
 * machine. For the machines below those are known, so the table can be computed without running
 * NCCL. Pure; threads: any.
 */
#ifndef ST_GENERAL_MODEL_H_
#define ST_GENERAL_MODEL_H_

#include <stdbool.h>

#include "symtuner_why.h"

/* A kind of machine for st_general_table; NULL when it is not known how NCCL sees it. */
const char *st_general_family(const char *machine_or_gpu);

/*
 * st_general_table(call, family, table_out):
 * The 7 x 3 costs, microseconds, -1 not available. False when the machine, the number of ranks or
 * the release is not known: one node, 2.27 to 2.30.
 */
bool st_general_table(const struct symtuner_call *call, const char *family,
                      float table_out[SYMTUNER_ALGOS * SYMTUNER_PROTOS]);

/*
 * st_general_channels(call, family, algo, proto):
 * The channels that NCCL gives a call (of a group: its first) with that algorithm and protocol; 0
 * when not known: machines and releases other than above.
 */
int st_general_channels(const struct symtuner_call *call, const char *family, int algo, int proto);

/* Does NCCL find both buffers of a general kernel registered (its regBuff)? Any release. */
bool st_general_registered(const struct symtuner_call *call);

#endif
