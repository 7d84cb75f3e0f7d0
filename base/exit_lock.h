/* SPDX-License-Identifier: Apache-2.0 */
/* exit_lock.h - take a lock while the program exits. */
#ifndef ST_EXIT_LOCK_H_
#define ST_EXIT_LOCK_H_

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Lock ${lock}, but wait for it at most 2 s. A longer wait could last for ever: a signal handler
 * may call exit() in a thread that holds the lock itself. Returns whether the lock is held. */
static inline bool st_exit_lock(pthread_mutex_t *lock)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    return pthread_mutex_timedlock(lock, &until) == 0;
}

#endif
