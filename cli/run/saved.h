/* SPDX-License-Identifier: Apache-2.0 */
/* saved.h - the part of the summary that estimates how much time our kernels saved. */
#ifndef ST_RUN_SAVED_H_
#define ST_RUN_SAVED_H_

#include <stdio.h>

#include "dropin/tally.h"

/* Print the estimate, or nothing if our kernels were not timed on a box like this one. Asks the
 * driver about the GPUs only if they may be of the kind that was timed. */
void st_run_saved(const struct st_tally *tally, FILE *out);

#endif
