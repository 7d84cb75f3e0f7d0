/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - ranks that make collective calls together; what the files of the NCCL here (nccl.h) share. */
#ifndef TEST_WHOLE_TEAM_H_
#define TEST_WHOLE_TEAM_H_

#include <pthread.h>

#include "test/whole/nccl.h"

enum { OPERATORS = 16 };

/* What an operator of the program multiplies by. */
struct scalar {
    bool used;
    const void *on_gpu;     /* where it lies; NULL: in ${value} */
    unsigned char value[8]; /* an element */
};

struct op {
    enum whole_kind kind;
    bool still; /* moves no values */
    const void *send;
    void *recv; /* of a window or a split: where its handle goes */
    size_t count;
    int type, reduction, color, key, device, world;
    bool shared; /* of a split: an abort of the whole ends the parts */
    struct scalar scalar;
};

struct team {
    unsigned char id[NCCL_UNIQUE_ID_BYTES];
    int ranks, here;
    unsigned long joined, done;       /* ranks so far; calls that have run */
    const struct op *op[WHOLE_RANKS]; /* the calls that wait */
    long turns[WHOLE_RANKS];          /* calls that each rank has launched */
    bool aborted;
    struct team *whole; /* that ends this one if it is aborted */
};

struct ncclComm {
    struct team *team;
    int rank, device, world, splits;
    struct scalar made[OPERATORS];
};

/* A call on its way. */
struct turn {
    struct team *team;
    int rank;
    long number; /* of the turns of this rank; -1: none yet, it is in a graph */
    struct op op;
};

/* Add ${more} to whole_nccl.live, the number of things that the ranks must still free. */
void team_live(int more);

ncclComm_t team_comm(struct team *team, int rank, int device, int world);

/* Enter the team of ${id}, and wait until all its ranks have. Returns NULL if they do not come. */
struct team *team_join(const ncclUniqueId *id, int ranks);

long team_turn(struct team *t, int rank);

/* Run a call at its turn, together with those of the other ranks. Returns false if that cannot be. */
bool team_run(struct turn *turn);

/* End the calls that wait for other ranks, on this rank and on the others. */
void team_abort(struct team *t);

#endif
