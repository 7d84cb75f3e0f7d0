/* SPDX-License-Identifier: Apache-2.0 */
/* own_thread.h - start a thread of ours in a program that knows nothing of it. */
#ifndef ST_OWN_THREAD_H_
#define ST_OWN_THREAD_H_

#include <pthread.h>
#include <signal.h>

/* Like pthread_create, but the new thread blocks all signals: they are for the program's threads.
 * The kernel gives a signal for the process to any thread that does not block it. The program's
 * handler may need what only the program's threads have, and a signal must not end a wait of ours
 * early. */
static inline int st_own_thread(pthread_t *thread, const pthread_attr_t *attributes,
                                void *(*body)(void *), void *argument)
{
    sigset_t all, before;
    int error;

    sigfillset(&all); /* the new thread inherits this mask */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, attributes, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

#endif
