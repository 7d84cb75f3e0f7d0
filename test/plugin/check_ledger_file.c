/* SPDX-License-Identifier: Apache-2.0 */
/* check_ledger_file.c - checks where the ledger's text goes: file names, files that fail, and
 * pipes. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "plugin/ledger.h"
#include "plugin/log.h"
#include "test/lease.h"
#include "test/ledger.h"
#include "test/messages.h"

static const struct {
    const char *pattern;
    int with_pid; /* 1: the name has the process id; -1: the pattern itself is the name */
} names[] = {{"%p", 1}, {"a%%p", -1}, {"x%h%p", 1}, {"100%", -1}};

START_TEST(test_a_file_name_may_hold_process_and_host)
{
    char folder[] = "/tmp/symtuner-check-XXXXXX", pattern[128], command[256], pid[16];
    FILE *list;
    char name[256] = "";
    struct utsname box;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(pattern, sizeof pattern, "%s/%s", folder, names[_i].pattern);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("SYMTUNER_LEDGER", pattern, 1);
    st_ledger_close(st_ledger_open(1, 2, 1, 22809));
    snprintf(command, sizeof command, "ls %s; rm -r %s", folder, folder);
    list = popen(command, "r");
    ck_assert_ptr_nonnull(fgets(name, sizeof name, list));
    pclose(list);
    name[strcspn(name, "\n")] = '\0';
    uname(&box);
    if (strchr(names[_i].pattern, 'h'))
        ck_assert_ptr_nonnull(strstr(name, box.nodename));
    if (names[_i].with_pid == 1)
        ck_assert_msg(strstr(name, pid) && !strchr(name, '%'), "%s became %s", names[_i].pattern,
                      name);
    else
        ck_assert_str_eq(name, strcmp(names[_i].pattern, "a%%p") == 0 ? "a%p" : "100%");
}
END_TEST

START_TEST(test_an_unwritable_file_is_a_warning)
{
    setenv("SYMTUNER_LEDGER", "/nonexistent/x", 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    st_ledger_close(st_ledger_open(1, 2, 1, 22809));
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "/nonexistent/x: No such file or directory"), "%s",
                  messages.text);
}
END_TEST

/* The file has room for no byte, or in round 1 for one, as on a full disk. If a write goes beyond
 * that, the system also sends SIGXFSZ, which the plugin must keep from ending the program. */
START_TEST(test_a_text_that_is_cut_off_is_a_warning)
{
    struct rlimit room, before;
    sigset_t pending;

    getrlimit(RLIMIT_FSIZE, &before);
    room = (struct rlimit){(rlim_t)_i, before.rlim_max};
    want_ledger();
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    /* check nothing while the limit holds, because ck_assert writes a file */
    setrlimit(RLIMIT_FSIZE, &room);
    st_ledger_close(st_ledger_open(1, 2, 1, 22809));
    setrlimit(RLIMIT_FSIZE, &before);
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGXFSZ), 0);
    ck_assert_uint_eq(strlen(content()), (size_t)_i);
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "File too large") &&
                      strstr(messages.text, _i ? "0x1 are cut off" : "0x1 are lost"),
                  "%s", messages.text);
}
END_TEST

/* A file name of 1023 bytes is used. A longer name is not used, because cutting it would name
 * another file. The same holds if the name is too long only because of the process id in it. */
START_TEST(test_a_name_that_is_too_long_is_a_warning_and_no_file)
{
    char folder[] = "/tmp/symtuner-check-XXXXXX", name[1100], pid[16];

    snprintf(pid, sizeof pid, "%d", (int)getpid());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    strcpy(name, folder);
    while (strlen(name) < 1020)
        strcat(name, "/.");
    strcat(name, "/xyzw");
    name[1023 + _i] = '\0';
    if (_i == 2)
        strcpy(name + 1022, "%p");
    if (_i == 3) /* with the process id the name has 1024 bytes */
        strcpy(name + 1024 - strlen(pid), "%p");
    setenv("SYMTUNER_LEDGER", name, 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    st_ledger_close(st_ledger_open(1, 2, 1, 22809));
    if (_i == 3)
        strcpy(name + 1024 - strlen(pid), pid);
    name[1023] = '\0';
    ck_assert_int_eq(unlink(name), _i ? -1 : 0);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(messages.warnings, _i > 0);
    ck_assert(!_i || strstr(messages.text, "longer than 1023 bytes"));
}
END_TEST

START_TEST(test_a_pipe_that_nobody_reads_is_a_warning)
{
    want_ledger();
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    alarm(10); /* ends the test if it waits for a reader */
    st_ledger_close(st_ledger_open(1, 2, 1, 22809));
    alarm(0);
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "are lost"), "%s", messages.text);
}
END_TEST

enum { PAGE = 4096, PIPE = 16 * PAGE }; /* PIPE is the number of bytes that a pipe holds on Linux */

/* Let the ledger write into a new pipe, which has room for ${room} pages. */
static void want_ledger_in_pipe(int *ends, int room)
{
    static char much[PIPE];
    char name[32];

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], much, sizeof much), sizeof much);
    for (; room > 0; room--)
        ck_assert_int_eq(read(ends[0], much, PAGE), PAGE);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    setenv("SYMTUNER_LEDGER", name, 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
}

/* Fill the stack, so that variables that the plugin leaves uninitialized are not zero by luck. */
static __attribute__((noinline)) void soil_the_stack(void)
{
    volatile unsigned char soil[1 << 14];

    for (size_t i = 0; i < sizeof soil; i++)
        soil[i] = 0xff;
}

