/* SPDX-License-Identifier: Apache-2.0 */
/* check_order.c - calls the plugin as each release of NCCL does, in its order. If no rule is for
 * these calls, or if SYMTUNER_MODE is off or observe, the plugin must change nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/nccl.h"

enum { TABLES = 100000 }; /* per release, more than a million in all */

static void set_quiet_box(void)
{
    setenv("SYMTUNER_MACHINE", "gpu=test box; links=nvlink; multicast=no", 1);
}

/* Ask the tuner about ${tables} random calls of all collectives. Their cost tables are random, too,
 * and some have few entries or none. */
static void ask_without_effect(const struct comm *comm, long tables)
{
    struct t_random random = {t_seed()};

    for (long n = 0; n < tables; n++) {
        struct question question = {t_below(&random, 5), t_size(&random), t_below(&random, 3),
                                    t_below(&random, 2), {0}, 0}, before;

        t_table(&random, question.table);
        before = question;
        nccl_ask(comm, &question);
        if (memcmp(&question, &before, sizeof before) != 0)
            ck_abort_msg("seed 0x%llx table %ld was changed", (unsigned long long)t_seed(), n);
    }
}

START_TEST(test_without_rules_a_hundred_thousand_tables_stay_bit_identical)
{
    struct comm comm;

    set_quiet_box();
    nccl_load(&releases[_i], ENV_PLUGIN);
    ck_assert_int_eq(nccl_comm(&comm, 0x1234, 8, 1), 0);
    ask_without_effect(&comm, t_rounds(TABLES));
    nccl_comm_end(&comm);
}
END_TEST

START_TEST(test_a_rule_for_other_calls_changes_nothing_either)
{
    struct comm comm;

    set_quiet_box();
    setenv("SYMTUNER_RULE", "any ranks=4 prefer=general:ring/ll channels=4; any nccl=2.99 "
                            "prefer=symmetric; any gpu=other forbid=tree", 1);
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(nccl_comm(&comm, 0x1234, 8, 1), 0);
    ask_without_effect(&comm, t_rounds(TABLES / 10));
    nccl_comm_end(&comm);
}
END_TEST

static const char *const idle[] = {"off", "observe"};

START_TEST(test_off_and_observe_change_nothing)
{
    struct comm comm;

    set_quiet_box();
    setenv("SYMTUNER_MODE", idle[_i / RELEASES], 1);
    setenv("SYMTUNER_RULE", "any prefer=general:ring/ll channels=4; process sym-ctas=16", 1);
    nccl_load(&releases[_i % RELEASES], 0);
    ck_assert_int_eq(nccl_comm(&comm, 0x1234, 8, 1), 0);
    ask_without_effect(&comm, t_rounds(TABLES / 10));
    nccl_comm_end(&comm);
    ck_assert_ptr_null(getenv("NCCL_SYM_CTAS"));
    if (_i / RELEASES == 0) /* with MODE=off nothing is logged */
        ck_assert_str_eq(nccl_log.text, "");
}
END_TEST

START_TEST(test_functions_that_no_tuner_knows_are_let_through)
{
    struct comm comm;

    set_quiet_box();
    setenv("SYMTUNER_RULE", "any prefer=general:ring/ll channels=4", 1);
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(nccl_comm(&comm, 0x1234, 8, 1), 0);
    for (int func = -1; func < 32; func = func == -1 ? 5 : func + 1) {
        struct question question = {func, 4096, 1, 0, {1, 2, 3}, 0};

        ck_assert_int_eq(nccl_ask(&comm, &question), 0);
        ck_assert_int_eq(question.channels, 0);
    }
    nccl_comm_end(&comm);
}
END_TEST

START_TEST(test_a_communicator_gets_two_lines_and_a_call_none)
{
    struct comm comm;
    struct question last;
    float table[T_CELLS] = {1, 2, 3, 4, 5, 6};
    char id[40];
    int after_init;

    set_quiet_box();
    setenv("SYMTUNER_RULE", "allreduce prefer=general:ring/ll; process sym-ctas=16", 1);
    nccl_load(&releases[_i], 0);
    ck_assert_int_eq(nccl_comm(&comm, 0xabc, 4, 1), 0);
    nccl_comm_end(&comm); /* the first communicator also logs what is logged once per process */
    memset(&nccl_log, 0, sizeof nccl_log);
    ck_assert_int_eq(nccl_comm(&comm, 0xabd, 4, 1), 0);
    after_init = nccl_log.infos;
    ck_assert_int_eq(after_init, 1);
    for (int i = 0; i < 100; i++)
        nccl_collective(&comm, i % 5, 4096, i & 1, table, 0, &last);
    ck_assert_int_eq(nccl_log.infos, after_init);
    nccl_comm_end(&comm);
    ck_assert_int_eq(nccl_log.infos, 2);
    ck_assert_int_eq(nccl_log.warnings, 0);
    snprintf(id, sizeof id, "comm 0x%llx", (unsigned long long)nccl_id(0xabd));
    if (releases[_i].tuner > 4) /* v4 gives the tuner no id */
        ck_assert_msg(strstr(nccl_log.text, id), "%s", nccl_log.text);
}
END_TEST

/* A fault of the NCCL release is logged as INFO, because the job itself did nothing wrong. */
START_TEST(test_a_job_that_did_nothing_wrong_gets_no_warning)
{
    struct comm comm;

    set_quiet_box();
    setenv("SYMTUNER_LEDGER", "/dev/null", 1);
    nccl_load(&releases[_i], _i % 2 ? ENV_PLUGIN : 0);
    ck_assert_int_eq(nccl_comm(&comm, 1, 2, 1), 0);
    nccl_comm_end(&comm);
    ck_assert_msg(nccl_log.warnings == 0, "%s", nccl_log.text);
}
END_TEST

START_TEST(test_no_logger_is_legal)
{
    struct comm comm;

    set_quiet_box();
    /* warnings go to stderr if there is no logger */
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
    nccl_load(&releases[_i], ENV_PLUGIN | QUIET);
    ck_assert_int_eq(nccl_comm(&comm, 1, 2, 1), 0);
    ask_without_effect(&comm, 10);
    nccl_comm_end(&comm);
}
END_TEST

Suite *order_suite(void)
{
    Suite *suite = suite_create("call order");
    TCase *nothing = tcase_create("nothing to do"), *log = tcase_create("log");

    tcase_set_timeout(nothing, 60);
    t_each_release(nothing, test_without_rules_a_hundred_thousand_tables_stay_bit_identical);
    t_each_release(nothing, test_a_rule_for_other_calls_changes_nothing_either);
    tcase_add_loop_test(nothing, test_off_and_observe_change_nothing, 0, 2 * RELEASES);
    t_each_release(nothing, test_functions_that_no_tuner_knows_are_let_through);
    t_each_release(log, test_a_communicator_gets_two_lines_and_a_call_none);
    t_each_release(log, test_a_job_that_did_nothing_wrong_gets_no_warning);
    t_each_release(log, test_no_logger_is_legal);
    suite_add_tcase(suite, nothing);
    suite_add_tcase(suite, log);
    return suite;
}
