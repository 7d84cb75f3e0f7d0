/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - a team is all ranks of one communicator. In each call the ranks wait for each other, and
 * then the last one does the work of all. nccl.c uses it. */
#ifndef TEST_WHOLE_TEAM_H_
#define TEST_WHOLE_TEAM_H_

#include <pthread.h>

#include "test/whole/nccl.h"

enum { OPERATORS = 16 };

/* The scalar by which an operator of the program multiplies. */
struct scalar {
    bool used;
    const void *on_gpu;     /* address of the scalar; NULL: it is in ${value} */
    unsigned char value[8]; /* one element of the operator's type */
};

struct op {
    enum whole_kind kind;
    bool still; /* the call moves no values */
    const void *send;
    void *recv; /* for a call that makes a window or a split: where the handle goes */
    size_t count;
    int type, reduction, color, key, device, world;
    struct scalar scalar;
};

struct team {
    unsigned char id[NCCL_UNIQUE_ID_BYTES];
    int ranks, here;
    /* joined: number of ranks that have entered the team; done: number of calls that have run */
    unsigned long joined, done;
    const struct op *op[WHOLE_RANKS]; /* the call with which each rank waits */
    long turns[WHOLE_RANKS];          /* number of calls that each rank has launched */
    /* the communicator was aborted, which ends only the calls of this team, and not those of teams
     * that were split from it */
    bool aborted;
    struct team *next;
};

struct ncclComm {
    struct team *team;
    int rank, device, world, splits;
    struct scalar made[OPERATORS];
};

/* One call of one rank. */
struct turn {
    struct team *team;
    int rank;
    /* number of this call among the calls of its rank on the team, from 0; -1: captured, so not
     * counted yet */
    long number;
    struct op op;
};

/* Add ${more} to whole_nccl.live, the number of things that the ranks must still free. */
void team_live(int more);

ncclComm_t team_comm(struct team *team, int rank, int device, int world);

/* Enter the team of ${id}, and wait until all its ranks have entered. Returns NULL if some do not
 * come. */
struct team *team_join(const ncclUniqueId *id, int ranks);

/* Count one more call of ${rank} on the team. Returns the number of this call, from 0. */
long team_turn(struct team *t, int rank);

/* Wait until all earlier calls of the team have run, and all ranks have come to this call. Then run
 * it. Returns false if it cannot run, for example after an abort. */
bool team_run(struct turn *turn);

/* Free the windows of ${rank}. If ${only} is not NULL, free only that window. */
void team_windows_free(const struct team *t, int rank, const void *only);

/* End all calls of the team that wait for other ranks, on all ranks. */
void team_abort(struct team *t);

#endif