/* In rounds 1 and 2 the program blocks SIGPIPE, and in round 2 a SIGPIPE is pending. It must stay
 * pending, and so must SIGUSR2. */
START_TEST(test_a_pipe_whose_reader_goes_does_not_end_the_job)
{
    sigset_t sigpipe, pending, masked;
    struct st_ledger *ledger;
    int ends[2];

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &sigpipe, NULL);
    raise(SIGUSR2);
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(_i ? SIG_BLOCK : SIG_UNBLOCK, &sigpipe, NULL);
    if (_i == 2)
        raise(SIGPIPE);
    want_ledger_in_pipe(ends, 0);
    if (fork() == 0) { /* the only reader leaves while the plugin writes */
        usleep(200000);
        _exit(0);
    }
    close(ends[0]);
    ledger = st_ledger_open(1, 2, 1, 22809);
    soil_the_stack();
    st_ledger_close(ledger);
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "Broken pipe"), "%s", messages.text);
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGUSR2), 1);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), _i == 2);
    pthread_sigmask(SIG_BLOCK, NULL, &masked);
    ck_assert_int_eq(sigismember(&masked, SIGPIPE), _i > 0);
}
END_TEST

/* Open a ledger whose text takes several pages. */
static struct st_ledger *long_ledger(void)
{
    struct st_ledger *ledger = st_ledger_open(1, 2, 1, 22809);

    for (int b = 0; b < ST_BUCKETS; b++)
        for (int cell = 0; cell < ST_CELLS; cell++)
            st_ledger_add(ledger, &ledger->picked[SYMTUNER_ALLREDUCE][b][cell]);
    return ledger;
}

static void ignore(int number)
{
    (void)number;
}

/* The pipe is full, or in round 1 has room for one page. A timer interrupts every system call, as a
 * profiler's timer does. */
START_TEST(test_a_pipe_whose_reader_sleeps_does_not_hold_the_job_up)
{
    const struct itimerval often = {{0, 100000}, {0, 100000}}, never = {0};
    struct sigaction handler = {.sa_handler = ignore};
    struct st_ledger *ledger;
    int ends[2];

    want_ledger_in_pipe(ends, _i);
    ledger = long_ledger();
    sigaction(SIGALRM, &handler, NULL);
    setitimer(ITIMER_REAL, &often, NULL); /* if the write waits for ever, Check ends the test */
    st_ledger_close(ledger);
    setitimer(ITIMER_REAL, &never, NULL);
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "has not taken it within 2 s"), "%s", messages.text);
    ck_assert_msg(strstr(messages.text, _i ? "are cut off" : "are lost"), "%s", messages.text);
}
END_TEST

START_TEST(test_a_slow_reader_of_a_pipe_gets_the_whole_text)
{
    static char text[1 << 20];
    /* number of bytes in the pipe before those of the ledger */
    size_t size = 0, before = PIPE - PAGE;
    int ends[2], got[2], code;
    struct st_ledger *ledger;
    ssize_t n;

    want_ledger_in_pipe(ends, 1);
    ledger = long_ledger();
    ck_assert_int_eq(pipe(got), 0);
    if (fork() == 0) { /* reads a page every 20 ms, and reports how the text ends */
        close(ends[1]);
        while ((n = read(ends[0], text + size, PAGE)) > 0) {
            size += (size_t)n;
            usleep(20000);
        }
        code = memcmp(text + size - 5, "\nend\n", 5) == 0 &&
               strlen(text + before) == size - before &&
               occurrences(text + before, "\npicked ") == ST_BUCKETS * ST_CELLS;
        _exit(write(got[1], &code, sizeof code) < 0);
    }
    close(ends[0]);
    st_ledger_close(ledger);
    close(ends[1]);
    ck_assert_int_eq(read(got[0], &code, sizeof code), sizeof code);
    ck_assert_int_eq(code, 1);
    ck_assert_int_eq(messages.warnings, 0);
}
END_TEST

START_TEST(test_a_file_with_a_lease_gets_its_ledger)
{
    want_ledger();
    ck_assert(t_lease(path, F_RDLCK));
    st_ledger_close(st_ledger_open(1, 2, 1, 22809));
    ck_assert_int_eq(occurrences(content(), "# symtuner ledger 1"), 1);
}
END_TEST

Suite *ledger_file_suite(void)
{
    Suite *suite = suite_create("ledger file");
    TCase *files = tcase_create("files"), *pipes = tcase_create("pipes");

    tcase_set_timeout(files, 60);
    tcase_set_timeout(pipes, 60);
    t_add_rows(files, test_a_file_name_may_hold_process_and_host, names);
    tcase_add_test(files, test_an_unwritable_file_is_a_warning);
    tcase_add_loop_test(files, test_a_text_that_is_cut_off_is_a_warning, 0, 2);
    tcase_add_loop_test(files, test_a_name_that_is_too_long_is_a_warning_and_no_file, 0, 4);
    if (t_leases_here("test_a_file_with_a_lease_gets_its_ledger"))
        tcase_add_test(files, test_a_file_with_a_lease_gets_its_ledger);
    tcase_add_test(pipes, test_a_pipe_that_nobody_reads_is_a_warning);
    tcase_add_loop_test(pipes, test_a_pipe_whose_reader_goes_does_not_end_the_job, 0, 3);
    tcase_add_loop_test(pipes, test_a_pipe_whose_reader_sleeps_does_not_hold_the_job_up, 0, 2);
    tcase_add_test(pipes, test_a_slow_reader_of_a_pipe_gets_the_whole_text);
    suite_add_tcase(suite, files);
    suite_add_tcase(suite, pipes);
    return suite;
}
