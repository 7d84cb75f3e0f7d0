/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiet.h - write to files without the signals that failed writes send.
 *
 * A write to a pipe without a reader fails with EPIPE and sends SIGPIPE. A write past the process's
 * limit on file sizes (ulimit -f) fails with EFBIG and sends SIGXFSZ. Either signal would end the
 * job. Between st_quiet_begin and st_quiet_end this thread receives neither signal.
 * Threads: any; begin and end in the same thread.
 */
#ifndef ST_QUIET_H_
#define ST_QUIET_H_

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

struct st_quiet {
    sigset_t masked, pending; /* the thread's blocked and pending signals before st_quiet_begin */
};

static inline void st_quiet_begin(struct st_quiet *quiet)
{
    sigset_t both;

    sigemptyset(&both);
    sigaddset(&both, SIGPIPE);
    sigaddset(&both, SIGXFSZ);
    sigpending(&quiet->pending);
    pthread_sigmask(SIG_BLOCK, &both, &quiet->masked);
}

/* Discard the signal that the failed write sent. ${error} is the errno of that write, or 0 if no
 * write failed. A signal that was pending before st_quiet_begin remains pending. Does not change
 * errno. */
static inline void st_quiet_end(const struct st_quiet *quiet, int error)
{
    const struct timespec at_once = {0};
    const int sent = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0, kept = errno;
    sigset_t one;

    if (sent && !sigismember(&quiet->pending, sent)) {
        sigemptyset(&one);
        sigaddset(&one, sent);
        sigtimedwait(&one, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &quiet->masked, NULL);
    errno = kept;
}

#endif
