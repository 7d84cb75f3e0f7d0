/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.h - set the size of a new file, and reserve memory or disk space for all of it. */
#ifndef ST_RESERVE_H_
#define ST_RESERVE_H_

#include <fcntl.h>

#include "base/quiet.h"

/* Give the new file ${fd} a size of ${size} bytes, and reserve the space. Returns 0, or an errno
 * number on failure. */
static inline int st_reserve(int fd, size_t size)
{
    struct st_quiet quiet;
    int failed;

    st_quiet_begin(&quiet);
    failed = posix_fallocate(fd, 0, (off_t)size);
    st_quiet_end(&quiet, failed);
    return failed;
}

#endif
