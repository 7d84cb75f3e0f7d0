/* SPDX-License-Identifier: Apache-2.0 */
/* check_ledger.c - counting from many threads, sharing, files, the signal. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "plugin/ledger.h"
#include "plugin/log.h"
#include "plugin/tuner.h"
#include "test/lease.h"
#include "test/messages.h"
#include "test/suites.h"

static char path[64];

static void remove_file(void)
{
    unlink(path);
}

static void want_ledger(void)
{
    int fd;

    strcpy(path, "/tmp/symtuner-check-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    atexit(remove_file);
    setenv("SYMTUNER_LEDGER", path, 1);
    setenv("SYMTUNER_MACHINE", "gpu=x", 1);
}

static const char *content(void)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");

    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int occurrences(const char *text, const char *what)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

START_TEST(test_buckets_are_powers_of_two)
{
    ck_assert_int_eq(st_ledger_bucket(0), 0);
    ck_assert_int_eq(st_ledger_bucket(1), 0);
    ck_assert_int_eq(st_ledger_bucket(2), 1);
    ck_assert_int_eq(st_ledger_bucket(4095), 11);
    ck_assert_int_eq(st_ledger_bucket(4096), 12);
    ck_assert_int_eq(st_ledger_bucket(UINT64_MAX), ST_BUCKETS - 1);
}
END_TEST

enum { THREADS = 16, EACH = 50000 };

static void *count_many(void *argument)
{
    struct st_ledger *ledger = argument;

    for (int i = 0; i < EACH; i++)
        st_ledger_add(ledger, &ledger->asked[SYMTUNER_ALLREDUCE][i % 4][i & 1]
                                            [i % 3 ? ST_VERDICT_GENERAL : ST_VERDICT_NO_RULE]);
    return NULL;
}

START_TEST(test_no_count_of_sixteen_threads_is_lost)
{
    struct st_ledger *ledger = st_ledger_open(3, 16, 1);
    uint64_t asked, steered, per_thread = 0;
    pthread_t thread[THREADS];

    for (int i = 0; i < EACH; i++)
        per_thread += i % 3 != 0;
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&thread[t], NULL, count_many, ledger), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    st_ledger_sums(ledger, &asked, &steered);
    ck_assert_uint_eq(asked, (uint64_t)THREADS * EACH);
    ck_assert_uint_eq(steered, THREADS * per_thread);
    st_ledger_close(ledger);
}
END_TEST

START_TEST(test_an_owner_that_left_leaves_its_counts)
{
    struct st_ledger *ledger = st_ledger_open(3, 2, 1);
    uint64_t asked, steered;
    pthread_t thread;

    for (int i = 0; i < 3; i++) { /* the first owns; the next may get its thread pointer */
        ck_assert_int_eq(pthread_create(&thread, NULL, count_many, ledger), 0);
        pthread_join(thread, NULL);
    }
    count_many(ledger);
    st_ledger_sums(ledger, &asked, &steered);
    ck_assert_uint_eq(asked, 4ull * EACH);
    st_ledger_close(ledger);
}
END_TEST

START_TEST(test_users_of_one_communicator_share_one_text)
{
    struct st_ledger *tuner, *second, *profiler, *other, *nameless;

    want_ledger();
    tuner = st_ledger_open(7, 2, 1);
    second = st_ledger_open(7, 2, 1);
    profiler = st_ledger_open(7, 2, 1);
    ck_assert(st_ledger_tuner_opens(tuner));
    ck_assert(!st_ledger_tuner_opens(second)); /* says its line for both */
    other = st_ledger_open(8, 2, 1);
    nameless = st_ledger_open(0, 2, 1);
    ck_assert_ptr_eq(tuner, second);
    ck_assert_ptr_eq(tuner, profiler);
    ck_assert_ptr_ne(tuner, other);
    ck_assert_ptr_ne(nameless, st_ledger_open(0, 2, 1)); /* v4 knows no id: never shared */
    ck_assert(!st_ledger_tuner_closes(tuner));
    ck_assert(st_ledger_tuner_closes(second));
    st_ledger_close(tuner);
    st_ledger_close(second);
    ck_assert_str_eq(content(), "");
    st_ledger_close(profiler); /* the last one writes */
    ck_assert_int_eq(occurrences(content(), "comm id=0x0000000000000007 ranks=2 nodes=1 local=2"),
                     1);
    st_ledger_close(other);
    ck_assert_int_eq(occurrences(content(), "\nend\n"), 2);
    st_ledger_close(NULL);
}
END_TEST

