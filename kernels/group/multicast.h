/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multicast.h - multicast addresses of windows, for the nvls kernels.
 *
 * NCCL's function ncclGetLsaMultimemDevicePointer returns the address. If the ranks have no
 * multicast object yet, this function of NCCL 2.29.7 and later creates one. For that it waits for
 * the other ranks, even between ncclGroupStart and ncclGroupEnd. So a thread with several ranks
 * must not call the function for one rank after the other: each rank calls it in its own thread.
 * Either all ranks of the group call it, or none does.
 */
#ifndef AR_MULTICAST_H_
#define AR_MULTICAST_H_

#include <pthread.h>

#include "kernels/group/handle.h"

struct ar_multicast {
    int n; /* number of threads */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int word; /* tells the threads what to do: 0: wait; 1: ask NCCL; -1: end without asking */
    struct ar_multicast_rank {
        struct ar_multicast *all;
        pthread_t thread;
        const struct ar_nccl *nccl;
        int device;
        ncclWindow_t window;
        void *found; /* the multicast address; NULL: none */
    } rank[AR_MAX_RANKS];
};

/* Return whether to ask for multicast addresses at all. Two ranks gain nothing by them, and NCCL
 * before 2.29 does not have the function. */
bool ar_multicast_wanted(const symtuner_ar *h);

/* Start a thread for each of the ${n} ranks; each thread waits for ar_multicast_end(). If the start
 * fails on one rank, no rank may ask NCCL. So all ranks must agree on the result before they call
 * ar_multicast_end(). */
ncclResult_t ar_multicast_begin(struct ar_multicast *m, symtuner_ar **handles,
                                const struct ar_window *windows, int n, char *why);

/* If ${ask}, let the threads ask NCCL. Otherwise let them end without asking. Then wait until they
 * have ended. Afterwards rank[i].found is the address that thread i got, or NULL. */
void ar_multicast_end(struct ar_multicast *m, bool ask);

#endif
