/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - what `symtuner run` prints at the end of a job. */
#ifndef ST_RUN_SUMMARY_H_
#define ST_RUN_SUMMARY_H_

#include <stdio.h>

#include "dropin/tally.h"

/* Print the sums over all processes: calls and bytes of each collective, how many calls our kernels
 * ran, the most frequent reasons why NCCL ran the others, and the first warning of the drop-in. */
void st_run_summary(const struct st_tally *tally, FILE *out);

#endif
