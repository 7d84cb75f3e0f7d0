/* SPDX-License-Identifier: Apache-2.0 */
/* check_board.c - tests boards (memory that processes share, base/board.h) and the hash. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/board.h"
#include "base/hash.h"
#include "test/suites.h"

enum { SIZE = 5000 };

static char name[64];

static void setup(void)
{
    snprintf(name, sizeof name, "/symtuner-check-board-%d", (int)getpid());
}

static void teardown(void)
{
    shm_unlink(name);
}

/* Make a shared memory object of any mode and size, without st_board_join. */
static void make(int mode, off_t size)
{
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fchmod(fd, (mode_t)mode), 0);
    ck_assert_int_eq(ftruncate(fd, size), 0);
    close(fd);
}

/* If the program has closed stderr, a new file may get its number, 2. What the program then prints
 * to stderr must not get into the board. */
START_TEST(test_a_closed_stderr_is_no_board)
{
    int saved = dup(STDERR_FILENO);
    struct st_board board;
    ssize_t written;
    bool joined;

    close(STDERR_FILENO);
    joined = st_board_join(&board, name, SIZE);
    written = write(STDERR_FILENO, "x", 1);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ck_assert(joined);
    ck_assert_int_eq(written, -1);
    ck_assert_int_eq(*(char *)board.at, 0);
    st_board_leave(&board);
}
END_TEST

/* With an RLIMIT_FSIZE of 0 no file can grow. Then st_board_join and st_board_map must return an
 * error. The system also sends SIGXFSZ, which must not end the program. */
START_TEST(test_a_limit_of_file_sizes_is_a_failure)
{
    struct rlimit before, none;
    struct st_board board;
    sigset_t pending;
    bool joined;
    int failed;
    void *at;

    getrlimit(RLIMIT_FSIZE, &before);
    none = (struct rlimit){0, before.rlim_max};
    /* check nothing while the limit holds, because ck_assert writes a file */
    setrlimit(RLIMIT_FSIZE, &none);
    joined = st_board_join(&board, name, SIZE);
    failed = st_board_map(name, SIZE, true, &at); /* EEXIST if st_board_join left an object */
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert(!joined);
    ck_assert_int_eq(failed, EFBIG);
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGXFSZ), 0);
}
END_TEST

/* Here the number of stdin is the only free descriptor. A board must not use it, so joining fails.
 * Then no descriptor stays open, and no object remains. */
START_TEST(test_no_free_descriptor_leaves_no_board)
{
    int saved = dup(STDIN_FILENO);
    struct rlimit before, few;
    struct st_board board;
    bool joined;

    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){STDERR_FILENO + 1, before.rlim_max};
    close(STDIN_FILENO);
    setrlimit(RLIMIT_NOFILE, &few);
    joined = st_board_join(&board, name, SIZE);
    setrlimit(RLIMIT_NOFILE, &before);
    ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
    dup2(saved, STDIN_FILENO);
    close(saved);
    ck_assert(!joined);
    ck_assert_int_eq(board.fd, -1);
    ck_assert_int_eq(shm_open(name, O_RDWR, 0), -1);
}
END_TEST

START_TEST(test_all_who_join_see_one_board_until_it_is_hidden)
{
    struct st_board one, two, three;

    ck_assert(st_board_join(&one, name, SIZE));
    ck_assert_int_eq(((char *)one.at)[SIZE - 1], 0);
    ((char *)one.at)[SIZE - 1] = 7;
    ck_assert(st_board_join(&two, name, SIZE));
    ck_assert_int_eq(((char *)two.at)[SIZE - 1], 7);
    st_board_hide(&one);
    st_board_hide(&one);
    ck_assert(st_board_join(&three, name, SIZE));
    ck_assert_int_eq(((char *)three.at)[SIZE - 1], 0);
    st_board_leave(&three);
    st_board_leave(&two);
    st_board_leave(&one);
    ck_assert_ptr_null(one.at);
    ck_assert_int_eq(shm_open(name, O_RDWR, 0), -1);
}
END_TEST

START_TEST(test_what_a_killed_process_left_begins_anew)
{
    struct st_board board;
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (st_board_join(&board, name, SIZE + 1))
            ((char *)board.at)[0] = 7;
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_ge(shm_open(name, O_RDWR, 0), 0);
    ck_assert(st_board_join(&board, name, SIZE));
    ck_assert_int_eq(((char *)board.at)[0], 0);
    st_board_leave(&board);
}
END_TEST

