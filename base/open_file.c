/* SPDX-License-Identifier: Apache-2.0 */
#include "base/open_file.h"

#include <errno.h>
#include <fcntl.h>

int st_open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0644);

    if (fd < 0 && errno == EWOULDBLOCK) /* another process has a file lease: wait until it ends */
        fd = open(path, (flags & ~O_NONBLOCK) | O_CLOEXEC, 0644);
    if (fd >= 0)
        fcntl(fd, F_SETFL, flags & (O_APPEND | O_NONBLOCK));
    return fd;
}
