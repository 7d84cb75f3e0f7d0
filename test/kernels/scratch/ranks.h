/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - three ranks that make calls, each in a thread of its own, and checks of what they
 * launch. */
#ifndef ST_TEST_SCRATCH_RANKS_H_
#define ST_TEST_SCRATCH_RANKS_H_

#include "kernels/group/handle.h"

/* The number of ranks, and counts of f32 elements. An all-reduce of SHORT elements needs the small
 * arena (part of the scratch memory), MIDDLE the middle one, and LONG the large one. */
enum { RANKS = 3, SHORT = 1 << 18, MIDDLE = 1 << 21, LONG = 1 << 23 };

struct grow_rank {
    symtuner_ar *handle;
    ncclResult_t result, reserved;
    int late_ms;  /* by how many ms the rank makes its next call later than the others */
    int in_group; /* 1: makes its next calls between ncclGroupStart and ncclGroupEnd */
};

extern struct grow_rank at[RANKS];

void call_one(int r, int count); /* makes one call on rank r; its buffers are never accessed */

/* Let all ranks make calls with these counts, up to a 0, and check that they launch the same
 * kernels. Returns the number of launches per rank. */
int calls(const int *list);

/* checks that on all ranks the arenas WORDS and BULK are in these phases
 * (kernels/scratch/meeting.h) */
void phases(int words, int bulk);
int last_arena(void); /* returns which arena the last launch used */

#endif
