/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h - plays the lock of the dynamic loader.
 *
 * The loader has a lock of its own. It holds the lock while it runs the constructors of a library,
 * and dlopen and dlsym wait for it. A constructor may call our code. So if our code held a lock
 * while it called the loader, two threads could wait for each other for ever.
 *
 * A test replaces dlopen and dlsym, or another function that calls them, by functions that call
 * loader_enter first. It sets an alarm or has a time limit, because a fault is a deadlock.
 */
#ifndef TEST_LOADER_H_
#define TEST_LOADER_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool loader_constructs; /* this thread runs a constructor, and has the lock */
static atomic_bool loader_waits;             /* a thread waits for the lock */

static void loader_enter(void)
{
    if (loader_constructs)
        return;
    atomic_store(&loader_waits, true);
    pthread_mutex_lock(&loader_lock);
    pthread_mutex_unlock(&loader_lock);
}

/* Let a thread run first() until it calls the loader. Then run constructor() in this thread, with
 * the loader's lock. Then let the thread end. */
static void loader_meet(void *(*first)(void *), void *(*constructor)(void *))
{
    pthread_t thread;

    atomic_store(&loader_waits, false);
    pthread_mutex_lock(&loader_lock);
    loader_constructs = true;
    pthread_create(&thread, NULL, first, NULL);
    while (!atomic_load(&loader_waits))
        usleep(1000);
    constructor(NULL);
    loader_constructs = false;
    pthread_mutex_unlock(&loader_lock);
    pthread_join(thread, NULL);
}

#endif
