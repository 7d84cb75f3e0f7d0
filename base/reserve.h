/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.h - give a new file its size and all its memory. */
#ifndef ST_RESERVE_H_
#define ST_RESERVE_H_

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

/* Reserve ${size} bytes for the file ${fd}. Returns 0, or an errno number on failure. If the
 * process may not write such large files (ulimit -f), the system also sends SIGXFSZ, which would
 * end the job. So this function blocks that signal, and then discards the one that it caused.
 * Threads: any. */
static inline int st_reserve(int fd, size_t size)
{
    const struct timespec at_once = {0};
    sigset_t too_large, masked, pending;
    int failed;

    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &too_large, &masked);
    failed = posix_fallocate(fd, 0, (off_t)size);
    if (failed == EFBIG && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&too_large, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &masked, NULL);
    return failed;
}

#endif
