/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liveness.c - watch the processes of the other ranks. A group across processes has a thread for
 * this, called its watch, if all its processes are in one pid name space. The thread sleeps until
 * another rank's process ends, or says goodbye. With a goodbye a rank tells the others that it will
 * make no more calls. A rank has gone if its process has ended or said goodbye.
 *
 * A process may end after its last all-reduce. So the death of a rank alone does not end this
 * process: only later calls of the group fail, with an error message. But if a call stays pending,
 * because its kernel waits for the dead rank, we tell that kernel to give up. We notice a pending
 * call by an event that was recorded after it. A call that XLA replays in a CUDA graph has no such
 * event; we notice it by symtuner_ar_waits().
 *
 * When a kernel must give up, we also end this process, with status 71. A library should not do
 * that, and libsymtuner_ar.so never does: its C callers get an error. In JAX nobody can get the
 * error: the handler returned when the kernel was started, and XLA has no way to fail a running
 * program. The result of the all-reduce is undefined but looks valid, so the program would go on
 * with wrong numbers, or save them. JAX's own coordinator also ends a process when it notices that
 * another process has died, but only after a minute or more, and the kernel would wait for up to a
 * day.
 *
 * We end this process in a second case: it has begun to end, and in jax.distributed's shutdown it
 * would wait for a dead rank for minutes. symtuner_ffi_ending() limits that wait. At that point
 * the program has no results left to lose.
 *
 * A watch continues after the first rank has gone, and after the group was closed, because another
 * rank may die later.
 */
#include "base/own_thread.h"
#include "jax/liveness.h"
#include "jax/symtuner_ffi.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 100 /* ms between two checks, once a rank has gone */

/* The watch of one group. It continues after the group was closed. Only the watch's own thread
 * changes fields, except ${left} and ${told_at}. */
