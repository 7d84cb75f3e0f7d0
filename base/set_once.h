/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set_once.h - set a variable once, without a lock while its value is worked out.
 *
 * To find functions, we call the dynamic loader (dlopen, dlsym). The loader has a lock of its own,
 * which another thread may hold while it runs a constructor that calls us. If we held a lock
 * meanwhile, as pthread_once does, the two threads could wait for each other for ever. So each
 * thread that finds the variable unset works out the value, and calls st_set_once:
 *
 *     static struct functions functions;
 *     static atomic_bool known;
 *
 *     if (!st_is_set(&known)) {
 *         struct functions found = find();
 *
 *         st_set_once(&known, &functions, &found, sizeof found);
 *     }
 */
#ifndef ST_SET_ONCE_H_
#define ST_SET_ONCE_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Is the variable set? Then it does not change any more. */
static inline bool st_is_set(const atomic_bool *known)
{
    return atomic_load_explicit(known, memory_order_acquire);
}

/* Set the variable ${to} to the ${size} bytes at ${value}, unless it is set. */
static inline void st_set_once(atomic_bool *known, void *to, const void *value, size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    if (!st_is_set(known)) {
        memcpy(to, value, size);
        atomic_store_explicit(known, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

#endif
