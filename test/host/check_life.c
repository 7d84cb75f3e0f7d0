/* SPDX-License-Identifier: Apache-2.0 */
/* check_life.c - tests loading, unloading, clean-up calls, and the finished ledger. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/nccl.h"

START_TEST(test_loads_and_unloads_keep_state_and_answers)
{
    const struct release *release = &releases[_i];
    struct question first = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {8, 9, 10, 6, 7, 12 /* zeros */}, 0};
    const char *kept = NULL;
    void *known = NULL;

    setenv("SYMTUNER_MACHINE", "gpu=test box; gpus=8", 1);
    setenv("SYMTUNER_RULE", "allreduce prefer=general:ring/ll; process sym-ctas=16", 1);
    for (long n = 0; n < t_rounds(1000); n++) {
        struct question question = first;
        struct comm comm;

        nccl_load(release, n == 0 ? ENV_PLUGIN : 0);
        ck_assert_int_eq(nccl_comm(&comm, (uint64_t)n + 1, 8, 1), 0);
        nccl_ask(&comm, &question);
        /* the preferred entry keeps its cost; entries that cost less are raised, even from 0 */
        ck_assert(question.table[3] == 6.0f && question.table[6] == 12.0f);
        nccl_comm_end(&comm);
        if (n == 0) {
            known = (void *)(uintptr_t)plugin.tuner;
            kept = plugin.get_env ? plugin.get_env("NCCL_SYM_CTAS") : NULL;
        }
        /* the library is still at the same address, because -z nodelete keeps it loaded */
        ck_assert_ptr_eq(plugin.tuner, known);
        ck_assert_int_eq(dlclose(plugin.library), 0);
    }
    if (plugin.get_env)
        ck_assert_str_eq(kept, "16"); /* NCCL may keep the string, so it must stay valid */
}
END_TEST

START_TEST(test_clean_up_without_a_communicator_works)
{
    struct comm none = {0};
    struct question question = {SYMTUNER_ALLREDUCE, 4096, 1, 0, {1, 2, 3}, 0};

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    nccl_load(&releases[_i], 0);
    nccl_comm_end(&none);                                /* before any init */
    ck_assert_int_eq(nccl_ask(&none, &question), 0);     /* a call without a communicator */
    ck_assert_int_eq(question.channels, 0);
    ck_assert_int_eq(nccl_comm(&none, 1, 1, 1), 0);      /* one rank: NCCL asks nothing */
    nccl_comm_end(&none);
    nccl_comm_end(&none);
}
END_TEST

/* ---- ledger --------------------------------------------------------------------------------- */

static const float table[T_CELLS] = {8, 9, 10, 6, 7, 12, -1, -1, -1, -1, -1,
                                     -1, -1, -1, 5, -1, -1, -1, -1, -1, -1};

static void has(const char *text, const char *line, int wanted)
{
    const char *at = strstr(text, line);

    ck_assert_msg(!wanted == !at, "%s \"%s\" in\n%s", wanted ? "no" : "unwanted", line, text);
}

static void has_release(const char *text, const struct release *release)
{
    char line[40];

    snprintf(line, sizeof line, " nccl=%d.%d.%d ", release->nccl / 10000, release->nccl / 100 % 100,
             release->nccl % 100);
    has(text, line, 1);
}

