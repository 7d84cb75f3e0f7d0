/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - the ranks of a communicator, which make calls together. nccl.c uses it. */
#ifndef TEST_WHOLE_TEAM_H_
#define TEST_WHOLE_TEAM_H_

#include <pthread.h>

#include "test/whole/nccl.h"

enum { OPERATORS = 16 };

/* What an operator of the program multiplies by. */
struct scalar {
    bool used;
    const void *on_gpu;     /* address of the scalar; NULL: it is in ${value} */
    unsigned char value[8]; /* one element of the operator's type */
};

struct op {
    enum whole_kind kind;
    bool still; /* moves no values */
    const void *send;
    void *recv; /* of a window or a split: where its handle goes */
    size_t count;
    int type, reduction, color, key, device, world;
    struct scalar scalar;
};

struct team {
    unsigned char id[NCCL_UNIQUE_ID_BYTES];
    int ranks, here;
    unsigned long joined, done;       /* ranks that have come; calls that have run */
    const struct op *op[WHOLE_RANKS]; /* the call with which each rank waits */
    long turns[WHOLE_RANKS];          /* calls that each rank has launched */
    bool aborted; /* an abort ends the calls of this team only, and not those of split teams */
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
    long number; /* counts this rank's calls on the team; -1: captured, and not yet counted */
    struct op op;
};

/* Add ${more} to whole_nccl.live, the number of things that the ranks must still free. */
void team_live(int more);

ncclComm_t team_comm(struct team *team, int rank, int device, int world);

/* Enter the team of ${id}, and wait until all its ranks have entered. Returns NULL if they do not
 * come. */
struct team *team_join(const ncclUniqueId *id, int ranks);

/* Count one more call of ${rank}. Returns its number, from 0. */
long team_turn(struct team *t, int rank);

/* Wait until all earlier calls of the team have run, and all ranks have come to this call. Then run
 * it. Returns false if it cannot run, for example after an abort. */
bool team_run(struct turn *turn);

/* Free the windows of ${rank}; if ${only} is not NULL, only that window. */
void team_windows_free(const struct team *t, int rank, const void *only);

/* End all calls of the team that wait for other ranks, on all ranks. */
void team_abort(struct team *t);

#endif
