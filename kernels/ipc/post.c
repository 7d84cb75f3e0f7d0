/* SPDX-License-Identifier: Apache-2.0 */
/* post.c - see post.h. */
#include "kernels/ipc/post.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SOCKET = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC };

struct message {
    uint64_t token;
    uint32_t rank, number;
};

/* Room for the control data of a message: one descriptor. */
union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
};

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Does the process at the other end of ${fd} belong to this user? */
static bool is_ours(int fd)
{
    struct ucred other;
    socklen_t size = sizeof other;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

void ar_post_init(struct ar_post *post)
{
    post->listener = -1;
    for (int r = 0; r < AR_IPC_RANKS; r++)
        post->to[r] = post->from[r] = -1;
}

int ar_post_open(struct ar_post *post, struct ar_post_address *address)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t size = sizeof at.sun_family; /* no name: Linux chooses one that is free */

    post->listener = socket(AF_UNIX, SOCKET, 0);
    if (post->listener < 0 || bind(post->listener, (struct sockaddr *)&at, size) != 0 ||
        listen(post->listener, AR_IPC_RANKS) != 0)
        return errno;
    size = sizeof at;
    if (getsockname(post->listener, (struct sockaddr *)&at, &size) != 0)
        return errno;
    size -= offsetof(struct sockaddr_un, sun_path);
    if (size > sizeof address->name)
        return ENAMETOOLONG;
    memcpy(address->name, at.sun_path, size);
    address->length = size;
    return getrandom(&address->token, sizeof address->token, 0) == sizeof address->token ? 0
                                                                                         : ENOSYS;
}

void ar_post_close(struct ar_post *post)
{
    close_one(&post->listener);
    for (int r = 0; r < AR_IPC_RANKS; r++) {
        close_one(&post->to[r]);
        close_one(&post->from[r]);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

/* A system call has failed, and errno says why. Return AR_POST_LATER if it may succeed later. */
static enum ar_post_sent after_failure(void)
{
    static const int passing[] = {EAGAIN, EINTR, ENOBUFS, ENOMEM, EMFILE, ENFILE, ETOOMANYREFS};

    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (errno == passing[i])
            return AR_POST_LATER;
    return AR_POST_NEVER;
}

/* Connect to ${address}, without waiting, and set ${*to} to the connection. */
static enum ar_post_sent meet(int *to, const struct ar_post_address *address)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const socklen_t size = (socklen_t)offsetof(struct sockaddr_un, sun_path) + address->length;
    enum ar_post_sent result;

    if (address->length == 0 || address->length > sizeof address->name) {
        errno = EADDRNOTAVAIL;
        return AR_POST_NEVER;
    }
    memcpy(at.sun_path, address->name, address->length);
    *to = socket(AF_UNIX, SOCKET, 0);
    if (*to < 0)
        return after_failure();
    if (connect(*to, (struct sockaddr *)&at, size) == 0) {
        if (is_ours(*to))
            return AR_POST_SENT;
        errno = EACCES;
    }
    result = after_failure();
    close_one(to);
    return result;
}

enum ar_post_sent ar_post_send(struct ar_post *post, int me, int peer,
                               const struct ar_post_address *address, int number, int fd)
{
    struct message text = {address->token, (uint32_t)me, (uint32_t)number};
    struct iovec part = {&text, sizeof text};
    union control control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    enum ar_post_sent result = AR_POST_SENT;

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (post->to[peer] < 0)
        result = meet(&post->to[peer], address);
    if (result == AR_POST_SENT &&
        sendmsg(post->to[peer], &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        result = after_failure();
    return result;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Accept the new connections of peers. Connections for which post->from has no room are not from
 * peers, and stay unaccepted. */
static void accept_all(struct ar_post *post)
{
    for (int r = 0; r < AR_IPC_RANKS; r++) {
        if (post->from[r] >= 0)
            continue;
        post->from[r] = accept4(post->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (post->from[r] < 0)
            return;
        if (!is_ours(post->from[r]))
            close_one(&post->from[r]);
    }
}

/* Return the descriptor that came with ${message}, or -1. If there are several, return the last one
 * and close the others. */
static int descriptor_of(struct msghdr *message)
{
    int fd = -1, next;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof next) <= c->cmsg_len; at += sizeof next) {
            memcpy(&next, CMSG_DATA(c) + at, sizeof next);
            if (fd >= 0)
                close(fd);
            fd = next;
        }
    }
    return fd;
}

/* Read the next message of the connection ${*from}, if there is one. Returns 1 if it is a parcel
 * for this rank, 0 if it is something else, and -1 if there is no message. Closes a connection that
 * has ended. */
static int read_one(int *from, uint64_t token, struct ar_parcel *parcel)
{
    struct message text = {0};
    struct iovec part = {&text, sizeof text};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    const ssize_t size = recvmsg(*from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int fd;

    if (size <= 0) {
        if (size == 0 || (errno != EAGAIN && errno != EINTR && errno != ENOMEM))
            close_one(from);
        return -1;
    }
    fd = descriptor_of(&message);
    if (size != sizeof text || (message.msg_flags & MSG_TRUNC) != 0 || text.token != token ||
        text.number > INT32_MAX || text.rank > INT32_MAX) {
        close_one(&fd);
        return 0;
    }
    *parcel = (struct ar_parcel){(int)text.rank, (int)text.number, fd};
    return 1;
}

bool ar_post_receive(struct ar_post *post, const struct ar_post_address *address,
                     struct ar_parcel *parcel)
{
    accept_all(post);
    for (int r = 0; r < AR_IPC_RANKS; r++)
        while (post->from[r] >= 0) {
            const int got = read_one(&post->from[r], address->token, parcel);

            if (got > 0)
                return true;
            if (got < 0)
                break;
        }
    return false;
}
