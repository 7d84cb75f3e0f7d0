/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_create.c - tests symtuner_ar_create over several boxes (machines): when ranks add up box by
 * box (first inside each box, then between the boxes), and that no rank does so if one cannot.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"

#define RULE "kernels network-pieces=2"

static const struct {
    int ranks, each;
} sizes[] = {{4, 2}, {8, 4}, {6, 2}, {24, 8}};

static void must_be_box_by_box(int boxes, int each)
{
    for (int r = 0; r < net.ranks; r++) {
        ck_assert_msg(created[r] == ncclSuccess, "rank %d: %s", r, created_error[r]);
        ck_assert_msg(handle[r]->nodes != NULL, "rank %d: %s", r, handle[r]->gate);
        ck_assert_int_eq(handle[r]->nodes->boxes.count, boxes);
        ck_assert_int_eq(handle[r]->nodes->box->ranks, each);
        ck_assert_int_eq(handle[r]->nodes->box->me, handle[r]->nodes->boxes.at);
        ck_assert_int_eq(handle[r]->nodes->boxes.box, net.box_of[r]);
    }
}

START_TEST(test_equal_boxes_add_up_box_by_box)
{
    const int ranks = sizes[_i].ranks, each = sizes[_i].each;

    group_reset(ranks, each, RULE);
    group_create();
    must_be_box_by_box(ranks / each, each);
    ck_assert_int_eq(net.splits, 2 * ranks);
    ck_assert_ptr_nonnull(strstr(group_describe(1), "this is box 0, and rank 1 in it"));
    ck_assert_ptr_nonnull(strstr(group_describe(1), "in the box: rank 1 of"));
    group_destroy();
}
END_TEST

/* ---- threads that drive several ranks -------------------------------------------------------- */

static ncclUniqueId ids[2];
static ncclComm_t pair[2][2]; /* [g][r]: rank r of group g */
static ncclResult_t mixed[3];
static char mixed_error[3][256];

/* Thread 0 drives rank 0 of both groups, and the other threads drive rank 1 of one group each. */
static void open_mixed(int thread)
{
    for (int g = 0; g < 2; g++)
        if (thread == 0 || thread == g + 1) {
            cudaSetDevice(2 * g + (thread > 0));
            ncclCommInitRank(&pair[g][thread > 0], 2, ids[g], thread > 0);
        }
}

static void create_mixed(int thread)
{
    const ncclComm_t comms[2] = {pair[thread == 2][thread > 0], pair[1][0]};
    symtuner_ar *h[2] = {NULL};

    mixed[thread] = symtuner_ar_create(h, comms, thread == 0 ? 2 : 1, &group_config);
    strcpy(mixed_error[thread], symtuner_ar_error(NULL));
}