START_TEST(test_a_board_in_use_keeps_its_size)
{
    struct st_board longer, board;

    ck_assert(st_board_join(&longer, name, SIZE + 1));
    ck_assert(!st_board_join(&board, name, SIZE));
    ck_assert_int_eq(board.fd, -1);
    ((char *)longer.at)[SIZE] = 7;
    st_board_leave(&longer);
}
END_TEST

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
    alarms += number == SIGALRM;
}

/* The child holds the exclusive lock, as a process does that prepares the object. Meanwhile the
 * parent joins the board. It must wait until the child frees the lock, although signals interrupt
 * the wait. */
START_TEST(test_a_signal_does_not_end_the_wait_for_a_lock)
{
    const struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    /* without SA_RESTART, so that a signal interrupts the wait */
    struct sigaction action = {.sa_handler = count_alarm};
    struct st_board board;
    int ready[2], status;
    char byte;
    pid_t child;

    make(0600, SIZE);
    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        int fd = shm_open(name, O_RDWR, 0);

        if (flock(fd, LOCK_EX) != 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        usleep(300000);
        _exit(0); /* frees the lock */
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    ck_assert(st_board_join(&board, name, SIZE));
    ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    ck_assert_int_gt(alarms, 0);
    st_board_leave(&board);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(test_what_is_not_ours_alone_is_not_used)
{
    struct st_board board;
    void *at;

    make(0644, SIZE);
    ck_assert(!st_board_join(&board, name, SIZE));
    ck_assert_int_eq(st_board_map(name, SIZE, false, &at), EACCES);
    teardown();
    make(0600, SIZE);
    ck_assert_int_eq(st_board_map(name, SIZE + 1, false, &at), ENOENT);
    ck_assert_int_eq(st_board_map(name, SIZE, true, &at), EEXIST);
    teardown();
    ck_assert_int_eq(symlink("/tmp", "/dev/shm/symtuner-check-link") == 0 &&
                         st_board_join(&board, "/symtuner-check-link", SIZE),
                     0);
    unlink("/dev/shm/symtuner-check-link");
}
END_TEST

START_TEST(test_one_makes_a_board_and_others_find_it)
{
    void *one, *two;

    ck_assert_int_eq(st_board_map(name, SIZE, false, &one), ENOENT);
    ck_assert_int_eq(st_board_map(name, SIZE, true, &one), 0);
    ((char *)one)[SIZE - 1] = 7;
    ck_assert_int_eq(st_board_map(name, SIZE, false, &two), 0);
    ck_assert_int_eq(((char *)two)[SIZE - 1], 7);
    munmap(one, SIZE);
    munmap(two, SIZE);
    teardown();
    /* no /dev/shm has so much memory: the call must fail and leave no object behind */
    ck_assert_int_ne(st_board_map(name, (size_t)1 << 60, true, &one), 0);
    ck_assert_int_eq(st_board_map(name, SIZE, false, &one), ENOENT);
}
END_TEST

/* The expected numbers are published values of 64-bit FNV-1a. */
START_TEST(test_the_hash_is_fnv_1a)
{
    ck_assert(st_hash(ST_HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
    ck_assert(st_hash(ST_HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    ck_assert(st_hash(st_hash(ST_HASH_START, "foo", 3), "bar", 3) == UINT64_C(0x85944171f73967e8));
}
END_TEST

Suite *board_suite(void)
{
    Suite *suite = suite_create("board");
    TCase *tcase = tcase_create("board");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_all_who_join_see_one_board_until_it_is_hidden);
    tcase_add_test(tcase, test_what_a_killed_process_left_begins_anew);
    tcase_add_test(tcase, test_a_board_in_use_keeps_its_size);
    tcase_add_test(tcase, test_a_signal_does_not_end_the_wait_for_a_lock);
    tcase_add_test(tcase, test_what_is_not_ours_alone_is_not_used);
    tcase_add_test(tcase, test_one_makes_a_board_and_others_find_it);
    tcase_add_test(tcase, test_the_hash_is_fnv_1a);
    tcase_add_test(tcase, test_a_limit_of_file_sizes_is_a_failure);
    tcase_add_test(tcase, test_a_closed_stderr_is_no_board);
    tcase_add_test(tcase, test_no_free_descriptor_leaves_no_board);
    suite_add_tcase(suite, tcase);
    return suite;
}
