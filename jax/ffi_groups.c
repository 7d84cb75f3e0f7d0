/* SPDX-License-Identifier: Apache-2.0 */
/* ffi_groups.c - the table of seats. */
#include "ffi_groups.h"

#include <string.h>

static struct st_seat seats[ST_GROUP_SEATS];
static int used; /* seats below it are complete */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct st_seat *st_seat_at(int i)
{
    return i >= 0 && i < __atomic_load_n(&used, __ATOMIC_ACQUIRE) ? &seats[i] : NULL;
}

struct st_seat *st_seat_find(const int64_t *groups, int rows, int ranks, int ordinal, int xla)
{
    struct st_seat *seat;

    for (int i = 0; (seat = st_seat_at(i)) != NULL; i++) {
        if (seat->ordinal != ordinal || seat->ranks != ranks || seat->xla != xla)
            continue;
        for (int row = 0; row < rows; row++)
            if (memcmp(groups + (size_t)row * (size_t)ranks, seat->ids,
                       sizeof *groups * (size_t)ranks) == 0)
                return seat;
    }
    return NULL;
}

int st_seats_add(const struct st_seat *more, int n)
{
    int result = -1;

    pthread_mutex_lock(&lock);
    if (used + n <= ST_GROUP_SEATS) {
        for (int i = 0; i < n; i++) {
            seats[used + i] = more[i];
            pthread_mutex_init(&seats[used + i].lock, NULL);
        }
        __atomic_store_n(&used, used + n, __ATOMIC_RELEASE);
        result = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int st_seats_clear(void)
{
    int n;

    pthread_mutex_lock(&lock);
    n = used;
    __atomic_store_n(&used, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return n;
}
