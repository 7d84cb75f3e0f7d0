/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffi_watch.c - one thread per group across processes, asleep until a peer's process ends.
 *
 * A process that ends after its last all-reduce is no harm, so a death alone ends nothing: later
 * calls of the group fail with a sentence. Only when a call stays pending, because its kernel waits
 * for the dead, is that kernel told to leave. What it would have computed is lost and XLA cannot be
 * told about one program's failure afterwards, so the process ends with status 71, as it does when
 * JAX's own coordinator notices a death.
 *
 * A process that ends while a lost one never said goodbye would wait for it in jax.distributed's
 * shutdown, for minutes: symtuner_ffi_ending() bounds that.
 */
#include "ffi_watch.h"
#include "symtuner_ffi.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CUDA_NOT_READY  600 /* CUDA_ERROR_NOT_READY */
#define EVENT_NO_TIMING 2   /* CU_EVENT_DISABLE_TIMING */

struct watch {
    struct st_seat *seat;
    int n;
    struct pollfd peer[ST_GROUP_RANKS]; /* the processes of the other ranks, and st_watch_left() */
    int rank[ST_GROUP_RANKS];           /* -1: not one process */
};

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static struct {
    int (*create)(void **, unsigned);
    int (*record)(void *, void *);
    int (*query)(void *);
} event;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

    if (cuda == NULL)
        return;
    *(void **)&event.create = dlsym(cuda, "cuEventCreate");
    *(void **)&event.record = dlsym(cuda, "cuEventRecord");
    *(void **)&event.query = dlsym(cuda, "cuEventQuery");
}

void st_watch_mark(struct st_seat *seat, void *stream)
{
    void *made = seat->done;

    pthread_once(&once, load);
    if (event.create == NULL || event.record == NULL)
        return;
    if (made == NULL && event.create(&made, EVENT_NO_TIMING) != 0)
        return;
    if (event.record(made, stream) == 0)
        __atomic_store_n(&seat->done, made, __ATOMIC_RELEASE);
}

int st_watch_pending(struct st_seat *seat)
{
    void *done = __atomic_load_n(&seat->done, __ATOMIC_ACQUIRE);

    return done != NULL && event.query != NULL && event.query(done) == CUDA_NOT_READY;
}

int symtuner_ffi_settle(int limit_ms)
{
    struct st_seat *seat;

    for (int i = 0; (seat = st_seat_at(i)) != NULL; i++)
        for (; st_watch_pending(seat); limit_ms -= 10) {
            if (limit_ms <= 0)
                return -1;
            sleep_ms(10);
        }
    return 0;
}

/* Whether a call stays pending for ST_WATCH_STUCK_MS with no new one. A rank that leaves has
 * finished its own calls, so a call that still waits now is one that it never made. */
static int stuck(struct st_seat *seat)
{
    uint64_t calls = __atomic_load_n(&seat->calls, __ATOMIC_RELAXED);

    for (int ms = 0; ms < ST_WATCH_STUCK_MS; ms += 100) {
        sleep_ms(100);
        if (!st_watch_pending(seat) || __atomic_load_n(&seat->calls, __ATOMIC_RELAXED) != calls)
            return 0;
    }
    return 1;
}

static void *keep_watch(void *arg)
{
    struct watch *w = arg;
    struct st_seat *seat = w->seat;
    const char *how = "is gone";
    int gone = -1, rank;

    while (gone < 0) {
        if (poll(w->peer, (nfds_t)w->n, -1) < 0 && errno != EINTR)
            return NULL;
        for (int i = 0; i < w->n; i++)
            if (w->peer[i].revents != 0)
                gone = i;
    }
    rank = w->rank[gone];
    if (rank >= 0) {
        __atomic_store_n(&seat->lost, rank + 1, __ATOMIC_RELEASE);
    } else {
        rank = __atomic_load_n(&seat->left, __ATOMIC_ACQUIRE) - 1;
        how = "has closed the group or raised an exception";
    }
    while (!stuck(seat))
        sleep_ms(200);
    fprintf(stderr,
            "symtuner: rank %d %s while rank %d waits for it on GPU %d: the all-reduce is given "
            "up and this process ends\n",
            rank, how, seat->me, seat->ordinal);
    if (seat->handle != NULL)
        st_ar_get()->abort(seat->handle);
    sleep_ms(ST_WATCH_LEAVE_MS);
    _exit(ST_WATCH_EXIT);
}

void st_watch_left(struct st_seat *seat, int rank)
{
    uint64_t one = 1;

    __atomic_store_n(&seat->left, rank + 1, __ATOMIC_RELEASE);
    if (seat->wake > 0 && write(seat->wake, &one, sizeof one) < 0)
        return; /* calls still fail by seat->left */
}

/* The rank of ${seat} whose process ended without a goodbye, or -1. */
static int missing(struct st_seat *seat)
{
    int lost = __atomic_load_n(&seat->lost, __ATOMIC_ACQUIRE);

    return lost != 0 && __atomic_load_n(&seat->left, __ATOMIC_ACQUIRE) != lost ? lost - 1 : -1;
}

static void *end_process(void *arg)
{
    struct st_seat *seat = arg;

    sleep_ms(ST_WATCH_END_MS);
    if (missing(seat) < 0)
        return NULL; /* its goodbye was only slower than its end */
    fprintf(stderr,
            "symtuner: rank %d is gone, and %d s after it began to end this process still waits, "
            "as jax.distributed does for a lost process: it ends now\n",
            missing(seat), ST_WATCH_END_MS / 1000);
    _exit(ST_WATCH_EXIT);
}

void symtuner_ffi_ending(void)
{
    struct st_seat *seat;
    pthread_t thread;

    for (int i = 0; (seat = st_seat_at(i)) != NULL; i++)
        if (missing(seat) >= 0 && pthread_create(&thread, NULL, end_process, seat) == 0) {
            pthread_detach(thread);
            return;
        }
}

static void add(struct watch *w, int fd, int rank)
{
    w->peer[w->n] = (struct pollfd){.fd = fd, .events = POLLIN};
    w->rank[w->n++] = rank;
}

int st_watch(struct st_seat *seat, const int *pids, char *why, size_t why_size)
{
    struct watch *w = calloc(1, sizeof *w);
    pthread_attr_t attr;
    pthread_t thread;
    int error = 0;

    for (int r = 0; w != NULL && r < seat->ranks && error == 0; r++) {
        long fd;

        if (r == seat->me)
            continue;
        fd = syscall(SYS_pidfd_open, pids[r], 0);
        if (fd < 0)
            error = errno;
        add(w, (int)fd, r);
    }
    if (w != NULL && error == 0) {
        w->seat = seat;
        add(w, eventfd(0, EFD_CLOEXEC), -1);
        seat->wake = w->peer[w->n - 1].fd;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attr, keep_watch, w);
        pthread_attr_destroy(&attr);
    }
    if (w != NULL && error == 0)
        return 0;
    snprintf(why, why_size, "the other ranks' processes cannot be watched: %s",
             w == NULL ? "out of memory" : strerror(error));
    for (int i = 0; w != NULL && i < w->n; i++)
        if (w->peer[i].fd >= 0)
            close(w->peer[i].fd);
    seat->wake = 0;
    free(w);
    return -1;
}
