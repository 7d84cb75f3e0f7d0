/* SPDX-License-Identifier: Apache-2.0 */
/* pending.c - says whether the GPU has done all calls of groups across processes. */
#include "jax/liveness.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/own_thread.h"
#include "base/set_once.h"
#include "jax/library.h"
#include "jax/symtuner_ffi.h"

#define CUDA_NOT_READY  600 /* CUDA_ERROR_NOT_READY */
#define EVENT_NO_TIMING 2   /* CU_EVENT_DISABLE_TIMING */
#define CAPTURE_RELAXED 2   /* CU_STREAM_CAPTURE_MODE_RELAXED */

/* ---- the event after the last call ---------------------------------------------------------- */

static struct event {
    int (*create)(void **, unsigned);
    int (*record)(void *, void *);
    int (*query)(void *);
    int (*capturing)(void *, int *);
} event;

static void load(void)
{
    static atomic_bool known;
    struct event found;

    if (st_is_set(&known))
        return;
    *(void **)&found.create = ffi_driver("cuEventCreate");
    *(void **)&found.record = ffi_driver("cuEventRecord");
    *(void **)&found.query = ffi_driver("cuEventQuery");
    *(void **)&found.capturing = ffi_driver("cuStreamIsCapturing");
    st_set_once(&known, &event, &found, sizeof found);
}

int ffi_is_captured(void *stream)
{
    int status = 0;

    load();
    if (event.capturing == NULL || event.capturing(stream, &status) != 0)
        return -1;
    return status != 0;
}

void ffi_pending_mark(struct ffi_member *member, void *stream)
{
    void *made = member->done;

    if (ffi_is_captured(stream) != 0 || event.create == NULL || event.record == NULL)
        return;
    if (made == NULL) {
        if (event.create(&made, EVENT_NO_TIMING) != 0)
            return;
        /* ffi_pending() may query the event before it is recorded, and then returns 0 */
        __atomic_store_n(&member->done, made, __ATOMIC_RELEASE);
    }
    event.record(made, stream); /* if this fails, the event marks the previous call */
}

int ffi_pending(struct ffi_member *member)
{
    void *done = __atomic_load_n(&member->done, __ATOMIC_ACQUIRE);

    return done != NULL && event.query != NULL && event.query(done) == CUDA_NOT_READY;
}

/* ---- the wait for all calls ----------------------------------------------------------------- */

enum { WAITING, IDLE, FAILED };

/* A wait until some GPUs have done all their work. It would not be enough to wait for the events of
 * the calls, because no event marks a replay of a CUDA graph. */
struct settling {
    int gpus[FFI_GROUP_RANKS], n;
    atomic_int state; /* WAITING, IDLE or FAILED */
    atomic_int users; /* threads that still use this struct; the last one frees it */
};

static void let_go(struct settling *s)
{
    if (atomic_fetch_sub(&s->users, 1) == 1)
        free(s);
}

/* Wait until ${gpu} is idle. This needs capture mode relaxed, because another thread may be
 * capturing a graph. */
static bool synchronize(int gpu)
{
    int (*retain)(void **, int), (*release)(int), (*current)(void *), (*wait)(void), (*mode)(int *);
    int relaxed = CAPTURE_RELAXED;
    void *context = NULL;
    bool fine;

    *(void **)&retain = ffi_driver("cuDevicePrimaryCtxRetain");
    *(void **)&release = ffi_driver("cuDevicePrimaryCtxRelease");
    *(void **)&current = ffi_driver("cuCtxSetCurrent");
    *(void **)&wait = ffi_driver("cuCtxSynchronize");
    *(void **)&mode = ffi_driver("cuThreadExchangeStreamCaptureMode");
    if (retain == NULL || release == NULL || current == NULL || wait == NULL || mode == NULL ||
        mode(&relaxed) != 0 || retain(&context, gpu) != 0)
        return false;
    fine = current(context) == 0 && wait() == 0;
    release(gpu);
    return fine;
}

static void *wait_for_gpus(void *arg)
{
    struct settling *s = arg;
    bool fine = true;

    for (int i = 0; i < s->n; i++)
        fine &= synchronize(s->gpus[i]);
    atomic_store(&s->state, fine ? IDLE : FAILED);
    let_go(s);
    return NULL;
}

/* List the GPUs of all groups across processes. */
static void find_gpus(struct settling *s)
{
    struct ffi_member *member;

    for (int i = 0; s->n < FFI_GROUP_RANKS && (member = ffi_member_hold(i)) != NULL; i++) {
        bool known = !member->across;

        for (int k = 0; k < s->n; k++)
            known |= s->gpus[k] == member->ordinal;
        if (!known)
            s->gpus[s->n++] = member->ordinal;
        ffi_member_release(member);
    }
}

int symtuner_ffi_settle(int limit_ms)
{
    struct settling *s = calloc(1, sizeof *s);
    pthread_t thread;
    int state;

    if (s == NULL)
        return -1;
    find_gpus(s);
    atomic_init(&s->users, s->n > 0 ? 2 : 1);
    atomic_init(&s->state, s->n > 0 ? WAITING : IDLE);
    if (s->n > 0 && st_own_thread(&thread, NULL, wait_for_gpus, s) != 0) {
        free(s);
        return -1;
    }
    if (s->n > 0)
        pthread_detach(thread);
    for (; (state = atomic_load(&s->state)) == WAITING && limit_ms > 0; limit_ms -= 10)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    let_go(s);
    return state == IDLE ? 0 : -1;
}
