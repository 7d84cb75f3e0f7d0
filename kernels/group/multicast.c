/* SPDX-License-Identifier: Apache-2.0 */
/* multicast.c - asks NCCL for the multicast addresses of windows. */
#include "kernels/group/multicast.h"

#include <stdio.h>
#include <string.h>

#include "base/own_thread.h"

bool ar_multicast_wanted(const symtuner_ar *h)
{
    return h->comm != NULL && h->ranks > 2 && h->nccl->ncclGetLsaMultimemDevicePointer != NULL;
}

static void *ask(void *p)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    struct ar_multicast_rank *r = p;
    void *found = NULL;
    int word;

    pthread_mutex_lock(&r->all->lock);
    while (r->all->word == 0)
        pthread_cond_wait(&r->all->changed, &r->all->lock);
    word = r->all->word;
    pthread_mutex_unlock(&r->all->lock);
    if (word < 0)
        return NULL;
    /* While another thread captures a graph, CUDA lets this thread map memory only in capture mode
     * relaxed. */
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaSetDevice(r->device);
    if (r->nccl->ncclGetLsaMultimemDevicePointer(r->window, 0, &found) == ncclSuccess)
        r->found = found;
    return NULL;
}

ncclResult_t ar_multicast_begin(struct ar_multicast *m, symtuner_ar **handles,
                                const struct ar_window *windows, int n, char *why)
{
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    for (m->n = 0; m->n < n; m->n++) {
        struct ar_multicast_rank *r = &m->rank[m->n];

        r->all = m;
        r->nccl = handles[m->n]->nccl;
        r->device = handles[m->n]->device;
        r->window = windows[m->n].handle;
        if (st_own_thread(&r->thread, NULL, ask, r) != 0)
            return ar_why(why, AR_WHY, ncclSystemError, "no thread to ask NCCL for multicast");
    }
    return ncclSuccess;
}

void ar_multicast_end(struct ar_multicast *m, bool ask)
{
    pthread_mutex_lock(&m->lock);
    m->word = ask ? 1 : -1;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < m->n; i++)
        pthread_join(m->rank[i].thread, NULL);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
}
