/* SPDX-License-Identifier: Apache-2.0 */
/*
 * general_cost.h - NCCL's cost table and channel counts of general kernels, for known machines.
 *
 * The cost table that NCCL gives a tuner depends on the channels and bandwidths that NCCL finds in
 * the machine. For some machines we know these numbers and can compute the table without NCCL.
 * Pure; threads: any.
 */
#ifndef ST_GENERAL_MODEL_H_
#define ST_GENERAL_MODEL_H_

#include <stdbool.h>

#include "symtuner_why.h"

/* Return the family of the machine or GPU with this name, for the parameter ${family} of the
 * functions below. Returns NULL if we do not know the machine's bandwidths. */
const char *st_general_family(const char *machine_or_gpu);

/*
 * st_general_table(call, family, table_out):
 * Compute the 7 x 3 costs in microseconds; -1 stands for "not available". Returns false if we do
 * not know the machine with this number of ranks, if the call has several nodes, if its bytes would
 * overflow, or if the release is not 2.27 to 2.30.
 */
bool st_general_table(const struct symtuner_call *call, const char *family,
                      float table_out[SYMTUNER_ALGOS * SYMTUNER_PROTOS]);

/*
 * st_general_channels(call, family, algo, proto):
 * Return how many channels NCCL uses for a call with this algorithm and this protocol. For a group,
 * return the channels of its first call. Returns 0 where st_general_table returns false, and for
 * groups of more than 512 calls.
 */
int st_general_channels(const struct symtuner_call *call, const char *family, int algo, int proto);

/* Does NCCL treat both buffers of a general kernel as registered? NCCL passes this to a tuner as
 * regBuff. Works for every release. */
bool st_general_registered(const struct symtuner_call *call);

#endif
