/* SPDX-License-Identifier: Apache-2.0 */
/* check_post.c - checks the file descriptors that ranks send each other. They must arrive, no rank
 * may wait for them, and strangers must neither get nor send any. The sockets are real. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/ipc/post.h"
#include "test/kernels/ipc/ranks.h"
#include "test/kernels/suites.h"

static struct ar_post post[2];
static struct ar_post_address address[2];
static struct ar_parcel parcel;
static int file, files; /* a descriptor to send; how many were open before the test */

static void open_posts(void)
{
    files = open_files();
    for (int r = 0; r < 2; r++) {
        ar_post_init(&post[r]);
        ck_assert_int_eq(ar_post_open(&post[r], &address[r]), 0);
    }
    file = memfd_create("check", MFD_CLOEXEC);
    ck_assert_int_eq(write(file, "text", 4), 4);
}

static void close_posts(void)
{
    for (int r = 0; r < 2; r++)
        ar_post_close(&post[r]);
    close(file);
    ck_assert_int_eq(open_files(), files);
}

static enum ar_post_sent send_it(int number)
{
    return ar_post_send(&post[0], 0, 1, &address[1], number, file);
}

static bool receive(void)
{
    return ar_post_receive(&post[1], &address[1], &parcel);
}

/* Check that message ${number} of rank 0 arrives next, with ${file}. */
static void must_come(int number)
{
    char text[5] = "";

    ck_assert(receive());
    ck_assert_int_eq(parcel.rank, 0);
    ck_assert_int_eq(parcel.number, number);
    ck_assert_int_ge(parcel.fd, 0);
    ck_assert_int_ne(fcntl(parcel.fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(pread(parcel.fd, text, 4, 0), 4);
    ck_assert_str_eq(text, "text");
    close(parcel.fd);
}

START_TEST(test_parcels_come_in_order)
{
    ck_assert(!receive());
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(send_it(i), AR_POST_SENT);
    for (int i = 0; i < 20; i++)
        must_come(i);
    ck_assert(!receive());
}
END_TEST

/* What a process has sent arrives even if the process has ended. */
START_TEST(test_from_another_process)
{
    const pid_t child = fork();
    int status = 1;

    if (child == 0)
        _exit(send_it(7) != AR_POST_SENT);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    must_come(7);
    ck_assert(!receive());
    ck_assert_int_eq(send_it(8), AR_POST_SENT);
    must_come(8);
}
END_TEST

START_TEST(test_a_peer_that_has_ended)
{
    signal(SIGPIPE, SIG_DFL);
    if (_i == 1) /* the process ends after the rank has connected to it */
        ck_assert_int_eq(send_it(0), AR_POST_SENT);
    ar_post_close(&post[1]);
    ck_assert_int_eq(send_it(1), AR_POST_NEVER);
    address[1].length = 0;
    ar_post_close(&post[0]);
    ck_assert_int_eq(send_it(2), AR_POST_NEVER);
}
END_TEST

START_TEST(test_a_full_socket_is_no_wait)
{
    int sent = 0;

    while (sent < 100000 && send_it(sent) == AR_POST_SENT)
        sent++;
    ck_assert_int_gt(sent, 10);
    ck_assert_int_lt(sent, 100000);
    ck_assert_int_eq(send_it(sent), AR_POST_LATER);
    for (int i = 0; i < sent; i++)
        must_come(i);
    ck_assert(!receive());
    ck_assert_int_eq(send_it(sent), AR_POST_SENT);
    must_come(sent);
}
END_TEST

/* Connect to rank 1 like a program that has found out the name of its socket. */
static int connect_as_stranger(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

    memcpy(at.sun_path, address[1].name, address[1].length);
    if (connect(fd, (struct sockaddr *)&at,
                (socklen_t)offsetof(struct sockaddr_un, sun_path) + address[1].length) == 0)
        return fd;
    close(fd);
    return -1;
}

START_TEST(test_a_full_queue_of_connections_is_no_wait)
{
    int strangers[64], n = 0;

    while (n < 64 && (strangers[n] = connect_as_stranger()) >= 0)
        n++;
    ck_assert_int_lt(n, 64);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(send_it(1), AR_POST_LATER);
    while (n > 0)
        close(strangers[--n]);
    ck_assert(!receive());
    ck_assert(!receive()); /* there was no room for the last stranger */
    ck_assert_int_eq(send_it(1), AR_POST_SENT);
    must_come(1);
}
END_TEST

/* Allow ${more} further descriptors in this process. */
static void allow(int more)
{
    struct rlimit limit;
    int fd[1024], n = 0;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max > 1024 ? 1024 : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (more < 0)
        return;
    for (; n <= more; n++)
        fd[n] = dup(file);
    limit.rlim_cur = (rlim_t)fd[more]; /* descriptors are given out from the lowest on */
    while (n > 0)
        close(fd[--n]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

START_TEST(test_the_sender_has_no_descriptor_left)
{
    allow(0);
    ck_assert_int_eq(send_it(1), AR_POST_LATER);
    allow(-1);
    ck_assert_int_eq(send_it(1), AR_POST_SENT);
    must_come(1);
}
END_TEST

START_TEST(test_the_receiver_has_no_descriptor_left)
{
    ck_assert_int_eq(send_it(1), AR_POST_SENT);
    ck_assert_int_eq(send_it(2), AR_POST_SENT);
    allow(0);
    ck_assert(!receive()); /* no descriptor is left for the connection, so the connection waits */
    allow(1);
    ck_assert(receive());
    ck_assert_int_eq(parcel.number, 1);
    ck_assert_int_eq(parcel.fd, -1); /* Linux has dropped the descriptor */
    allow(-1);
    must_come(2);
}
END_TEST

/* The receiver must drop a message that is for another process, whose socket had the same name
 * before. It must also drop bytes that are no message. */
START_TEST(test_other_messages_are_dropped)
{
    const struct ar_post_address old = {.token = address[1].token + 1, .length = address[1].length};
    struct ar_post_address other = old;
    int fd;

    memcpy(other.name, address[1].name, sizeof other.name);
    ck_assert_int_eq(ar_post_send(&post[0], 0, 1, &other, 1, file), AR_POST_SENT);
    fd = connect_as_stranger();
    ck_assert_int_eq(send(fd, "hello", 5, 0), 5);
    ck_assert_int_eq(send_it(-1), AR_POST_SENT);
    ck_assert_int_eq(send_it(3), AR_POST_SENT);
    must_come(3);
    ck_assert(!receive());
    close(fd);
    ck_assert(!receive());
}
END_TEST

/* A process of another user must neither get a descriptor nor send one. Only root can test this. */
START_TEST(test_another_user)
{
    int status = 1;
    pid_t child;

    if (geteuid() != 0)
        return;
    child = fork();
    if (child == 0) {
        int fd;

        if (setuid(12345) != 0 || send_it(1) != AR_POST_NEVER || errno != EACCES)
            _exit(1);
        fd = connect_as_stranger();
        post[0].to[1] = fd;
        _exit(fd < 0 || send_it(2) == AR_POST_LATER);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(!receive());
    ck_assert_int_eq(send_it(3), AR_POST_SENT);
    must_come(3);
}
END_TEST

Suite *st_suite_post(void)
{
    Suite *s = suite_create("ar_post");
    TCase *t = tcase_create("post");

    tcase_add_checked_fixture(t, open_posts, close_posts);
    tcase_add_test(t, test_parcels_come_in_order);
    tcase_add_test(t, test_from_another_process);
    tcase_add_loop_test(t, test_a_peer_that_has_ended, 0, 2);
    tcase_add_test(t, test_a_full_socket_is_no_wait);
    tcase_add_test(t, test_a_full_queue_of_connections_is_no_wait);
    tcase_add_test(t, test_the_sender_has_no_descriptor_left);
    tcase_add_test(t, test_the_receiver_has_no_descriptor_left);
    tcase_add_test(t, test_other_messages_are_dropped);
    tcase_add_test(t, test_another_user);
    suite_add_tcase(s, t);
    return s;
}