START_TEST(test_groups_in_one_call_are_an_error_on_all_ranks)
{
    group_reset(3, 3, NULL);
    for (int g = 0; g < 2; g++)
        ncclGetUniqueId(&ids[g]);
    net_threads(open_mixed);
    net_threads(create_mixed);
    for (int thread = 0; thread < 3; thread++) {
        ck_assert_msg(mixed[thread] == ncclInvalidUsage, "thread %d: %s", thread,
                      mixed_error[thread]);
        ck_assert_msg(strstr(mixed_error[thread],
                             "the thread of rank 0 passes communicators of several groups") != NULL,
                      "%s", mixed_error[thread]);
    }
    for (int g = 0; g < 2; g++)
        for (int r = 0; r < 2; r++)
            ncclCommDestroy(pair[g][r]);
    pair[1][0] = pair[0][0]; /* this is the same communicator twice */
    create_mixed(0);
    ck_assert_int_eq(mixed[0], ncclInvalidArgument);
    ck_assert_str_eq(mixed_error[0], "comms[0] and comms[1] are the same");
    ck_assert(!whole_nccl.hung);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

/* Neither creating the handles nor measuring may end a capture of another thread. */
START_TEST(test_a_capture_goes_on)
{
    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    net.adds_nothing = true; /* so the fake NCCL loses no time with adding */
    fake.global_capture = 1;
    group_create();
    fake.global_capture = 0;
    must_be_box_by_box(2, 2);
    ck_assert_int_eq(fake.prohibited, 0);
    group_destroy();
}
END_TEST

/* Ranks 0 and 2 are on one box, ranks 1 and 3 on the other. */
START_TEST(test_ranks_need_not_be_numbered_box_by_box)
{
    group_reset(4, 2, RULE);
    for (int r = 0; r < 4; r++)
        net.box_of[r] = r % 2;
    group_create();
    must_be_box_by_box(2, 2);
    ck_assert_int_eq(handle[3]->nodes->boxes.at, 1);
    group_destroy();
}
END_TEST

START_TEST(test_nobody_asked)
{
    group_reset(4, 2, "kernels kernel=two_ll8");
    group_create();
    group_must_be_nccls("the ranks span several nodes; SYMTUNER_AR_NODES=1 adds up box by box");
    ck_assert_int_eq(net.splits, 0);
    group_destroy();
}
END_TEST

START_TEST(test_other_layouts_are_nccls)
{
    static const struct {
        int box_of[5];
        const char *why;
    } row[] = {{{0, 0, 1, 1, 1}, "unequal numbers of ranks: 2 where rank 0 is, 3 where rank 2 is"},
               {{0, 1, 2, 3, 4}, "with one rank each"},
               {{0, 0, 0, 0, 1}, "unequal numbers of ranks: 4 where"}};

    group_reset(5, 5, RULE);
    memcpy(net.box_of, row[_i].box_of, sizeof row[_i].box_of);
    group_create();
    group_must_be_nccls(row[_i].why);
    ck_assert_int_eq(net.splits, 0);
    group_destroy();
}
END_TEST

/* Ranks with the same NCCL_HOSTID are on one box. If all ranks are on one box, they do not add up
 * box by box. */
START_TEST(test_one_box_is_one_box)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};

    group_reset(4, 4, RULE "; kernels kernel=two_ll8"); /* the first rule is not for ranks on one
                                                           box */
    group_create();
    for (int r = 0; r < 4; r++) {
        ck_assert_ptr_null(handle[r]->nodes);
        ck_assert_ptr_null(handle[r]->gate);
        ck_assert_int_eq(symtuner_ar_query(&net, &net, 8, ncclFloat, ncclSum, handle[r], &plan),
                         ncclSuccess);
        ck_assert_str_eq(plan.kernel, "two_ll8");
    }
    group_destroy();
}
END_TEST

/* If ncclCommSplit fails on one rank, the other ranks already have the communicator that it made
 * for them, and must give it back. */
START_TEST(test_a_split_that_fails_on_one_rank_stops_all)
{
    char why[80];

    for (int rank = 0; rank < 6; rank++) {
        group_reset(6, 3, RULE);
        net.no_split = _i;
        net.split_fails = rank;
        group_create();
        snprintf(why, sizeof why, "not box by box: rank %d: ncclCommSplit: an error", rank);
        group_must_be_nccls(why);
        group_destroy();
    }
}
END_TEST

/* Before it makes a handle, the drop-in calls symtuner_ar_boxes_asked, to learn whether the
 * settings ask to add up box by box. */
START_TEST(test_who_asks)
{
    static const struct {
        const char *name, *value;
        int asked;
    } rows[] = {{"SYMTUNER_AR_NODES", "1", 1},
                {"SYMTUNER_AR_NODES", "0", 0},
                {"SYMTUNER_RULE", RULE, 1},
                {"SYMTUNER_RULE", "kernels ranks=99 network-pieces=0", 1},
                {"SYMTUNER_RULE", "kernels kernel=one_ll8", 0},
                {"SYMTUNER_RULE", "kernels network-pieces=many", 0},
                {"SYMTUNER_RULES", "/no/such/file", 0}};

    group_reset(4, 2, NULL);
    ck_assert_int_eq(symtuner_ar_boxes_asked(), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv(rows[i].name, rows[i].value, 1);
        ck_assert_msg(symtuner_ar_boxes_asked() == rows[i].asked, "row %zu", i);
        unsetenv(rows[i].name);
    }
    setenv("SYMTUNER_RULE", RULE, 1);
    setenv("SYMTUNER_MODE", "observe", 1);
    ck_assert_int_eq(symtuner_ar_boxes_asked(), 0);
    unsetenv("SYMTUNER_MODE");
}
END_TEST

