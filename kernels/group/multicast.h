/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multicast.h - multicast addresses of windows, for the nvls kernels.
 *
 * From 2.29.7 on NCCL's getter makes the multicast team when there is none yet: it waits for the
 * other ranks at once, in ncclGroupStart, too. One thread must therefore not ask for one of its
 * ranks after the other. Each rank asks in a thread of its own; all ranks ask, or none.
 */
#ifndef ST_AR_MULTICAST_H_
#define ST_AR_MULTICAST_H_

#include <pthread.h>

#include "kernels/group/handle.h"

struct st_multicast {
    int n; /* threads */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int word; /* 0: wait; 1: ask; -1: do not */
    struct st_multicast_rank {
        struct st_multicast *all;
        pthread_t thread;
        const struct st_nccl *nccl;
        int device;
        ncclWindow_t window;
        void *found;
    } rank[ST_MAX_RANKS];
};

/* Whether windows of this group have any: two ranks gain nothing, old releases have no getter. */
bool st_multicast_wanted(const symtuner_ar *h);

/* Threads for the ${n} ranks; may fail, which the other ranks must know before anybody asks. */
ncclResult_t st_multicast_begin(struct st_multicast *m, symtuner_ar **handles,
                                const struct st_window *windows, int n, char *why);

/* ${ask}: every rank of the group does. Afterwards each rank[].found; NULL: this rank has none. */
void st_multicast_end(struct st_multicast *m, bool ask);

#endif