struct watch {
    struct watch *next;
    struct ffi_member *member; /* may belong to another group after a close: see is_mine() */
    int64_t ids[FFI_GROUP_RANKS];
    int ranks, me, ordinal;
    int wake; /* eventfd, by which other threads wake the watch's thread */
    int n;
    struct pollfd peer[FFI_GROUP_RANKS]; /* pidfds of the other ranks, and ${wake} */
    int rank[FFI_GROUP_RANKS];           /* [i]: peer[i] is this rank's pidfd; -1: ${wake} */
    uint32_t left;                    /* ranks that said goodbye, one bit each; set by any thread */
    uint32_t lost;                    /* ranks whose process has ended, one bit each */
    int64_t lost_at[FFI_GROUP_RANKS]; /* ms; [r]: when we noticed that rank r's process has ended */
    int64_t told_at; /* ms; we know every goodbye up to this time; 0: unknown; set by any thread */
    const char *how; /* what happened to the first rank that went, as text; NULL: none has gone */
    int first;       /* the first rank that went; valid if ${how} is not NULL */
    uint64_t calls;  /* how many calls the member had made when we last saw progress */
    uint32_t waits;  /* what symtuner_ar_waits() returned last */
    int64_t pending_at; /* ms; when a call was last seen to be pending; 0: never */
    int64_t since;   /* ms; when we last saw progress */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watch *watches; /* list; hold ${lock} to read or change it, or to wake a watch */
static int64_t ending_since;  /* ms; when this process began to end; 0: it has not */
static int64_t waiting_at;    /* ms; when this process last waited in JAX's shutdown; 0: never */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* ---- what a watch sees ----------------------------------------------------------------------- */

/* Does the member still belong to this watch's group? After symtuner_ffi_close() the same member
 * may be used for another group, whose watch has another eventfd. This watch keeps its eventfd open
 * until it ends, so no other watch gets the same number. */
static int is_mine(const struct watch *w)
{
    return __atomic_load_n(&w->member->wake, __ATOMIC_ACQUIRE) == w->wake;
}

static uint32_t left_of(const struct watch *w)
{
    return __atomic_load_n(&w->left, __ATOMIC_ACQUIRE);
}

/* Set *place if it is still 0. We record only the first rank that goes: the others may have ended
 * because the first one went. */
static void set_first(int *place, int value)
{
    int none = 0;

    __atomic_compare_exchange_n(place, &none, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void notice(struct watch *w)
{
    uint64_t goodbyes;

    for (int i = 0; i < w->n; i++) {
        if (w->peer[i].revents == 0)
            continue;
        if (w->rank[i] < 0) {
            if (read(w->wake, &goodbyes, sizeof goodbyes) < 0)
                continue;
        } else {
            close(w->peer[i].fd);
            w->peer[i].fd = -1; /* poll() skips descriptors below 0 */
            w->lost |= 1u << w->rank[i];
            w->lost_at[w->rank[i]] = now_ms();
            if (is_mine(w))
                set_first(&w->member->lost, w->rank[i] + 1);
        }
    }
    if (w->how != NULL || (w->lost | left_of(w)) == 0)
        return;
    /* if one rank died and another said goodbye, name the one that said goodbye: the message about
     * it explains more */
    w->first = __builtin_ctz(left_of(w) != 0 ? left_of(w) : w->lost);
    w->how = left_of(w) != 0 ? "has closed the group or raised an exception" : "is gone";
    w->since = now_ms();
}

/* Return this watch's member, and hold it until ffi_member_release(), so that its handle is not
 * destroyed meanwhile. Returns NULL if the group was closed, or is being closed. */
static struct ffi_member *hold_mine(const struct watch *w)
{
    struct ffi_member *member;

    for (int i = 0; (member = ffi_member_hold(i)) != NULL; i++) {
        if (member == w->member && is_mine(w))
            return member;
        ffi_member_release(member);
    }
    return NULL;
}

/* Is a call of this watch's member pending, or was one within the last second? symtuner_ar_waits()
 * changes only while a waiting kernel runs, and if processes share a GPU, the kernel does not run
 * all the time. So one look is not enough. */
static bool is_pending(struct watch *w)
{
    struct ffi_member *member = hold_mine(w);
    bool pending = ffi_pending(w->member);

    if (member != NULL && member->handle != NULL) {
        uint32_t waits = ffi_ar_get()->waits(member->handle);

        pending |= waits != w->waits;
        w->waits = waits;
    }
    ffi_member_release(member);
    if (pending)
        w->pending_at = now_ms();
    return now_ms() - w->pending_at < 1000;
}

/* Called after a rank has gone: has a call been pending for FFI_LIVENESS_STUCK_MS, without a new
 * call in that time? If so, the call waits for the first rank that went. That rank died in the call
 * or before it, or it said goodbye. A rank says goodbye only when its own calls have finished, so
 * then it never made this call. */
static int stuck(struct watch *w)
{
    uint64_t calls = __atomic_load_n(&w->member->calls, __ATOMIC_RELAXED);

    if (!is_pending(w) || calls != w->calls) {
        w->calls = calls;
        w->since = now_ms();
    }
    return now_ms() - w->since >= FFI_LIVENESS_STUCK_MS;
}

/* If the group is being closed, do not abort the handle: the thread that closes the group may
 * destroy the handle at any time. */
static void give_up(const struct watch *w)
{
    struct ffi_member *member = hold_mine(w);

    fprintf(stderr,
            "symtuner: rank %d %s while rank %d waits for it on GPU %d: the all-reduce is given "
            "up, and this process ends\n",
            w->first, w->how, w->me, w->ordinal);
    if (member != NULL && member->handle != NULL)
        ffi_ar_get()->abort(member->handle);
    ffi_member_release(member);
    sleep_ms(FFI_LIVENESS_LEAVE_MS);
    _exit(FFI_LIVENESS_EXIT);
}

/* Would jax.distributed's shutdown wait for rank ${r} in vain? The comment of symtuner_ffi_ending()
 * names the two cases. */
static int missed(const struct watch *w, int r)
{
    int64_t told = __atomic_load_n(&w->told_at, __ATOMIC_ACQUIRE);

    if ((w->lost >> r & 1) == 0)
        return 0;
    return w->lost_at[r] < __atomic_load_n(&waiting_at, __ATOMIC_ACQUIRE) ||
           ((left_of(w) >> r & 1) == 0 && (told == 0 || w->lost_at[r] < told));
}

/* Should the message name dead rank ${a} rather than ${b}? It names a rank that did not say goodbye
 * rather than one that did: a rank that said goodbye may have ended as planned; we cannot know
 * whether it also left jax.distributed. If both ranks said goodbye, or neither did, the message
 * names the rank that died first. */
static int is_worse(const struct watch *w, int a, int b)
{
    uint32_t left = left_of(w);

    if ((left >> a & 1) != (left >> b & 1))
        return (left >> b & 1) != 0;
    return w->lost_at[a] < w->lost_at[b];
}

/* Return the dead rank for which this process has waited too long since it began to end, or -1 if
 * there is none. Too long means: FFI_LIVENESS_END_MS since this process began to end, and
 * FFI_LIVENESS_LEAVE_MS since the rank's death, because its goodbye may arrive after its death. */
static int overdue(const struct watch *w)
{
    int64_t began = __atomic_load_n(&ending_since, __ATOMIC_ACQUIRE), now = now_ms();
    int worst = -1;

    for (int r = 0; r < w->ranks; r++)
        if (missed(w, r) && (worst < 0 || is_worse(w, r, worst)))
            worst = r;
    return began != 0 && worst >= 0 && now - began >= FFI_LIVENESS_END_MS &&
                   now - w->lost_at[worst] >= FFI_LIVENESS_LEAVE_MS
               ? worst
               : -1;
}

static void end_process(int rank)
{
    fprintf(stderr,
            "symtuner: rank %d is gone. This process began to end %d s ago and still waits, as "
            "jax.distributed does for a lost process. It ends now.\n",
            rank, (int)((now_ms() - __atomic_load_n(&ending_since, __ATOMIC_ACQUIRE)) / 1000));
    _exit(FFI_LIVENESS_EXIT);
}

static void forget(struct watch *w)
{
    struct watch **at = &watches;

    pthread_mutex_lock(&lock);
    while (*at != NULL && *at != w)
        at = &(*at)->next;
    if (*at == w)
        *at = w->next;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < w->n; i++)
        if (w->peer[i].fd >= 0)
            close(w->peer[i].fd);
    free(w);
}

static void *keep_watch(void *arg)
{
    struct watch *w = arg;

    do {
        int rank;

        /* as long as no rank has gone there is no time limit, so sleep until something happens */
        if (poll(w->peer, (nfds_t)w->n, w->how != NULL ? TICK_MS : -1) > 0)
            notice(w);
        if (w->how != NULL && is_mine(w) && stuck(w))
            give_up(w);
        rank = overdue(w);
        if (rank >= 0)
            end_process(rank);
    } while (is_mine(w)); /* until the member belongs to another group, which has its own watch */
    forget(w);
    return NULL;
}

/* ---- what Python tells the watches ----------------------------------------------------------- */

static void wake(const struct watch *w)
{
    uint64_t one = 1;

    if (write(w->wake, &one, sizeof one) < 0)
        return; /* later calls of the group still fail, because member->left is set */
}

static int same_ids(const int64_t *a, const int64_t *b, int ranks)
{
    return memcmp(a, b, sizeof *a * (size_t)ranks) == 0;
}

int symtuner_ffi_goodbye(const int64_t *ids, int ranks, int rank, char *why, size_t why_size)
{
    struct ffi_member *member;

    if (ranks < 1 || ranks > FFI_GROUP_RANKS || rank < 0 || rank >= ranks)
        return ffi_fail(why, why_size, "there is no rank %d in a group of %d", rank, ranks);
    for (int i = 0; (member = ffi_member_hold(i)) != NULL; i++) {
        if (member->across && member->ranks == ranks && same_ids(member->ids, ids, ranks))
            set_first(&member->left, rank + 1);
        ffi_member_release(member);
    }
    pthread_mutex_lock(&lock);
    for (struct watch *w = watches; w != NULL; w = w->next)
        if (w->ranks == ranks && same_ids(w->ids, ids, ranks)) {
            __atomic_fetch_or(&w->left, 1u << rank, __ATOMIC_ACQ_REL);
            wake(w);
        }
    pthread_mutex_unlock(&lock);
    return 0;
}

int symtuner_ffi_told(const int64_t *ids, int ranks, int64_t until_ms, char *why, size_t why_size)
{
    if (ranks < 1 || ranks > FFI_GROUP_RANKS)
        return ffi_fail(why, why_size, "there is no group of %d ranks", ranks);
    pthread_mutex_lock(&lock);
    for (struct watch *w = watches; w != NULL; w = w->next)
        if (w->ranks == ranks && same_ids(w->ids, ids, ranks))
            __atomic_store_n(&w->told_at, until_ms, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return 0;
}

int symtuner_ffi_waiting(int64_t at_ms, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", "");
    __atomic_store_n(&waiting_at, at_ms, __ATOMIC_RELEASE);
    return 0;
}

void symtuner_ffi_ending(void)
{
    int64_t none = 0;

    __atomic_compare_exchange_n(&ending_since, &none, now_ms(), 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
}

/* ---- start a watch --------------------------------------------------------------------------- */

static void add(struct watch *w, int fd, int rank)
{
    w->peer[w->n] = (struct pollfd){.fd = fd, .events = POLLIN};
    w->rank[w->n++] = rank;
}

/* Open a pidfd for each other rank, and the eventfd. Returns 0 or an errno value. */
static int open_all(struct watch *w, const int *pids)
{
    for (int r = 0; r < w->ranks; r++) {
        long fd = r == w->me ? -1 : syscall(SYS_pidfd_open, pids[r], 0);

        if (r == w->me)
            continue;
        if (fd < 0 && errno == ESRCH)
            /* the process has ended: an eventfd that is readable at once stands for its pidfd */
            fd = eventfd(1, EFD_CLOEXEC);
        if (fd < 0)
            return errno;
        add(w, (int)fd, r);
    }
    w->wake = eventfd(0, EFD_CLOEXEC);
    if (w->wake < 0)
        return errno;
    add(w, w->wake, -1);
    return 0;
}

static int start(struct watch *w)
{
    pthread_attr_t attr;
    pthread_t thread;
    int error;

    pthread_mutex_lock(&lock);
    __atomic_store_n(&w->member->wake, w->wake, __ATOMIC_RELEASE);
    for (struct watch *old = watches; old != NULL; old = old->next)
        if (old->member == w->member)
            wake(old); /* the member now belongs to the new watch, so the old watch ends */
    w->next = watches;
    watches = w;
    pthread_mutex_unlock(&lock);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    error = st_own_thread(&thread, &attr, keep_watch, w);
    pthread_attr_destroy(&attr);
    if (error != 0)
        __atomic_store_n(&w->member->wake, 0, __ATOMIC_RELEASE);
    return error;
}

int ffi_liveness_watch(struct ffi_member *member, const int *pids, char *why, size_t why_size)
{
    struct watch *w = calloc(1, sizeof *w);
    int error = ENOMEM;

    if (w != NULL) {
        w->member = member;
        memcpy(w->ids, member->ids, sizeof w->ids);
        w->ranks = member->ranks;
        w->me = member->me;
        w->ordinal = member->ordinal;
        error = open_all(w, pids);
        if (error == 0)
            error = start(w);
    }
    if (error == 0)
        return 0;
    if (w != NULL)
        forget(w);
    return ffi_fail(why, why_size, "the other ranks' processes cannot be watched: %s",
                    strerror(error));
}