/* If a user asked to add up box by box, and the library cannot, one line says why. */
START_TEST(test_one_line_says_why_not)
{
    const char *text;

    capture_stderr();
    group_reset(5, 2, NULL);
    unsetenv("SYMTUNER_LOG");
    setenv("SYMTUNER_AR_NODES", "1", 1);
    group_create();
    group_must_be_nccls("with unequal numbers of ranks");
    group_destroy();
    group_reset(4, 2, NULL);
    unsetenv("SYMTUNER_LOG");
    net.no_split = 1;
    group_create();
    group_must_be_nccls("; SYMTUNER_AR_NODES=1 adds up box by box"); /* nobody has asked, so no line
                                                                        is printed */
    group_destroy();
    group_reset(4, 2, RULE);
    unsetenv("SYMTUNER_LOG");
    net.no_split = 1;
    group_create();
    group_must_be_nccls("not box by box: rank 0: ncclCommSplit: an error");
    group_destroy();
    text = captured_stderr();
    ck_assert_str_eq(text,
                     "symtuner_ar: warning: the ranks span several nodes with unequal numbers "
                     "of ranks: 2 where rank 0 is, 1 where rank 4 is\n"
                     "symtuner_ar: warning: the ranks span several nodes, not box by box: "
                     "rank 0: ncclCommSplit: an error\n");
}
END_TEST

/* A box without windows uses pinned host memory. If that fails, too, all calls go to NCCL. */
START_TEST(test_a_box_that_cannot_share_memory_stops_all)
{
    group_reset(4, 2, RULE);
    net.no_window = 3;
    group_create();
    must_be_box_by_box(2, 2);
    ck_assert_int_eq(handle[0]->nodes->box->links, AR_LINKS_NVLINK);
    ck_assert_int_eq(handle[2]->nodes->box->links, AR_LINKS_HOST);
    group_destroy();
    group_reset(4, 2, RULE);
    net.no_window = 3;
    fake.no_pin = 1;
    group_create();
    group_must_be_nccls("not box by box: rank 2: in its box: no peer memory");
    group_destroy();
}
END_TEST

START_TEST(test_all_ranks_must_ask)
{
    group_reset(4, 2, _i < 4 ? NULL : RULE);
    net.set[_i % 4] = "SYMTUNER_AR_NODES=1";
    group_create();
    group_must_be_nccls("and SYMTUNER_AR_NODES differs between ranks 0 and");
    ck_assert_int_eq(net.splits, 0);
    group_destroy();
}
END_TEST

/* Ranks with different rules use no rules. So the rule, which asks to add up box by box, has no
 * effect. */
START_TEST(test_a_rule_on_one_rank_is_no_rule)
{
    group_reset(4, 2, NULL);
    net.set[_i] = "SYMTUNER_RULE=" RULE;
    group_create();
    group_must_be_nccls("the ranks span several nodes");
    group_destroy();
}
END_TEST

START_TEST(test_a_communicator_that_does_not_block_is_nccls)
{
    group_reset(4, 2, RULE);
    whole_nccl.unblocked = true;
    group_create();
    group_must_be_nccls("and the communicator of rank 0 does not block");
    group_destroy();
}
END_TEST

/* Let one CUDA call of one rank fail, as if memory ran out in the middle of the creation. Nothing
 * may be left behind, and no rank may wait for ever. */