START_TEST(test_the_ledger_tells_what_was_asked_picked_and_ran)
{
    const struct release *release = &releases[_i];
    int newer = release->nccl >= 23100, asks = release->nccl >= 22900 ? 2 : 1;
    struct question last;
    const char *text;
    struct comm comm;
    char line[256];

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    setenv("SYMTUNER_RULE", "allreduce registered=no prefer=general:ring/ll", 1);
    nccl_load(release, 0);
    ck_assert_int_eq(nccl_comm(&comm, 0xfeed, 8, 1), 0);
    ck_assert_int_ne(comm.mask, 0);
    for (int i = 0; i < 3; i++)
        nccl_collective(&comm, SYMTUNER_ALLREDUCE, 4096, 0, table, 0, &last);
    nccl_collective(&comm, SYMTUNER_ALLGATHER, 4096, 1, table, 1, &last);
    nccl_comm_end(&comm);
    text = nccl_read(getenv("SYMTUNER_LEDGER"));
    has(text, "# symtuner ledger 1\n", 1);
    has(text, "\nend\n", 1);
    snprintf(line, sizeof line, "comm id=0x%016llx ranks=8 nodes=1 local=%d",
             release->tuner > 4 ? (unsigned long long)nccl_id(0xfeed) : 0,
             release->tuner > 4 ? 8 : 1);
    has(text, line, 1);
    has_release(text, release);
    snprintf(line, sizeof line, "asked coll=allreduce bytes=4096..8191 registered=0 "
             "verdict=general count=%d\n", newer ? 3 : 3 * asks);
    has(text, line, 1);
    has(text, "asked coll=allreduce bytes=4096..8191 registered=0 verdict=probe count=3\n", newer);
    snprintf(line, sizeof line, "picked coll=allreduce bytes=4096..8191 algo=ring proto=ll "
             "count=%d\n", newer ? 3 : 3 * asks);
    has(text, line, 1);
    has(text, "ran coll=allreduce bytes=4096..8191 called=3 captured=0 general=3 symmetric=0 ce=0",
        release->profiler >= 5);
    has(text, "ran coll=allreduce bytes=4096..8191 called=0 captured=0 general=3 symmetric=0 ce=0",
        release->profiler == 4);
    has(text, "ran coll=allgather bytes=32768..65535 called=1 captured=0 general=0 symmetric=1 "
              "ce=0", release->profiler >= 5);
}
END_TEST

/* From 2.29 on, Broadcasts with several roots run as one AllGather, without kernels of their own.
 * So the ledger must not conclude from a Broadcast's event that a symmetric kernel ran. */
START_TEST(test_only_collectives_that_have_symmetric_kernels_are_derived)
{
    const struct release *release = &releases[_i];
    struct comm comm;
    const char *text;

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    nccl_load(release, 0);
    ck_assert_int_eq(nccl_comm(&comm, 0xb0a, 8, 1), 0);
    for (int func = 0; func < 5; func++)
        nccl_event(&comm, NCCL_ABI_EV_COLL_API, func, 1024, 0);
    nccl_comm_end(&comm);
    text = nccl_read(getenv("SYMTUNER_LEDGER"));
    for (int func = 0; func < 5; func++) {
        static const char *const name[] = {"broadcast bytes=4096..8191", "reduce bytes=4096..8191",
                                           "allgather bytes=32768..65535",
                                           "reducescatter bytes=32768..65535",
                                           "allreduce bytes=4096..8191"};
        int derived = func >= SYMTUNER_ALLGATHER && release->profiler >= 5 &&
                      release->profiler < 7;
        char line[160];

        snprintf(line, sizeof line, "ran coll=%s called=1 captured=0 general=0 symmetric=%d ce=0\n",
                 name[func], derived);
        has(text, line, release->profiler >= 5);
    }
}
END_TEST

/* A process can have two copies of NCCL, for example torch's and jax's. What the profiler gets
 * depends on the release of the copy that made the communicator. */
START_TEST(test_the_ledger_of_each_nccl_of_a_process_is_right)
{
    const struct release *const both[] = {&releases[3], &releases[8]};
    const char *text;
    int symmetric = 0;

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    for (int i = 0; i < 2; i++) {
        struct question last;
        struct comm comm;

        nccl_load(both[i == _i], 0);
        ck_assert_int_eq(nccl_comm(&comm, 0x2cc1 + (uint64_t)i, 8, 1), 0);
        nccl_collective(&comm, SYMTUNER_ALLGATHER, 4096, 1, table, 1, &last);
        nccl_comm_end(&comm);
    }
    text = nccl_read(getenv("SYMTUNER_LEDGER"));
    has_release(text, both[0]);
    has_release(text, both[1]);
    for (const char *at = text; (at = strstr(at, " general=0 symmetric=1 ")); at++)
        symmetric++;
    ck_assert_msg(symmetric == 2, "%d in\n%s", symmetric, text);
}
END_TEST

