/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_wait.c - waits until a GPU is idle, up to a time limit. */
#include "kernels/group/gpu_wait.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/own_thread.h"
#include "kernels/group/nccl_wait.h"

/* What the helper thread owns. ${ended} is a duplicate of the descriptor of the caller's eventfd,
 * so the thread can still use it after the caller has closed the eventfd and returned. */
struct wait {
    int device, ended;
};

static cudaError_t synchronize(int device)
{
    cudaError_t error = cudaSetDevice(device);

    return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

static void *wait_for_it(void *p)
{
    struct wait w = *(struct wait *)p;

    free(p);
    eventfd_write(w.ended, 1 + (eventfd_t)synchronize(w.device));
    close(w.ended);
    return NULL;
}

static bool begin(int device, int ended, pthread_t *thread)
{
    struct wait *w = calloc(1, sizeof *w);

    if (w == NULL)
        return false;
    *w = (struct wait){device, fcntl(ended, F_DUPFD_CLOEXEC, 0)};
    if (w->ended >= 0 && st_own_thread(thread, NULL, wait_for_it, w) == 0)
        return true;
    close(w->ended);
    free(w);
    return false;
}

cudaError_t ar_gpu_wait(int device, uint64_t limit_ns)
{
    struct pollfd ended = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN};
    uint64_t until = ar_now_ns() + limit_ns;
    pthread_t thread;
    bool begun = begin(device, ended.fd, &thread);
    cudaError_t error = cudaErrorNotReady;
    eventfd_t value;

    for (uint64_t now; begun && (now = ar_now_ns()) < until;) {
        struct timespec left = {.tv_sec = (time_t)((until - now) / 1000000000),
                                .tv_nsec = (long)((until - now) % 1000000000)};

        if (ppoll(&ended, 1, &left, NULL) > 0)
            break;
    }
    if (!begun) /* no thread could be started, so wait here, without a limit */
        error = synchronize(device);
    else if (eventfd_read(ended.fd, &value) == 0)
        error = (cudaError_t)(value - 1);
    if (begun && error != cudaErrorNotReady)
        pthread_join(thread, NULL); /* does not wait long: the thread only has to return */
    else if (begun)
        pthread_detach(thread);
    close(ended.fd);
    return error;
}
