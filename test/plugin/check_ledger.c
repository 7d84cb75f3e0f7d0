/* SPDX-License-Identifier: Apache-2.0 */
/* check_ledger.c - checks counting from many threads, sharing a ledger, the ledger's text, and the
 * signal that writes it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/ledger.h"
#include "plugin/tuner.h"
#include "test/ledger.h"

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
    struct st_ledger *ledger = st_ledger_open(3, 16, 1, 22809);
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
    struct st_ledger *ledger = st_ledger_open(3, 2, 1, 22809);
    uint64_t asked, steered;
    pthread_t thread;

    /* a later thread may get the thread pointer of the thread that owned the counters
     * (st_thread) */
    for (int i = 0; i < 3; i++) {
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
    tuner = st_ledger_open(7, 2, 1, 22809);
    second = st_ledger_open(7, 2, 1, 22809);
    profiler = st_ledger_open(7, 2, 1, 22809);
    ck_assert(st_ledger_tuner_opens(tuner));
    ck_assert(!st_ledger_tuner_opens(second)); /* the first one logs for both */
    other = st_ledger_open(8, 2, 1, 22809);
    nameless = st_ledger_open(0, 2, 1, 22809);
    ck_assert_ptr_eq(tuner, second);
    ck_assert_ptr_eq(tuner, profiler);
    ck_assert_ptr_ne(tuner, other);
    /* tuner v4 gives no id, so its ledger is never shared */
    ck_assert_ptr_ne(nameless, st_ledger_open(0, 2, 1, 22809));
    ck_assert(!st_ledger_tuner_closes(tuner));
    ck_assert(st_ledger_tuner_closes(second));
    st_ledger_close(tuner);
    st_ledger_close(second);
    ck_assert_str_eq(content(), "");
    st_ledger_close(profiler); /* the last one that closes the ledger writes it */
    ck_assert_int_eq(occurrences(content(), "comm id=0x0000000000000007 ranks=2 nodes=1 local=2"),
                     1);
    st_ledger_close(other);
    ck_assert_int_eq(occurrences(content(), "\nend\n"), 2);
    st_ledger_close(NULL);
}
END_TEST

/* Most torch programs exit without destroying their process groups. The ledgers of these groups are
 * written nevertheless. A forked child that exits writes none. */
START_TEST(test_a_program_that_just_exits_leaves_its_ledger)
{
    pid_t child;
    int status;

    want_ledger();
    child = fork();
    if (child == 0) {
        path[0] = '\0'; /* the test reads the file, so remove_file must not remove it here */
        st_ledger_open(9, 2, 1, 22809);
        if (fork() == 0)
            exit(0);
        wait(NULL);
        exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(occurrences(content(), "comm id=0x0000000000000009 "), 1);
    ck_assert_int_eq(occurrences(content(), "\nend\n"), 1);
}
END_TEST

static volatile sig_atomic_t plain, full;

static void plain_handler(int number)
{
    plain = number;
}

static void full_handler(int number, siginfo_t *info, void *context)
{
    full = info->si_signo == number && context;
}

/* In rounds 1 and 2 the program has a handler of its own, which must still run. */
START_TEST(test_the_signal_appends_the_counters_at_once)
{
    struct sigaction action = {.sa_handler = plain_handler};
    struct st_ledger *ledger;

    want_ledger();
    if (_i == 2)
        action = (struct sigaction){.sa_sigaction = full_handler, .sa_flags = SA_SIGINFO};
    if (_i > 0)
        sigaction(SIGUSR1, &action, NULL);
    setenv("SYMTUNER_LEDGER_SIGNAL", "USR1", 1);
    ledger = st_ledger_open(5, 2, 1, 22809);
    st_ledger_add(ledger, &ledger->asked[SYMTUNER_ALLREDUCE][3][0][ST_VERDICT_NO_RULE]);
    st_ledger_listen(&st_process()->options);
    st_ledger_listen(&st_process()->options); /* a second call changes nothing */
    sigaction(SIGUSR1, NULL, &action);
    ck_assert(action.sa_handler != SIG_DFL);
    raise(SIGUSR1);
    ck_assert_int_eq(plain, _i == 1 ? SIGUSR1 : 0);
    ck_assert_int_eq(full, _i == 2);
    for (int wait = 0; wait < 500 && !strstr(content(), "end\n"); wait++)
        usleep(10000);
    ck_assert_int_eq(occurrences(content(), "asked coll=allreduce bytes=8..15 registered=0 "
                                            "verdict=no-rule count=1\n"),
                     1);
    st_ledger_close(ledger);
    ck_assert_int_eq(occurrences(content(), "\nend\n"), 2);
}
END_TEST

/* Check tables of a later NCCL, which have cells that symtuner has no names for, and a table that
 * has no entry to take. */
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
    ledger = st_ledger_open(1, 2, 1, 22809);
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int b = 0; b < ST_BUCKETS; b += ST_BUCKETS - 1) {
            st_ledger_add(ledger, &ledger->asked[c][b][1][ST_VERDICT_NO_RULE]);
            st_ledger_add(ledger, &ledger->picked[c][b][ST_CELLS - 1]);
        }
    st_ledger_close(ledger);
    uname(&box);
    snprintf(where, sizeof where, " host=%s pid=%d opened=", box.nodename, (int)getpid());
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
    tcase_add_test(text, test_a_program_that_just_exits_leaves_its_ledger);
    tcase_add_loop_test(text, test_the_signal_appends_the_counters_at_once, 0, 3);
    tcase_add_test(text, test_what_was_counted_is_said_once);
    tcase_add_test(text, test_a_pick_that_has_no_name_is_not_counted);
    suite_add_tcase(suite, count);
    suite_add_tcase(suite, text);
    return suite;
}
