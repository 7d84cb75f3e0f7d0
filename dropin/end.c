/* SPDX-License-Identifier: Apache-2.0 */
/* end.c - see life.h: what happens when a communicator ends or is aborted. */
#include <pthread.h>
#include <sched.h>

#include "dropin/ledger/book.h"
#include "dropin/life.h"
#include "dropin/meet.h"

/* Held while a handle moves from ${handle} to ${kept} of its record (struct st_comm). So another
 * thread that ends the communicator finds the handle in one of the two. */
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER;

/* Take the handle out of the record, and return it, or NULL if there is none. From then on NCCL
 * runs all calls of the communicator. */
static struct symtuner_ar *take(struct st_comm *c)
{
    struct symtuner_ar *handle, *kept;

    pthread_mutex_lock(&moving);
    handle = atomic_exchange(&c->handle, NULL);
    kept = atomic_exchange(&c->kept, NULL);
    if (handle || kept) {
        c->why = ST_WHY_FAILED;
        st_comm_give(c);
    }
    pthread_mutex_unlock(&moving);
    return handle ? handle : kept;
}

/* Move the handle to ${kept}, and return it, or NULL if there is none. From then on NCCL runs all
 * calls of the communicator. If ${gives}, no longer count the handle among those of its GPU, so
 * that another communicator may make one there. */
static struct symtuner_ar *keep(struct st_comm *c, bool gives)
{
    struct symtuner_ar *handle;

    pthread_mutex_lock(&moving);
    handle = atomic_exchange(&c->handle, NULL);
    if (handle)
        atomic_store(&c->kept, handle);
    handle = atomic_load(&c->kept);
    if (handle)
        c->why = ST_WHY_FAILED;
    if (handle && gives)
        st_comm_give(c);
    pthread_mutex_unlock(&moving);
    return handle;
}

void st_life_end(struct st_comm *c)
{
    struct symtuner_ar *handle = take(c);

    st_book_close(c->book);
    if (!handle)
        return;
    while (atomic_load(&c->users) > 0)
        sched_yield();
    st_inside++;
    c->kernels->destroy_(&handle, 1);
    st_inside--;
    st_meet_leave(c->meet);
    c->meet = NULL;
}

void st_life_suspend(struct st_comm *c)
{
    keep(c, false); /* false: it still counts on its GPU, because graphs may run its calls */
}

/* Make our kernels give up, but do not free the handle. To free it we would have to wait for the
 * GPU, and NCCL's abort does not wait. So the handle stays in ${kept} until st_life_end or
 * st_life_aborted. Until this function returns, this thread counts as a user of the handle, so
 * st_life_end in another thread waits. A third thread may still be in a vote, so ${meet} is freed
 * only when a new communicator gets the record. */
static void abort_one(struct st_comm *c)
{
    struct symtuner_ar *handle;

    atomic_fetch_add(&c->users, 1);
    handle = keep(c, true);
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
void st_life_abort(struct st_comm *c)
{
    struct st_comm *relative;
    unsigned place = 0;

    atomic_fetch_add(&c->users, 1); /* so that ${c} stays the record of this communicator */
    abort_one(c);
    while ((relative = st_comm_relative(c, &place))) {
        abort_one(relative);
        st_life_release(relative);
    }
    st_life_release(c);
}

void st_life_leave(struct st_comm *c)
{
    atomic_fetch_add(&c->users, 1); /* until st_life_aborted */
    st_life_abort(c);
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
