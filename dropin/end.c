/* SPDX-License-Identifier: Apache-2.0 */
/* end.c - see life.h: what happens when a communicator ends or is aborted. */
#include <pthread.h>
#include <sched.h>

#include "dropin/ledger/book.h"
#include "dropin/life.h"
#include "dropin/meet.h"

/* Held while a handle moves between ${handle}, ${kept} and ${ending} of its record (struct
 * st_comm). So another thread that ends or aborts the communicator finds it in one of them. */
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER;

/* Move the handle to ${ending}, and return it. From then on NCCL runs all calls of the
 * communicator, and this thread counts as a user of the handle. Returns NULL if there is no handle,
 * or if another thread ends the communicator. */
static struct symtuner_ar *begin_end(struct st_comm *c)
{
    struct symtuner_ar *handle = NULL;

    pthread_mutex_lock(&moving);
    if (!c->leaving)
        handle = atomic_exchange(&c->handle, NULL);
    if (!c->leaving && !handle)
        handle = atomic_exchange(&c->kept, NULL);
    if (handle) {
        atomic_fetch_add(&c->users, 1);
        atomic_store(&c->ending, handle);
        c->why = ST_WHY_FAILED;
        st_comm_give(c);
    }
    pthread_mutex_unlock(&moving);
    return handle;
}

enum keep { SUSPEND, ABORT, LEAVE };

/* Move the handle to ${kept}, and return it, or NULL if there is none. From then on NCCL runs all
 * calls of the communicator. Except with SUSPEND, no longer count the handle among those of its
 * GPU, so that another communicator may make one there. If another thread is in st_life_end, ABORT
 * leaves the handle to that thread, but LEAVE takes it away. */
static struct symtuner_ar *keep(struct st_comm *c, enum keep how)
{
    struct symtuner_ar *handle;

    pthread_mutex_lock(&moving);
    handle = atomic_exchange(&c->handle, NULL);
    if (how == LEAVE) {
        c->leaving = true;
        if (!handle)
            handle = atomic_exchange(&c->ending, NULL);
    }
    if (handle)
        atomic_store(&c->kept, handle);
    handle = atomic_load(&c->kept);
    if (!handle)
        handle = atomic_load(&c->ending);
    if (handle)
        c->why = ST_WHY_FAILED;
    if (handle && how != SUSPEND)
        st_comm_give(c);
    pthread_mutex_unlock(&moving);
    return handle;
}

/* Wait until no other thread uses the handle. */
static void await_users(struct st_comm *c)
{
    while (atomic_load(&c->users) > 1)
        sched_yield();
}

/* Another thread may abort a handle during symtuner_ar_synchronize, but not while
 * symtuner_ar_destroy frees it. So this thread waits for the calls with the first function. The
 * second one then finds that they have ended, and does not wait long. */
bool st_life_end(struct st_comm *c)
{
    struct symtuner_ar *handle = begin_end(c);
    bool ours;

    st_book_close(c->book);
    if (!handle)
        return !c->leaving;
    await_users(c);
    st_inside++;
    if (c->kernels->synchronize_ && atomic_load(&c->ending))
        c->kernels->synchronize_(handle); /* an older library has no synchronize_ */
    pthread_mutex_lock(&moving);
    ours = atomic_exchange(&c->ending, NULL) != NULL;
    pthread_mutex_unlock(&moving);
    if (ours) {
        await_users(c); /* they may be aborting the handle */
        c->kernels->destroy_(&handle, 1);
        st_meet_leave(c->meet);
        c->meet = NULL;
    }
    st_inside--;
    st_life_release(c);
    return ours;
}

void st_life_suspend(struct st_comm *c)
{
    keep(c, SUSPEND); /* it still counts on its GPU, because graphs may run its calls */
}

/* Make our kernels give up, but do not free the handle. To free it we would have to wait for the
 * GPU, and NCCL's abort does not wait. So the handle stays in ${kept} until st_life_end or
 * st_life_aborted. Until this function returns, this thread counts as a user of the handle, so
 * st_life_end in another thread waits. A third thread may still be in a vote, so ${meet} is freed
 * only when a new communicator gets the record. */
static void abort_one(struct st_comm *c, enum keep how)
{
    struct symtuner_ar *handle;

    atomic_fetch_add(&c->users, 1);
    handle = keep(c, how);
    if (handle) {
        if (c->meet)
            st_meet_give_up(c->meet);
        st_inside++;
        c->kernels->abort_(handle);
        st_inside--;
    }
    st_life_release(c);
}

/* NCCL's abort waits until the work of the whole family has ended on the GPU (commDestroySync and
 * ncclCommShrink in init.cc of 2.28.3 to 2.30.7). This work may be behind our kernels. */
static void abort_family(struct st_comm *c, enum keep how)
{
    struct st_comm *relative;
    unsigned place = 0;

    atomic_fetch_add(&c->users, 1); /* so that ${c} stays the record of this communicator */
    abort_one(c, how);
    while ((relative = st_comm_relative(c, &place))) {
        abort_one(relative, ABORT);
        st_life_release(relative);
    }
    st_life_release(c);
}

void st_life_abort(struct st_comm *c)
{
    abort_family(c, ABORT);
}

void st_life_leave(struct st_comm *c)
{
    atomic_fetch_add(&c->users, 1); /* until st_life_aborted */
    abort_family(c, LEAVE);
    st_comm_remove(c);
}

void st_life_aborted(struct st_comm *c, bool ended)
{
    if (ended)
        atomic_store(&c->orphan, atomic_exchange(&c->kept, NULL));
    st_book_close(c->book);
    st_life_release(c);
}

/* Several threads may run this at once: each calls it when it no longer uses the handle, or has
 * found none (st_life_release). Only one of them discards the orphan. */
void st_life_discard(struct st_comm *c)
{
    const struct st_kernels *kernels = c->kernels;
    struct symtuner_ar *handle =
        atomic_load(&c->users) == 0 ? atomic_exchange(&c->orphan, NULL) : NULL;

    if (!handle || !kernels->discard_)
        return; /* an older library has no discard_, so the handle leaks */
    st_inside++;
    kernels->discard_(&handle, 1);
    st_inside--;
}
