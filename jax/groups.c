/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c - the table of seats. */
#include "jax/groups.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

static struct ffi_seat seats[FFI_GROUP_SEATS];
static int gpus[FFI_GROUP_SEATS]; /* their devices, to be read while a place changes hands */
static int used;                  /* places below it have or had a seat */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_open(const struct ffi_seat *seat)
{
    return __atomic_load_n(&seat->open, __ATOMIC_SEQ_CST);
}

void ffi_seat_release(struct ffi_seat *seat)
{
    if (seat != NULL)
        __atomic_fetch_sub(&seat->held, 1, __ATOMIC_SEQ_CST);
}

/* Whether it is open, and held then. Held first, looked at next; a close goes the other way, so one
 * of the two sees the other. */
static int hold(struct ffi_seat *seat)
{
    __atomic_fetch_add(&seat->held, 1, __ATOMIC_SEQ_CST);
    if (is_open(seat))
        return 1;
    ffi_seat_release(seat);
    return 0;
}

struct ffi_seat *ffi_seat_at(int i)
{
    int n = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

    for (int place = 0; i >= 0 && place < n; place++)
        if (is_open(&seats[place]) && i-- == 0)
            return &seats[place];
    return NULL;
}

struct ffi_seat *ffi_seat_hold(int i)
{
    struct ffi_seat *seat = ffi_seat_at(i);

    return seat != NULL && hold(seat) ? seat : NULL;
}

static int has_row(const struct ffi_seat *seat, const int64_t *groups, int rows)
{
    size_t bytes = sizeof *groups * (size_t)seat->ranks;

    for (int row = 0; row < rows; row++)
        if (memcmp(groups + (size_t)row * (size_t)seat->ranks, seat->ids, bytes) == 0)
            return 1;
    return 0;
}

/* Only seats of the caller's own device are held, so the ranks do not write to each other's. */
struct ffi_seat *ffi_seat_find(const int64_t *groups, int rows, int ranks, int ordinal, int xla)
{
    int n = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

    for (int i = 0; i < n; i++) {
        if (__atomic_load_n(&gpus[i], __ATOMIC_RELAXED) != ordinal || !hold(&seats[i]))
            continue;
        if (seats[i].ordinal == ordinal && seats[i].ranks == ranks && seats[i].xla == xla &&
            has_row(&seats[i], groups, rows))
            return &seats[i];
        ffi_seat_release(&seats[i]);
    }
    return NULL;
}

int ffi_seats_room(int n)
{
    return __atomic_load_n(&used, __ATOMIC_ACQUIRE) + n <= FFI_GROUP_SEATS;
}

/* All but ${held}, in which a late reader of the place counts itself, and ${open}. */
static void fill(struct ffi_seat *seat, const struct ffi_seat *with)
{
    size_t from = offsetof(struct ffi_seat, found);

    memcpy(seat, with, offsetof(struct ffi_seat, lock));
    memcpy((char *)seat + from, (const char *)with + from, sizeof *seat - from);
    pthread_mutex_init(&seat->lock, NULL);
}

int ffi_seats_add(const struct ffi_seat *more, int n)
{
    int result = -1;

    pthread_mutex_lock(&lock);
    if (ffi_seats_room(n)) {
        for (int i = used; i < used + n; i++) {
            fill(&seats[i], &more[i - used]);
            __atomic_store_n(&gpus[i], seats[i].ordinal, __ATOMIC_RELAXED);
        }
        for (int i = used; i < used + n; i++)
            __atomic_store_n(&seats[i].open, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&used, used + n, __ATOMIC_RELEASE);
        result = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int ffi_seats_shut(void)
{
    int n;

    pthread_mutex_lock(&lock);
    n = used;
    for (int i = 0; i < n; i++)
        __atomic_store_n(&seats[i].open, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&lock);
    return n;
}

struct ffi_seat *ffi_seat_shut(int i)
{
    const struct timespec moment = {0, 1000000};

    while (__atomic_load_n(&seats[i].held, __ATOMIC_SEQ_CST) != 0)
        nanosleep(&moment, NULL);
    return &seats[i];
}

void ffi_seats_forget(int n)
{
    pthread_mutex_lock(&lock);
    if (used == n)
        __atomic_store_n(&used, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}
