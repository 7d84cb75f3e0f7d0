/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/comms.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dropin/meet.h"

_Atomic(struct st_comm *) st_comm_table[ST_COMM_PLACES];
atomic_int st_comm_handles[ST_DEVICES];

/* Takes the place of an ended communicator in st_comm_table, so that a search goes on to the next
 * entry. */
static struct st_comm gone;
static int used; /* entries of st_comm_table that are not NULL */

/* Records of ended communicators, oldest first. If a watchdog thread has aborted a communicator,
 * another thread may still be in a call on it. So we use a record again only after RESTING more
 * communicators have ended. */
enum { RESTING = 64 };
static struct st_comm *oldest, **newest = &oldest;
static int resting;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct st_comm *record(void)
{
    struct st_comm *c = oldest;

    if (resting <= RESTING || atomic_load(&c->users) > 0 || atomic_load(&c->orphan))
        return calloc(1, sizeof *c);
    oldest = c->next_free;
    resting--;
    st_meet_leave(c->meet); /* an aborted communicator has not left its meeting */
    memset((char *)c + sizeof c->comm, 0, sizeof *c - sizeof c->comm);
    return c;
}

struct st_comm *st_comm_add(void *comm, struct st_real *real)
{
    unsigned place = st_comm_place(comm);
    struct st_comm *c = NULL, *old;

    pthread_mutex_lock(&lock);
    while ((old = st_comm_table[place]) && old != &gone)
        place = (place + 1) % ST_COMM_PLACES;
    if (old || used < ST_COMM_PLACES / 2)
        c = record();
    if (c) {
        c->real = real;
        atomic_store_explicit(&c->comm, comm, memory_order_release);
        used += old == NULL;
        atomic_store_explicit(&st_comm_table[place], c, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return c;
}

void st_comm_remove(struct st_comm *c)
{
    unsigned place;

    pthread_mutex_lock(&lock);
    if (!c->comm) { /* another thread has ended it */
        pthread_mutex_unlock(&lock);
        return;
    }
    place = st_comm_place(c->comm);
    while (st_comm_table[place] != c)
        place = (place + 1) % ST_COMM_PLACES;
    atomic_store_explicit(&c->comm, NULL, memory_order_release);
    atomic_store(&st_comm_table[place], &gone);
    /* A search goes on after an entry that is &gone, and ends at an entry that is NULL. If the next
     * entry is NULL, no search needs to pass this entry, so set it to NULL, too. Then the same may
     * be true of the entry before it. */
    while (!st_comm_table[(place + 1) % ST_COMM_PLACES] && st_comm_table[place] == &gone) {
        atomic_store(&st_comm_table[place], NULL);
        used--;
        place = (place + ST_COMM_PLACES - 1) % ST_COMM_PLACES;
    }
    c->next_free = NULL;
    *newest = c;
    newest = &c->next_free;
    resting++;
    pthread_mutex_unlock(&lock);
}
