/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - three ranks that call, each in a thread of its own, and what they must launch. */
#ifndef ST_TEST_SCRATCH_RANKS_H_
#define ST_TEST_SCRATCH_RANKS_H_

#include "kernels/group/handle.h"

/* Counts of f32 whose sums need the small arena, the middle one, the large one. */
enum { RANKS = 3, SHORT = 1 << 18, MIDDLE = 1 << 21, LONG = 1 << 23 };

struct grow_rank {
    symtuner_ar *handle;
    ncclResult_t result, reserved;
    int late_ms, in_group; /* of the next call */
};

extern struct grow_rank at[RANKS];

void call_one(int r, int count); /* one call of rank r; its buffers are never accessed */

/* Let all ranks make calls of these lengths, up to a 0, and check that they launch the same
 * kernels. Returns the number of launches per rank. */
int calls(const int *list);

void phases(int words, int bulk); /* check the phases of two arenas, on all ranks */
int last_arena(void);             /* that the last launch used */

#endif
