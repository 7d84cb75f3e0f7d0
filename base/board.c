/* SPDX-License-Identifier: Apache-2.0 */
#include "base/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reserve.h"

/* Check the object ${fd}: it must be a regular file that only this user can open. If ${size} is not
 * 0, it must also still have a name, and exactly ${size} bytes. Returns 0 if all this is true, else
 * an errno number. */
static int judge(int fd, size_t size)
{
    struct stat file;

    if (fstat(fd, &file) != 0)
        return errno;
    if (!S_ISREG(file.st_mode) || file.st_uid != geteuid() || (file.st_mode & 077) != 0)
        return EACCES;
    return size && (file.st_size != (off_t)size || file.st_nlink == 0) ? ENOENT : 0;
}

static int map(int fd, size_t size, void **at)
{
    *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return *at == MAP_FAILED ? errno : 0;
}

int st_board_map(const char *name, size_t size, bool create, void **at)
{
    int fd =
        shm_open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
    int failed = fd < 0 ? errno : judge(fd, create ? 0 : size);

    if (!failed && create)
        failed = st_reserve(fd, size);
    if (!failed)
        failed = map(fd, size, at);
    if (failed && create && fd >= 0)
        shm_unlink(name);
    if (fd >= 0)
        close(fd);
    return failed;
}

static bool lock(int fd, int how)
{
    while (flock(fd, how) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* Take a shared lock on the object; the lock lasts until st_board_hide. If no living process has a
 * lock on the object, first set the object to ${size} zero bytes, under an exclusive lock. */
static bool prepare(int fd, size_t size)
{
    if (judge(fd, 0) != 0)
        return false;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        (ftruncate(fd, 0) != 0 || st_reserve(fd, size) != 0))
        return false;
    return lock(fd, LOCK_SH) && judge(fd, size) == 0;
}

/* Remove the name of the object ${fd} if the object belongs to this user and nobody else has a lock
 * on it. If the object has no name any more, do nothing: ${name} may be another object's. */
static void abandon(int fd, const char *name)
{
    struct stat file;

    if (judge(fd, 0) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &file) == 0 &&
        file.st_nlink > 0)
        shm_unlink(name);
}

bool st_board_join(struct st_board *board, const char *name, size_t size)
{
    bool joined;
    int fd;

    *board = (struct st_board){.size = size};
    snprintf(board->name, sizeof board->name, "%s", name);
    fd = shm_open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* If the program has closed stdin, stdout or stderr, its number is free, and what the program
     * prints there would get into the object. So keep the object open under a higher number. */
    board->fd = fd >= 0 && fd <= STDERR_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : fd;
    joined = board->fd >= 0 && prepare(board->fd, size) && map(board->fd, size, &board->at) == 0;
    if (!joined && fd >= 0)
        abandon(fd, name);
    if (fd >= 0 && fd != board->fd)
        close(fd);
    if (joined)
        return true;
    if (board->fd >= 0)
        close(board->fd);
    *board = (struct st_board){.fd = -1};
    return false;
}

void st_board_hide(struct st_board *board)
{
    if (board->fd < 0)
        return;
    shm_unlink(board->name);
    close(board->fd);
    board->fd = -1;
}

void st_board_leave(struct st_board *board)
{
    st_board_hide(board);
    munmap(board->at, board->size);
    board->at = NULL;
}