static const struct {
    const char *pattern;
    int with_pid; /* -1: the pattern is the name */
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
    st_ledger_close(st_ledger_open(1, 2, 1));
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

START_TEST(test_the_signal_appends_the_counters_at_once)
{
    struct st_ledger *ledger;
    struct sigaction action;

    want_ledger();
    setenv("SYMTUNER_LEDGER_SIGNAL", "USR1", 1);
    ledger = st_ledger_open(5, 2, 1);
    st_ledger_add(ledger, &ledger->asked[SYMTUNER_ALLREDUCE][3][0][ST_VERDICT_NO_RULE]);
    st_ledger_listen(&st_process()->options);
    st_ledger_listen(&st_process()->options); /* once is enough */
    sigaction(SIGUSR1, NULL, &action);
    ck_assert(action.sa_handler != SIG_DFL);
    raise(SIGUSR1);
    for (int wait = 0; wait < 500 && !strstr(content(), "end\n"); wait++)
        usleep(10000);
    ck_assert_int_eq(occurrences(content(), "asked coll=allreduce bytes=8..15 registered=0 "
                                            "verdict=no-rule count=1\n"),
                     1);
    st_ledger_close(ledger);
    ck_assert_int_eq(occurrences(content(), "\nend\n"), 2);
}
END_TEST

START_TEST(test_an_unwritable_file_is_a_warning)
{
    setenv("SYMTUNER_LEDGER", "/nonexistent/x", 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    st_ledger_close(st_ledger_open(1, 2, 1));
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "/nonexistent/x: No such file or directory"), "%s",
                  messages.text);
}
END_TEST

/* As on a full disk: one byte has room, then none. */
START_TEST(test_a_text_that_is_cut_off_is_a_warning)
{
    struct rlimit room, before;

    getrlimit(RLIMIT_FSIZE, &before);
    room = (struct rlimit){(rlim_t)_i, before.rlim_max};
    want_ledger();
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
    st_ledger_close(st_ledger_open(1, 2, 1));
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_uint_eq(strlen(content()), (size_t)_i);
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "File too large") &&
                      strstr(messages.text, _i ? "0x1 are cut off" : "0x1 are lost"),
                  "%s", messages.text);
}
END_TEST

/* 1023 bytes are taken, one more would have been cut: into the name of another file. So would the
 * number of the process. */
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
    if (_i == 3) /* with its number it has 1024 */
        strcpy(name + 1024 - strlen(pid), "%p");
    setenv("SYMTUNER_LEDGER", name, 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    st_ledger_close(st_ledger_open(1, 2, 1));
    if (_i == 3)
        strcpy(name + 1024 - strlen(pid), pid);
    name[1023] = '\0';
    ck_assert_int_eq(unlink(name), _i ? -1 : 0);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(messages.warnings, _i > 0);
    ck_assert(!_i || strstr(messages.text, "longer than 1023 bytes"));
}
END_TEST

/* A table of a later NCCL, whose last cell we have no name for; and one with nothing to take. */
START_TEST(test_a_pick_that_has_no_name_is_not_counted)
{
    enum { ALGOS = SYMTUNER_ALGOS + 1, PROTOS = SYMTUNER_PROTOS + 1, CELLS = ALGOS * PROTOS };
    struct st_tuner_init init = {.abi = 5, .comm_id = (uint64_t)getpid(), .ranks = 1, .nodes = 1};
    static const int cheapest[] = {CELLS - 1, SYMTUNER_PROTOS, CELLS - 2, CELLS, 0};
    float table[CELLS];
    int channels = 0;
    void *tuner;

    want_ledger();
    ck_assert_int_eq(st_tuner_open(&init, &tuner), 0);
    for (size_t i = 0; i < sizeof cheapest / sizeof *cheapest; i++) {
        for (int cell = 0; cell < CELLS; cell++)
            table[cell] = cell == cheapest[i] ? 1 : cheapest[i] == CELLS ? -1 : 9;
        ck_assert_int_eq(st_tuner_decide(tuner, SYMTUNER_ALLREDUCE, 4096, 1, (float **)table, ALGOS,
                                         PROTOS, 0, &channels), 0);
    }
    ck_assert_int_eq(st_tuner_close(tuner), 0);
    ck_assert_int_eq(occurrences(content(), "picked "), 1);
    ck_assert_int_eq(occurrences(content(), "algo=tree proto=ll count=1\n"), 1);
}
END_TEST

START_TEST(test_what_was_counted_is_said_once)
{
    struct utsname box;
    char where[128];
    struct st_ledger *ledger;

    want_ledger();
    ledger = st_ledger_open(1, 2, 1);
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int b = 0; b < ST_BUCKETS; b += ST_BUCKETS - 1) {
            st_ledger_add(ledger, &ledger->asked[c][b][1][ST_VERDICT_NO_RULE]);
            st_ledger_add(ledger, &ledger->picked[c][b][ST_CELLS - 1]);
        }
    st_ledger_close(ledger);
    uname(&box);
    snprintf(where, sizeof where, " host=%s pid=%d\n", box.nodename, (int)getpid());
    ck_assert_int_eq(occurrences(content(), where), 1);
    ck_assert_int_eq(occurrences(content(), "asked coll="), 2 * SYMTUNER_COLLS);
    ck_assert_int_eq(occurrences(content(), "picked coll="), 2 * SYMTUNER_COLLS);
    ck_assert_int_eq(occurrences(content(), " bytes=0..1 "), 2 * SYMTUNER_COLLS);
    ck_assert_int_eq(occurrences(content(), " algo=pat proto=simple count=1\n"),
                     2 * SYMTUNER_COLLS);
    ck_assert_int_eq(occurrences(content(), " registered=1 verdict=no-rule count=1\n"),
                     2 * SYMTUNER_COLLS);
    ck_assert_int_eq(occurrences(content(), "\n"), 3 + 4 * SYMTUNER_COLLS);
}
END_TEST

