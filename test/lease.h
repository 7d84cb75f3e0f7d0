/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - lets another process hold a lease on a file, as an NFS or Samba server does. */
#ifndef TEST_LEASE_H_
#define TEST_LEASE_H_

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void lease_ends(int signal)
{
    (void)signal;
    usleep(50000); /* so that whoever opens the file has to wait */
    _exit(0);
}

/* Take a lease on ${path} in another process. ${kind}: F_RDLCK, which keeps writers waiting, or
 * F_WRLCK. The lease ends when somebody opens the file. Returns false if the file system has no
 * leases. */
static bool t_lease(const char *path, int kind)
{
    char held = 0;
    int ends[2];

    if (pipe(ends) == 0 && fork() == 0) {
        int fd = open(path, kind == F_RDLCK ? O_RDONLY : O_RDWR);

        signal(SIGIO, lease_ends);
        held = fcntl(fd, F_SETLEASE, kind) == 0;
        if (write(ends[1], &held, 1) == 1 && held)
            sleep(20);
        _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], &held, 1) != 1)
        held = 0;
    close(ends[0]);
    return held;
}

/* Return whether files in /tmp can have leases. If not, print which test is skipped, so that it
 * does not seem to have passed. */
static bool t_leases_here(const char *test)
{
    char path[] = "/tmp/symtuner-check-XXXXXX";
    int fd;
    bool can;

    close(mkstemp(path));
    fd = open(path, O_RDONLY); /* a file that is open for writing cannot have a read lease */
    can = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
    close(fd);
    unlink(path);
    if (!can)
        printf("not run: %s: files of /tmp have no leases here\n", test);
    return can;
}

#endif
