/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_wait.c - see gpu_wait.h. */
#include "kernels/group/gpu_wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

struct wait {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int device;
    bool over, left; /* left: the caller timed out, so the thread frees this struct */
    cudaError_t error;
};

static cudaError_t synchronize(int device)
{
    cudaError_t error = cudaSetDevice(device);

    return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

static void end(struct wait *w)
{
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void *wait_for_it(void *p)
{
    struct wait *w = p;
    cudaError_t error = synchronize(w->device);
    bool left;

    pthread_mutex_lock(&w->lock);
    w->error = error;
    w->over = true;
    left = w->left;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    if (left)
        end(w);
    return NULL;
}

static struct wait *begin(int device)
{
    struct wait *w = calloc(1, sizeof *w);
    pthread_condattr_t clock;
    pthread_t thread;

    if (w == NULL)
        return NULL;
    w->device = device;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->ended, &clock);
    pthread_condattr_destroy(&clock);
    if (pthread_create(&thread, NULL, wait_for_it, w) == 0) {
        pthread_detach(thread);
        return w;
    }
    end(w);
    return NULL;
}

cudaError_t ar_gpu_wait(int device, uint64_t limit_ns)
{
    struct wait *w = begin(device);
    struct timespec until;
    cudaError_t error;

    if (w == NULL) /* without the thread: wait without a limit */
        return synchronize(device);
    clock_gettime(CLOCK_MONOTONIC, &until);
    limit_ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(limit_ns / 1000000000);
    until.tv_nsec = (long)(limit_ns % 1000000000);
    pthread_mutex_lock(&w->lock);
    while (!w->over && pthread_cond_timedwait(&w->ended, &w->lock, &until) != ETIMEDOUT)
        ;
    error = w->over ? w->error : cudaErrorNotReady;
    w->left = !w->over;
    pthread_mutex_unlock(&w->lock);
    if (error != cudaErrorNotReady)
        end(w);
    return error;
}
