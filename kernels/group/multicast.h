/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multicast.h - multicast addresses of windows, for the nvls kernels.
 *
 * From 2.29.7 on, NCCL's getter creates the multicast team if there is none yet, and then waits for
 * the other ranks, even between ncclGroupStart and ncclGroupEnd. So a thread that drives several
 * ranks must not call the getter for one rank after the other; each rank calls it in a thread of
 * its own. Either all ranks of the group call it, or none does.
 */
#ifndef AR_MULTICAST_H_
#define AR_MULTICAST_H_

#include <pthread.h>

#include "kernels/group/handle.h"

struct ar_multicast {
    int n; /* threads */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int word; /* 0: wait; 1: ask; -1: end without asking */
    struct ar_multicast_rank {
        struct ar_multicast *all;
        pthread_t thread;
        const struct ar_nccl *nccl;
        int device;
        ncclWindow_t window;
        void *found;
    } rank[AR_MAX_RANKS];
};

/* Whether to ask for the addresses at all. Two ranks gain nothing by them, and NCCL before 2.29 has
 * no getter. */
bool ar_multicast_wanted(const symtuner_ar *h);

/* Start a thread for each of the ${n} ranks; each thread waits for ar_multicast_end(). If the start
 * fails on one rank, no rank may ask NCCL. So all ranks must agree on the result before they call
 * ar_multicast_end(). */
ncclResult_t ar_multicast_begin(struct ar_multicast *m, symtuner_ar **handles,
                                const struct ar_window *windows, int n, char *why);

/* Let the threads ask NCCL, or end without asking if ${ask} is false, and wait for them. Then
 * rank[i].found is the address, NULL if there is none. */
void ar_multicast_end(struct ar_multicast *m, bool ask);

#endif
