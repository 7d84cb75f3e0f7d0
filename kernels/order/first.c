/* SPDX-License-Identifier: Apache-2.0 */
/* first.c - see first.h. */
#include "kernels/order/first.h"

#include <pthread.h>

static symtuner_ar *oldest; /* head of the list of all handles, oldest first; see h->younger */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Mark the oldest handle on ${device} as the first handle; first.h says what that is for. */
static void mark(int device)
{
    symtuner_ar *h = oldest;

    while (h != NULL && h->device != device)
        h = h->younger;
    if (h != NULL)
        atomic_store(&h->first, true);
}

void ar_first_join(symtuner_ar *h)
{
    symtuner_ar **end = &oldest;
    bool other = false;

    pthread_mutex_lock(&lock);
    for (; *end != NULL; end = &(*end)->younger)
        other |= (*end)->device == h->device;
    *end = h;
    atomic_store(&h->first, !other);
    pthread_mutex_unlock(&lock);
}

void ar_first_leave(symtuner_ar *h)
{
    symtuner_ar **at = &oldest;

    pthread_mutex_lock(&lock);
    while (*at != NULL && *at != h)
        at = &(*at)->younger;
    if (*at == h) {
        *at = h->younger;
        mark(h->device);
    }
    pthread_mutex_unlock(&lock);
}
