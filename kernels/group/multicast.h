/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multicast.h - multicast addresses of windows, for the nvls kernels.
 *
 * From 2.29.7 on NCCL's getter makes the multicast team when there is none yet: it waits for the
 * other ranks at once, in ncclGroupStart, too. One thread must therefore not ask for one of its
 * ranks after the other. Each rank asks in a thread of its own; all ranks ask, or none.
 */
#ifndef AR_MULTICAST_H_
#define AR_MULTICAST_H_

#include <pthread.h>

#include "kernels/group/handle.h"

struct ar_multicast {
    int n; /* threads */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int word; /* 0: wait; 1: ask; -1: do not */
    struct ar_multicast_rank {
        struct ar_multicast *all;
        pthread_t thread;
        const struct ar_nccl *nccl;
        int device;
        ncclWindow_t window;
        void *found;
    } rank[AR_MAX_RANKS];
};

/* Whether windows of this group have any: two ranks gain nothing, old releases have no getter. */
bool ar_multicast_wanted(const symtuner_ar *h);

/* Threads for the ${n} ranks; may fail, which the other ranks must know before anybody asks. */
ncclResult_t ar_multicast_begin(struct ar_multicast *m, symtuner_ar **handles,
                                const struct ar_window *windows, int n, char *why);

/* ${ask}: every rank of the group does. Afterwards each rank[].found; NULL: this rank has none. */
void ar_multicast_end(struct ar_multicast *m, bool ask);

#endif
