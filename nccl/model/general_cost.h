/* SPDX-License-Identifier: Apache-2.0 */
/*
 * general_cost.h - NCCL's cost table and channel counts of general kernels, for known machines.
 *
 * The cost table that NCCL gives a tuner depends on the channels and bandwidths that NCCL finds in
 * the machine. For some machines these are known, so that the table can be computed without NCCL.
 * Pure; threads: any.
 */
#ifndef ST_GENERAL_MODEL_H_
#define ST_GENERAL_MODEL_H_

#include <stdbool.h>

#include "symtuner_why.h"

/* Return the ${family} that the functions below take, for the name of a machine or a GPU; NULL if
 * its bandwidths are not known. */
const char *st_general_family(const char *machine_or_gpu);

/*
 * st_general_table(call, family, table_out):
 * Compute the 7 x 3 costs in microseconds; -1: not available. False if the machine or its number of
 * ranks is not known, for several nodes, and for releases other than 2.27 to 2.30.
 */
bool st_general_table(const struct symtuner_call *call, const char *family,
                      float table_out[SYMTUNER_ALGOS * SYMTUNER_PROTOS]);

/*
 * st_general_channels(call, family, algo, proto):
 * Return how many channels NCCL gives a call, or the first call of a group, with that algorithm and
 * protocol; 0 where st_general_table returns false, and for more than 512 calls in a group.
 */
int st_general_channels(const struct symtuner_call *call, const char *family, int algo, int proto);

/* Does NCCL find both buffers of a general kernel registered (its regBuff)? Any release. */
bool st_general_registered(const struct symtuner_call *call);

#endif