START_TEST(test_a_rank_without_memory_stops_all)
{
    int alone = 0, together = 0;

    for (int at = 1; together < 3; at += 3) {
        group_reset(4, 2, RULE);
        fake.fail_on = 4;
        fake.fail_at = at;
        group_create();
        ck_assert(!whole_nccl.hung);
        for (int r = 1; r < 4; r++)
            ck_assert_int_eq(created[r] == ncclSuccess, created[0] == ncclSuccess);
        for (int r = 1; r < 4 && created[0] == ncclSuccess; r++)
            ck_assert_int_eq(handle[r]->nodes == NULL, handle[0]->nodes == NULL);
        if (created[0] == ncclSuccess && handle[0]->nodes == NULL)
            alone++;
        together += fake.calls < at;
        group_destroy();
    }
    ck_assert_int_gt(alone, 3);
}
END_TEST

/* ---- start-up figures ------------------------------------------------------------------------ */

/* Create handles, and return into how many pieces they cut 16 MiB to add them up box by box; 0:
 * NCCL runs the call. The fake NCCL takes ${all} us per MiB for an all-reduce of all ranks, ${some}
 * us per MiB for one of fewer ranks, and 1 ms more on rank ${slow_rank}. */
static int pieces_with(int all, int some, int slow_rank)
{
    int pieces;

    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    net.slow_all_us = all;
    net.slow_some_us = some;
    net.slow_rank = slow_rank;
    net.adds_nothing = true;
    group_create();
    must_be_box_by_box(2, 2);
    for (int r = 1; r < 4; r++)
        ck_assert_int_eq(memcmp(&handle[r]->nodes->figures, &handle[0]->nodes->figures,
                                sizeof(struct ar_nodes_figures)),
                         0);
    pieces = ar_nodes_choose(handle[0], 16 << 20, 7, 0, NULL, 0);
    for (int r = 1; r < 4; r++)
        ck_assert_int_eq(ar_nodes_choose(handle[r], 16 << 20, 7, 0, NULL, 0), pieces);
    ck_assert_ptr_nonnull(strstr(group_describe(0), "messages of 65536 1048576 16777216 bytes:"));
    ck_assert_ptr_nonnull(
        strstr(group_describe(0), "rules that keep this choice:\n  [kernels nodes-1]"));
    group_destroy();
    return pieces;
}

START_TEST(test_the_slower_network_decides)
{
    ck_assert_int_gt(pieces_with(1000, 25, -1), 0);
    ck_assert_int_eq(pieces_with(25, 1000, -1), 0);
    ck_assert_int_gt(pieces_with(1000, 25, 2), 0); /* all ranks use the times of the slowest rank */
}
END_TEST

/* symtuner_ar_describe prints rules. With these rules, the library must choose the same numbers of
 * pieces without measuring. In case 1 the measured times are made up (${late}): the library chooses
 * 8 pieces below 1 TiB, and 16 from there on. */
