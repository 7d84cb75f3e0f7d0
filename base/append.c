/* SPDX-License-Identifier: Apache-2.0 */
#include "base/append.h"

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/open_file.h"
#include "base/quiet.h"

enum { PATH_ROOM = 1024 };

void st_append_host(char *host, size_t size)
{
    struct utsname box;

    uname(&box);
    snprintf(host, size, "%s", box.nodename);
}

bool st_append_path(const char *pattern, char *path, size_t size)
{
    struct utsname box;
    size_t at = 0;

    uname(&box);
    path[0] = '\0';
    for (; *pattern; pattern++) {
        int n;

        if (pattern[0] == '%' && pattern[1] == 'p')
            n = snprintf(path + at, size - at, "%d", (int)getpid());
        else if (pattern[0] == '%' && pattern[1] == 'h')
            n = snprintf(path + at, size - at, "%s", box.nodename);
        else
            n = snprintf(path + at, size - at, "%c", *pattern);
        pattern += pattern[0] == '%' && pattern[1] && strchr("ph%", pattern[1]);
        if ((size_t)n >= size - at)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* If the file is a pipe and full, wait for its reader at most this many ms per text, because the
 * reader may never read again. */
enum { READER_MS = 2000 };

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Wait until a full pipe has room, at the latest until now_ms() is ${until}. If there is no room by
 * then, return false with errno EAGAIN. ${until} is a point in time, not a duration, because a wait
 * that a signal interrupts begins again. */
static bool wait_for_room(int fd, int64_t until)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    int ready = -1;

    for (int64_t left; ready < 0 && (left = until - now_ms()) > 0;)
        ready = poll(&end, 1, (int)left);
    if (ready <= 0)
        errno = EAGAIN;
    return ready > 0;
}

/* Write ${text} and return how many bytes of it were written. If not all were, errno says why. */
static size_t write_all(int fd, const char *text, size_t size)
{
    int64_t until = now_ms() + READER_MS;
    struct st_quiet quiet;
    size_t done = 0;

    st_quiet_begin(&quiet);
    while (done < size) {
        ssize_t n = write(fd, text + done, size - done);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || (errno != EINTR && (errno != EAGAIN || !wait_for_room(fd, until))))
            break;
    }
    st_quiet_end(&quiet, done < size ? errno : 0);
    return done;
}

enum st_append st_append(const char *pattern, const char *text, size_t size,
                         char error[ST_APPEND_ERROR])
{
    char path[PATH_ROOM];
    size_t done = 0;
    int fd;

    if (!st_append_path(pattern, path, sizeof path)) {
        snprintf(error, ST_APPEND_ERROR, "%.60s...: longer than %d bytes", pattern, PATH_ROOM - 1);
        return ST_APPEND_NONE;
    }
    fd = st_open_file(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK);
    if (fd >= 0)
        done = write_all(fd, text, size);
    if (done < size)
        snprintf(error, ST_APPEND_ERROR, "%s: %s", path,
                 errno == EAGAIN ? "its reader has not taken it within 2 s" : strerror(errno));
    if (fd >= 0)
        close(fd);
    return done == size ? ST_APPEND_ALL : done > 0 ? ST_APPEND_CUT : ST_APPEND_NONE;
}
