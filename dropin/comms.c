/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/comms.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "dropin/entry/real.h"
#include "dropin/meet.h"
#include "nccl/param.h"

_Atomic(struct st_comm *) st_comm_table[ST_COMM_PLACES];
atomic_int st_comm_handles[ST_DEVICES], st_comm_wide[ST_DEVICES];

/* When a communicator ends, its entry in st_comm_table points to this record instead. So a search
 * for another communicator does not stop there, but goes on to the next entry. */
static struct st_comm gone;
static int used; /* entries of st_comm_table that are not NULL */

/* Records of ended communicators, oldest first. If a watchdog thread has aborted a communicator,
 * another thread may still be in a call on it. So a record is used again only after RESTING more
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
    st_meet_leave(c->meet); /* an aborted communicator has not left its meeting yet */
    free(c->book);          /* freed only now, because late threads may have counted in it */
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
    if (!c->comm) { /* another thread has removed it */
        pthread_mutex_unlock(&lock);
        return;
    }
    place = st_comm_place(c->comm);
    while (st_comm_table[place] != c)
        place = (place + 1) % ST_COMM_PLACES;
    atomic_store_explicit(&c->comm, NULL, memory_order_release);
    atomic_store(&st_comm_table[place], &gone);
    /* A search goes on after an entry that is &gone, and ends at an entry that is NULL. If the next
     * entry is NULL, no search needs to pass this one, so set this one to NULL, too. Then look at
     * the entry before it in the same way. */
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

int st_comm_take(struct st_comm *c)
{
    c->placed = c->wide = true;
    atomic_fetch_add(&st_comm_wide[c->device], 1);
    return atomic_fetch_add(&st_comm_handles[c->device], 1);
}

void st_comm_limit(struct st_comm *c)
{
    if (c->wide)
        atomic_fetch_sub(&st_comm_wide[c->device], 1);
    c->wide = false;
}

void st_comm_give(struct st_comm *c)
{
    st_comm_limit(c);
    if (c->placed)
        atomic_fetch_sub(&st_comm_handles[c->device], 1);
    c->placed = false;
}

/* ---- families -------------------------------------------------------------------------------- */

struct st_comm *st_comm_relative(const struct st_comm *c, unsigned *place)
{
    struct st_comm *found = NULL;

    pthread_mutex_lock(&lock);
    while (!found && *place < ST_COMM_PLACES) {
        struct st_comm *other = st_comm_table[(*place)++];

        if (other && other != c && other->family == c->family)
            found = other;
    }
    if (found) /* now no new communicator gets this record, even if another thread removes it */
        atomic_fetch_add(&found->users, 1);
    pthread_mutex_unlock(&lock);
    return found;
}

/* The values of NCCL's two variables; NCCL_ABI_UNSET: not set */
static int split_share, shrink_share;

static void read_shares(void)
{
    split_share = (int)st_param(getenv("NCCL_COMM_SPLIT_SHARE_RESOURCES"), NCCL_ABI_UNSET);
    shrink_share = (int)st_param(getenv("NCCL_COMM_SHRINK_SHARE_RESOURCES"), NCCL_ABI_UNSET);
}

struct st_sharing st_comm_sharing(struct st_sharing sharing)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_shares);
    if (split_share != NCCL_ABI_UNSET)
        sharing.split = split_share == 1; /* NCCL takes every other value as 0 */
    if (shrink_share != NCCL_ABI_UNSET)
        sharing.shrink = shrink_share != 0;
    return sharing;
}

/* ---- keys ------------------------------------------------------------------------------------ */

uint64_t st_comm_key(const struct nccl_abi_id *id, int ids)
{
    return st_hash(ST_HASH_START, id, (size_t)ids * sizeof *id) | 1;
}

/* A process in another container may have the same pid. So the key also depends on the time, and on
 * an address, which the operating system chooses at random. */
uint64_t st_comm_own_key(void)
{
    static atomic_uint number;
    struct timespec now;
    uint64_t words[3];

    clock_gettime(CLOCK_MONOTONIC, &now);
    words[0] = (uint64_t)getpid() << 32 | atomic_fetch_add(&number, 1);
    words[1] = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    words[2] = (uintptr_t)words;
    return st_hash(ST_HASH_START, words, sizeof words) | 1;
}

uint64_t st_comm_split_key(struct st_comm *parent, int color)
{
    uint32_t number = parent->splits++;
    uint64_t h = st_hash(parent->key, &number, sizeof number);

    return parent->key ? st_hash(h, &color, sizeof color) | 1 : 0;
}

/* The key contains the number of earlier calls of ncclCommShrink with the same list. This number is
 * the same on all ranks of the new communicator. The number of all earlier calls may differ,
 * because a rank that is left out does not make the call. Ranks may give the list in different
 * orders, so its hash is a sum over its elements. */
uint64_t st_comm_shrink_key(struct st_comm *parent, const int *without, int n)
{
    uint64_t list = 0;
    uint32_t number = UINT32_MAX; /* used for a new list if parent->shrinks is full */
    int i = 0;

    for (int k = 0; k < n && without; k++)
        list += st_hash(ST_HASH_START, &without[k], sizeof without[k]);
    while (i < ST_SHRINKS && parent->shrinks[i].times && parent->shrinks[i].list != list)
        i++;
    if (!parent->key)
        return 0;
    if (i < ST_SHRINKS) {
        parent->shrinks[i].list = list;
        number = parent->shrinks[i].times++;
    }
    return st_hash(st_hash(~parent->key, &list, sizeof list), &number, sizeof number) | 1;
}