START_TEST(test_the_described_rules_keep_the_choice)
{
    static const struct ar_nodes_figures late = {
        {{250, 2000, 32000}, {1, 1, 1.2f}, {100, 130, 900}}};
    static char rules[8192];
    int pieces[41], n = 0;
    char path[] = "/tmp/check-nodes-XXXXXX";
    const char *text;
    FILE *f = fdopen(mkstemp(path), "w");

    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    net.slow_all_us = 500;
    net.slow_some_us = 25;
    net.adds_nothing = true;
    group_create();
    if (_i == 1)
        handle[0]->nodes->figures = late;
    for (int i = 0; i <= 40; i++)
        pieces[i] = ar_nodes_choose(handle[0], 1ull << i, 7, 0, NULL, 0);
    text = strstr(group_describe(0), "  [kernels nodes-1]");
    ck_assert_ptr_nonnull(text);
    for (; strncmp(text, "  ", 2) == 0; text = strchr(text, '\n') + 1)
        n +=
            snprintf(rules + n, sizeof rules - (size_t)n, "%.*s\n", (int)strcspn(text, "\n"), text);
    group_destroy();
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(rules, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    group_reset(4, 2, NULL);
    setenv("SYMTUNER_RULES", path, 1);
    group_create();
    unsetenv("SYMTUNER_RULES");
    must_be_box_by_box(2, 2);
    for (int i = 0; i <= 40; i++)
        ck_assert_int_eq(ar_nodes_choose(handle[3], 1ull << i, 7, 0, NULL, 0), pieces[i]);
    ck_assert_int_gt(pieces[24], 0);
    group_destroy();
    remove(path);
}
END_TEST

/* ---- more than sixteen ranks ----------------------------------------------------------------- */

START_TEST(test_more_ranks_in_a_box_than_kernels_take_are_nccls)
{
    group_reset(17, 17, NULL);
    group_create();
    group_must_be_nccls("more than 16 ranks");
    symtuner_ar_force(handle[3], "two_ll8", 0, 0);
    ck_assert_int_eq(symtuner_ar_all_reduce(&net, &net, 1, ncclFloat, ncclSum, handle[3], NULL),
                     ncclInvalidUsage);
    ck_assert_str_eq(symtuner_ar_error(handle[3]),
                     "kernel two_ll8 was forced, but more than 16 ranks");
    group_destroy();
}
END_TEST

static void create_for_both(int r)
{
    ncclComm_t both[2] = {NULL, net_comm(r)};
    ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
    symtuner_ar *made[2] = {NULL, NULL};

    blocking.blocking = blocking.splitShare = 1;
    ncclCommSplit(both[1], r / 2, r, &both[0], &blocking);
    created[r] = symtuner_ar_create(made, both, 2, NULL);
    strcpy(created_error[r], symtuner_ar_error(NULL));
    ncclCommDestroy(both[0]);
    ncclCommDestroy(both[1]);
}

/* All communicators of one call of symtuner_ar_create must belong to one group of ranks, because
 * the library makes room for the ranks of one group only. */
START_TEST(test_communicators_of_two_groups_are_refused)
{
    group_reset(4, 4, NULL);
    net_threads(create_for_both);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(created[r], ncclInvalidArgument);
        ck_assert_ptr_nonnull(
            strstr(created_error[r], "comms[1] has 4 ranks, and comms[0] has 2; make the handles"));
    }
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(whole_nccl.live, 0);
}
END_TEST

Suite *nodes_suite_create(void)
{
    Suite *s = suite_create("nodes_create");
    TCase *t = tcase_create("create");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_equal_boxes_add_up_box_by_box, 0,
                        (int)(sizeof sizes / sizeof *sizes));
    tcase_add_test(t, test_a_capture_goes_on);
    tcase_add_test(t, test_groups_in_one_call_are_an_error_on_all_ranks);
    tcase_add_test(t, test_ranks_need_not_be_numbered_box_by_box);
    tcase_add_test(t, test_nobody_asked);
    tcase_add_loop_test(t, test_other_layouts_are_nccls, 0, 3);
    tcase_add_test(t, test_one_box_is_one_box);
    tcase_add_loop_test(t, test_a_split_that_fails_on_one_rank_stops_all, 1, 3);
    tcase_add_test(t, test_who_asks);
    tcase_add_test(t, test_one_line_says_why_not);
    tcase_add_test(t, test_a_box_that_cannot_share_memory_stops_all);
    tcase_add_loop_test(t, test_all_ranks_must_ask, 0, 8);
    tcase_add_loop_test(t, test_a_rule_on_one_rank_is_no_rule, 0, 4);
    tcase_add_test(t, test_a_communicator_that_does_not_block_is_nccls);
    tcase_add_test(t, test_a_rank_without_memory_stops_all);
    tcase_add_test(t, test_the_slower_network_decides);
    tcase_add_loop_test(t, test_the_described_rules_keep_the_choice, 0, 2);
    tcase_add_test(t, test_more_ranks_in_a_box_than_kernels_take_are_nccls);
    tcase_add_test(t, test_communicators_of_two_groups_are_refused);
    suite_add_tcase(s, t);
    return s;
}