/* With NCCL_TUNER_PLUGIN=none, NCCL loads symtuner as profiler only. */
START_TEST(test_the_ledger_of_a_profiler_alone_has_the_release)
{
    const struct release *release = &releases[_i];
    struct comm comm = {.ranks = 8, .nodes = 1}, other = comm;
    const char *text;

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    nccl_load(release, 0);
    for (int rank = 0; rank < 2; rank++) { /* two ranks in one process */
        struct comm *at = rank ? &other : &comm;

        if (release->profiler == 4)
            ((const struct nccl_abi_profiler_v4 *)plugin.profiler)
                ->init(&at->profiler, &at->mask, "", 1, 1, 8, rank, nccl_logger);
        else
            ((const struct nccl_abi_profiler_v5 *)plugin.profiler)
                ->init(&at->profiler, 1, &at->mask, NULL, 1, 8, rank, nccl_logger);
    }
    nccl_event(&comm, NCCL_ABI_EV_COLL_API, SYMTUNER_ALLGATHER, 1024, 0);
    nccl_comm_end(&comm);
    nccl_comm_end(&other);
    text = nccl_read(getenv("SYMTUNER_LEDGER"));
    has_release(text, release);
    has(text, " ranks=8 nodes=1 local=2 ", 1);
    has(text, " rules=0xcbf29ce484222325 mode=steer sym-ctas=0 from=NCCL host=", 1);
    has(text, "symmetric=1", release->profiler >= 5 && release->profiler < 7);
}
END_TEST

START_TEST(test_no_ledger_no_events)
{
    struct comm comm;

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    nccl_load(&releases[_i], ENV_PLUGIN);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 1), 0);
    ck_assert_int_eq(comm.mask, 0);
    nccl_comm_end(&comm);
}
END_TEST

START_TEST(test_two_processes_append_to_one_ledger)
{
    struct comm comm;
    const char *text;

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_LEDGER", nccl_temp(), 1);
    nccl_load(&releases[3], 0);
    for (uint64_t id = 1; id <= 2; id++) {
        ck_assert_int_eq(nccl_comm(&comm, id, 8, 1), 0);
        nccl_comm_end(&comm);
    }
    text = nccl_read(getenv("SYMTUNER_LEDGER"));
    for (uint64_t id = 1; id <= 2; id++) {
        char line[40];

        snprintf(line, sizeof line, "comm id=0x%016llx", (unsigned long long)nccl_id(id));
        has(text, line, 1);
    }
}
END_TEST

START_TEST(test_a_ledger_that_cannot_be_written_is_a_warning)
{
    struct comm comm;

    setenv("SYMTUNER_MACHINE", "gpu=test box", 1);
    setenv("SYMTUNER_LEDGER", "/nonexistent/ledger", 1);
    nccl_load(&releases[3], 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 8, 1), 0);
    nccl_comm_end(&comm);
    has(nccl_log.text, "SYMTUNER_LEDGER=/nonexistent/ledger: No such file or directory", 1);
}
END_TEST

Suite *life_suite(void)
{
    Suite *suite = suite_create("life");
    TCase *load = tcase_create("loading"), *ledger = tcase_create("ledger");

    tcase_set_timeout(load, 120);
    t_each_release(load, test_loads_and_unloads_keep_state_and_answers);
    t_each_release(load, test_clean_up_without_a_communicator_works);
    t_each_release(ledger, test_the_ledger_tells_what_was_asked_picked_and_ran);
    t_each_release(ledger, test_only_collectives_that_have_symmetric_kernels_are_derived);
    tcase_add_loop_test(ledger, test_the_ledger_of_each_nccl_of_a_process_is_right, 0, 2);
    t_each_release(ledger, test_the_ledger_of_a_profiler_alone_has_the_release);
    t_each_release(ledger, test_no_ledger_no_events);
    tcase_add_test(ledger, test_two_processes_append_to_one_ledger);
    tcase_add_test(ledger, test_a_ledger_that_cannot_be_written_is_a_warning);
    suite_add_tcase(suite, load);
    suite_add_tcase(suite, ledger);
    return suite;
}
