/* SPDX-License-Identifier: Apache-2.0 */
/* first.c - finds the first of the handles that this process has on a GPU. */
#include "kernels/order/first.h"

#include <pthread.h>

static symtuner_ar *list; /* all handles, linked by h->next */
static uint64_t latest;   /* the largest place of any handle so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Return whether ${other} is before ${h} in the order of first.h. If ${other} has no place yet,
 * return whether it may be before ${h} once it has one. */
static bool may_precede(const symtuner_ar *other, const symtuner_ar *h)
{
    if (other->place != h->place)
        return other->place < h->place;
    return !other->placed || other->group < h->group;
}

/* If one handle on ${device} is known to come before all others there, set its field ${first}. */
static void mark(int device)
{
    for (symtuner_ar *h = list; h != NULL; h = h->next) {
        bool first = h->placed && h->device == device;

        for (const symtuner_ar *o = list; o != NULL && first; o = o->next)
            first = o == h || o->device != device || !may_precede(o, h);
        if (first)
            atomic_store(&h->first, true);
    }
}

void ar_first_join(symtuner_ar *h)
{
    pthread_mutex_lock(&lock);
    h->place = latest + 1;
    h->next = list;
    list = h;
    pthread_mutex_unlock(&lock);
}

void ar_first_place(symtuner_ar *h, uint64_t place)
{
    pthread_mutex_lock(&lock);
    h->place = place;
    h->placed = true;
    latest = place > latest ? place : latest;
    mark(h->device);
    pthread_mutex_unlock(&lock);
}

void ar_first_leave(symtuner_ar *h)
{
    symtuner_ar **at = &list;

    pthread_mutex_lock(&lock);
    while (*at != NULL && *at != h)
        at = &(*at)->next;
    if (*at == h) {
        *at = h->next;
        mark(h->device);
    }
    pthread_mutex_unlock(&lock);
}