START_TEST(test_a_pipe_that_nobody_reads_is_a_warning)
{
    want_ledger();
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    setenv("NCCL_DEBUG", "WARN", 1);
    st_log_use(keep_message);
    alarm(10); /* where it waits for a reader */
    st_ledger_close(st_ledger_open(1, 2, 1));
    alarm(0);
    ck_assert_int_eq(messages.warnings, 1);
    ck_assert_msg(strstr(messages.text, "are lost"), "%s", messages.text);
}
END_TEST

enum { PAGE = 4096, PIPE = 16 * PAGE }; /* what a pipe of Linux takes */

/* The ledger's file is a pipe that has ${room} of its pages left. */
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

/* What was on the stack before is no signal. */
static __attribute__((noinline)) void soil_the_stack(void)
{
    volatile unsigned char soil[1 << 14];

    for (size_t i = 0; i < sizeof soil; i++)
        soil[i] = 0xff;
}

/* The program may block the signal (1), and have one of its own coming (2), which stays; as does
 * any other. */
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
    if (fork() == 0) { /* the only reader leaves while the ledger is being written */
        usleep(200000);
        _exit(0);
    }
    close(ends[0]);
    ledger = st_ledger_open(1, 2, 1);
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

/* Of several pages. */
static struct st_ledger *long_ledger(void)
{
    struct st_ledger *ledger = st_ledger_open(1, 2, 1);

    for (int b = 0; b < ST_BUCKETS; b++)
        for (int cell = 0; cell < ST_CELLS; cell++)
            st_ledger_add(ledger, &ledger->picked[SYMTUNER_ALLREDUCE][b][cell]);
    return ledger;
}

static void ignore(int number)
{
    (void)number;
}

/* The pipe is full, or (1) takes the first page; a profiler's timer interrupts every call. */
START_TEST(test_a_pipe_whose_reader_sleeps_does_not_hold_the_job_up)
{
    const struct itimerval often = {{0, 100000}, {0, 100000}}, never = {0};
    struct sigaction handler = {.sa_handler = ignore};
    struct st_ledger *ledger;
    int ends[2];

    want_ledger_in_pipe(ends, _i);
    ledger = long_ledger();
    sigaction(SIGALRM, &handler, NULL);
    setitimer(ITIMER_REAL, &often, NULL); /* Check ends a test that waits for ever */
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
    size_t size = 0, before = PIPE - PAGE; /* bytes that were in the pipe */
    int ends[2], got[2], code;
    struct st_ledger *ledger;
    ssize_t n;

    want_ledger_in_pipe(ends, 1);
    ledger = long_ledger();
    ck_assert_int_eq(pipe(got), 0);
    if (fork() == 0) { /* reads a page each 20 ms, and tells how it ends */
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
    st_ledger_close(st_ledger_open(1, 2, 1));
    ck_assert_int_eq(occurrences(content(), "# symtuner ledger 1"), 1);
}
END_TEST

Suite *ledger_suite(void)
{
    Suite *suite = suite_create("ledger");
    TCase *count = tcase_create("counting"), *text = tcase_create("text");

    tcase_set_timeout(count, 60);
    tcase_set_timeout(text, 60);
    tcase_add_test(count, test_buckets_are_powers_of_two);
    tcase_add_test(count, test_no_count_of_sixteen_threads_is_lost);
    tcase_add_test(count, test_an_owner_that_left_leaves_its_counts);
    tcase_add_test(text, test_users_of_one_communicator_share_one_text);
    t_add_rows(text, test_a_file_name_may_hold_process_and_host, names);
    tcase_add_test(text, test_the_signal_appends_the_counters_at_once);
    tcase_add_test(text, test_an_unwritable_file_is_a_warning);
    tcase_add_loop_test(text, test_a_text_that_is_cut_off_is_a_warning, 0, 2);
    tcase_add_loop_test(text, test_a_name_that_is_too_long_is_a_warning_and_no_file, 0, 4);
    tcase_add_test(text, test_a_pipe_that_nobody_reads_is_a_warning);
    tcase_add_loop_test(text, test_a_pipe_whose_reader_goes_does_not_end_the_job, 0, 3);
    tcase_add_test(text, test_what_was_counted_is_said_once);
    tcase_add_test(text, test_a_pick_that_has_no_name_is_not_counted);
    tcase_add_loop_test(text, test_a_pipe_whose_reader_sleeps_does_not_hold_the_job_up, 0, 2);
    tcase_add_test(text, test_a_slow_reader_of_a_pipe_gets_the_whole_text);
    if (t_leases_here("test_a_file_with_a_lease_gets_its_ledger"))
        tcase_add_test(text, test_a_file_with_a_lease_gets_its_ledger);
    suite_add_tcase(suite, count);
    suite_add_tcase(suite, text);
    return suite;
}
