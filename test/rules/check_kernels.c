/* SPDX-License-Identifier: Apache-2.0 */
/* check_kernels.c - checks [kernels] rules. libsymtuner_ar.so asks which of them covers a call; the
 * plugin never does. */
#include <stdio.h>
#include <string.h>

#include "nccl/names.h"
#include "rules/rules.h"
#include "test/suites.h"

static symtuner_rules *parsed(const char *text)
{
    char error[SYMTUNER_ERROR_MAX] = "";
    symtuner_rules *rules = NULL;

    ck_assert_msg(symtuner_rules_parse(text, "t", &rules, error, sizeof error) == SYMTUNER_OK, "%s",
                  error);
    return rules;
}

static struct symtuner_kernel_decision kernel_for(const symtuner_rules *rules, uint64_t bytes,
                                                  int ranks, int dtype, int registered)
{
    struct symtuner_kernel_query query = {.struct_size = sizeof query,
                                          .nccl = 22809,
                                          .bytes = bytes,
                                          .ranks = ranks,
                                          .registered = registered,
                                          .dtype = dtype,
                                          .machine = {"NVIDIA H200", 90, 1, 0, 0}};
    struct symtuner_kernel_decision decision = {.struct_size = sizeof decision};

    ck_assert_int_eq(symtuner_kernel_decide(rules, &query, &decision), SYMTUNER_OK);
    return decision;
}

START_TEST(test_the_two_lists_do_not_see_each_other)
{
    symtuner_rules *rules = parsed("[kernels a]\nbytes = ..64KiB\nranks = 2..4\ndtype = bf16\n"
                                   "kernel = one_ll8\nctas = 7\nthreads = 64\n"
                                   "[rule b]\ncoll = allreduce\nprefer = general:ring/ll\n"
                                   "[kernels c]\nregistered = yes\nkernel = nccl\n");
    struct symtuner_query query = {.struct_size = sizeof query, .nccl = 22809,
                                   .coll = SYMTUNER_ALLREDUCE, .bytes = 4096, .ranks = 4,
                                   .nodes = 1, .pipe_ops = 1};
    struct symtuner_decision general = {.struct_size = sizeof general};
    struct symtuner_kernel_decision kernel = kernel_for(rules, 4096, 4, 9, 0);

    ck_assert_int_eq(symtuner_decide(rules, &query, &general), SYMTUNER_OK);
    ck_assert_str_eq(general.name, "b");
    ck_assert_str_eq(kernel.name, "a");
    ck_assert_str_eq(kernel.kernel, "one_ll8");
    ck_assert_int_eq(kernel.ctas, 7);
    ck_assert_int_eq(kernel.threads, 64);
    ck_assert_int_eq(kernel_for(rules, 4096, 4, 7, 0).rule, -1); /* type 7 is f32 */
    ck_assert_int_eq(kernel_for(rules, 65537, 4, 9, 0).rule, -1);
    ck_assert_str_eq(kernel_for(rules, 4096, 8, 9, 1).kernel, "nccl");
    ck_assert_int_eq(kernel_for(NULL, 4096, 8, 9, 1).rule, -1);
    symtuner_rules_free(rules);
}
END_TEST

/* Which rule covers a call depends on what the program says about other kernels beside the call. A
 * rule may override what the program says. */
START_TEST(test_rules_know_what_runs_beside)
{
    symtuner_rules *rules = parsed("[kernels a]\nwhen-beside = alone\nkernel = one_ll8\n"
                                   "[kernels b]\nwhen-beside = unknown, alone\nbeside = compute\n");
    static const int want[] = {1, 0, -1}, beside[] = {2, -1, -1};
    struct symtuner_kernel_query query = {.struct_size = sizeof query, .ranks = 2};

    for (int i = 0; i < 3; i++) {
        struct symtuner_kernel_decision decision = {.struct_size = sizeof decision};

        query.beside = i;
        ck_assert_int_eq(symtuner_kernel_decide(rules, &query, &decision), SYMTUNER_OK);
        ck_assert_int_eq(decision.rule, want[i]);
        ck_assert_int_eq(decision.beside, beside[i]);
    }
    symtuner_rules_free(rules);
}
END_TEST

/* A rule with network-pieces says how boxes exchange data. It does not choose a kernel, so for a
 * call within a box the next rule applies. */
START_TEST(test_network_pieces_are_for_several_boxes)
{
    symtuner_rules *rules = parsed("[kernels a]\nnetwork-pieces = 4\n[kernels b]\n"
                                   "kernel = one_ll8\n[kernels c]\nkernel = two_ll8\n"
                                   "network-pieces = 0\n");
    symtuner_rules *plain =
        parsed("[kernels a]\nregistered = no\nwhen-beside = unknown\nnetwork-pieces = 3\n");
    const struct symtuner_kernel_query boxes = {
        .struct_size = sizeof boxes, .ranks = 4, .registered = 1, .beside = 1, .boxes = 2};
    struct symtuner_kernel_decision decision = {.struct_size = sizeof decision};
    char text[300];

    ck_assert_str_eq(kernel_for(rules, 4096, 4, 9, 0).name, "b");
    ck_assert_int_eq(kernel_for(rules, 4096, 4, 9, 0).network_pieces, -1);
    ck_assert_int_eq(symtuner_kernel_decide(rules, &boxes, &decision), SYMTUNER_OK);
    ck_assert_str_eq(decision.name, "a");
    ck_assert_int_eq(decision.network_pieces, 4);
    ck_assert_ptr_null(decision.kernel);
    ck_assert_int_eq(symtuner_kernel_decide(plain, &boxes, &decision), SYMTUNER_OK);
    ck_assert_int_eq(decision.network_pieces, 3);
    ck_assert_int_eq(symtuner_kernel_decide(NULL, &boxes, &decision), SYMTUNER_OK);
    ck_assert_int_eq(decision.network_pieces, -1);
    ck_assert_int_eq(rules->rule[0].launch.network_pieces, 4);
    ck_assert_int_eq(rules->rule[1].launch.network_pieces, -1);
    ck_assert_int_eq(rules->rule[2].launch.network_pieces, 0);
    ck_assert_ptr_null(st_kernels_lint(&rules->rule[0], 0));
    ck_assert_ptr_nonnull(strstr(st_kernels_lint(&rules->rule[2], 0), "next to network-pieces"));
    /* rule c is hidden; rule b is not, so there is one finding */
    ck_assert_int_eq(symtuner_rules_lint(rules, 0, text, sizeof text), 1);
    ck_assert_msg(strstr(text, "\"c\" never applies: \"a\"") != NULL, "%s", text);
    symtuner_rules_free(rules);
    symtuner_rules_free(plain);
}
END_TEST

/* Return the name of the rule that covers a call of ${coll} on ${boxes} boxes. Returns "" if there
 * is none. */
static const char *covers(const symtuner_rules *rules, int coll, int op, int boxes)
{
    static struct symtuner_kernel_decision decision;
    const struct symtuner_kernel_query query = {.struct_size = sizeof query,
                                                .bytes = 4096,
                                                .ranks = 4,
                                                .op = op,
                                                .boxes = boxes,
                                                .coll = coll};

    decision = (struct symtuner_kernel_decision){.struct_size = sizeof decision};
    ck_assert_int_eq(symtuner_kernel_decide(rules, &query, &decision), SYMTUNER_OK);
    return decision.rule < 0 ? "" : decision.name;
}

/* A rule with the key coll is for the collectives that the key names. A rule without it is for
 * all-reduces, unless its kernel cannot run them. */
START_TEST(test_coll_says_which_collectives_a_rule_is_for)
{
    enum { REDUCE = ST_KERNEL_ALL_REDUCE, SCATTER = ST_KERNEL_REDUCE_SCATTER };
    enum { GATHER = ST_KERNEL_ALL_GATHER };
    symtuner_rules *rules =
        parsed("[kernels engines]\nkernel = engines\nranks = 4\nbytes = 4KiB\nop = sum\n"
               "[kernels old]\nkernel = one_ll8\n"
               "[kernels halves]\ncoll = allgather, reducescatter\nkernel = one_ll128\n");
    symtuner_rules *any = parsed("[kernels a]\ncoll = any\nkernel = two_ll8\n");
    symtuner_rules *one = parsed("[kernels a]\ncoll = reducescatter\nop = max\nctas = 4\n"
                                 "[kernels b]\ncoll = allreduce\nkernel = engines\n");

    ck_assert_str_eq(covers(rules, REDUCE, 0, 0), "old");
    ck_assert_str_eq(covers(rules, SCATTER, 0, 0), "halves");
    ck_assert_str_eq(covers(rules, GATHER, 0, 0), "engines");
    ck_assert_str_eq(covers(rules, GATHER, 2, 0), "engines"); /* an all-gather has no operator */
    for (int coll = 0; coll < 3; coll++)
        ck_assert_str_eq(covers(any, coll, 0, 0), "a");
    ck_assert_str_eq(covers(one, REDUCE, 2, 0), "b");
    ck_assert_str_eq(covers(one, SCATTER, 2, 0), "a");
    ck_assert_str_eq(covers(one, SCATTER, 0, 0), "");
    ck_assert_str_eq(covers(one, GATHER, 2, 0), "");
    symtuner_rules_free(rules);
    symtuner_rules_free(any);
    symtuner_rules_free(one);
}
END_TEST

/* Only all-reduces are added up box by box. So a rule for other collectives does not set their
 * network-pieces, and no rule covers an all-gather or a reduce-scatter on two boxes. */
START_TEST(test_network_pieces_are_for_all_reduces)
{
    symtuner_rules *rules = parsed("[kernels gather]\ncoll = allgather\nnetwork-pieces = 0\n"
                                   "[kernels odd]\nkernel = engines\nnetwork-pieces = 2\n"
                                   "[kernels any]\ncoll = any\nnetwork-pieces = 3\n");

    ck_assert_str_eq(covers(rules, ST_KERNEL_ALL_REDUCE, 0, 2), "odd");
    ck_assert_str_eq(covers(rules, ST_KERNEL_ALL_GATHER, 0, 2), "");
    ck_assert_str_eq(covers(rules, ST_KERNEL_REDUCE_SCATTER, 0, 2), "");
    symtuner_rules_free(rules);
}
END_TEST

/* The expected hashes were computed before [kernels] had the key coll. */
START_TEST(test_rules_without_coll_keep_their_hash)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } rows[] = {
        {"[kernels a]\nkernel = engines\n", UINT64_C(0x96142e9fa6cd3cff)},
        {"[kernels a]\nkernel = one_ll8\n", UINT64_C(0x0e41b92167b89139)},
        {"[rule a]\ncoll = allgather\nprefer = general:ring/ll\n", UINT64_C(0xb0169abfaf18be09)},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        symtuner_rules *rules = parsed(rows[i].text);

        ck_assert_msg(symtuner_rules_hash(rules) == rows[i].hash, "%s: 0x%016llx", rows[i].text,
                      (unsigned long long)symtuner_rules_hash(rules));
        symtuner_rules_free(rules);
    }
}
END_TEST

START_TEST(test_every_key_of_kernels_changes_the_hash)
{
    static const char *const keys[] = {"", "bytes = 1KiB..", "ranks = 2", "dtype = f32",
                                       "op = max", "nccl = 2.28", "gpu = a", "links = pcie",
                                       "ctas = 2", "threads = 64", "registered = no",
                                       "multicast = no", "network-pieces = 0",
                                       "network-pieces = 1", "coll = allreduce",
                                       "coll = allgather", "coll = any"};
    enum { KEYS = sizeof keys / sizeof *keys };
    uint64_t hash[KEYS + 2];
    char text[200];

    for (int i = 0; i < KEYS + 2; i++) {
        symtuner_rules *rules;

        snprintf(text, sizeof text, "[kernels a]\nkernel = %s\n%s\n",
                 i == KEYS ? "two_ll8" : i > KEYS ? "leave" : "one_ll8", i < KEYS ? keys[i] : "");
        rules = parsed(text);
        hash[i] = symtuner_rules_hash(rules);
        symtuner_rules_free(rules);
        for (int k = 0; k < i; k++)
            ck_assert_msg(hash[i] != hash[k], "rows %d and %d", i, k);
    }
}
END_TEST

START_TEST(test_a_kernel_query_out_of_range_is_refused)
{
    const struct symtuner_kernel_query good = {.struct_size = sizeof good, .ranks = 2};
    struct symtuner_kernel_query bad[11];
    struct symtuner_kernel_decision decision = {.struct_size = sizeof decision, .rule = 77};

    for (int i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].struct_size++;
    bad[1].ranks = 0;
    bad[2].dtype = 12;
    bad[3].dtype = -1;
    bad[4].op = 5;
    bad[5].op = -1;
    bad[6].beside = -1;
    bad[7].beside = 3;
    bad[8].boxes = -1;
    bad[9].coll = -1;
    bad[10].coll = 3;
    for (int i = 0; i < 11; i++) {
        ck_assert_int_eq(symtuner_kernel_decide(NULL, &bad[i], &decision), SYMTUNER_EINVAL);
        ck_assert_int_eq(decision.rule, 77);
    }
    ck_assert_int_eq(symtuner_kernel_decide(NULL, &good, &decision), SYMTUNER_OK);
    ck_assert_int_eq(decision.rule, -1);
}
END_TEST

/* The caller was compiled before queries had the member ${machine}, so the library must not read
 * this member. */
START_TEST(test_an_older_caller_s_smaller_kernel_query_is_answered)
{
    struct symtuner_kernel_query query = {
        .struct_size = offsetof(struct symtuner_kernel_query, machine), .ranks = 2,
        .machine = {"NVIDIA H200", 90, 1, 0, 0}};
    struct symtuner_kernel_decision decision = {.struct_size = sizeof decision};
    symtuner_rules *rules = parsed("[kernels a]\ngpu = NVIDIA*\nkernel = nccl\n"
                                   "[kernels b]\nkernel = one_ll8\n");

    ck_assert_int_eq(symtuner_kernel_decide(rules, &query, &decision), SYMTUNER_OK);
    ck_assert_str_eq(decision.name, "b");
    query.struct_size = sizeof query;
    ck_assert_int_eq(symtuner_kernel_decide(rules, &query, &decision), SYMTUNER_OK);
    ck_assert_str_eq(decision.name, "a");
    symtuner_rules_free(rules);
}
END_TEST

/* The caller was compiled before decisions had the member ${ctas}. The library refuses a struct
 * that is longer than its own. */
START_TEST(test_an_older_caller_s_smaller_kernel_decision_is_not_overrun)
{
    struct symtuner_kernel_query query = {.struct_size = sizeof query, .ranks = 2};
    struct symtuner_kernel_decision decision = {
        .struct_size = offsetof(struct symtuner_kernel_decision, ctas), .ctas = 99};
    symtuner_rules *rules = parsed("[kernels a]\nkernel = one_ll8\nctas = 3\n");

    ck_assert_int_eq(symtuner_kernel_decide(rules, &query, &decision), SYMTUNER_OK);
    ck_assert_str_eq(decision.kernel, "one_ll8");
    ck_assert_int_eq(decision.ctas, 99);
    ck_assert_uint_eq(decision.struct_size, offsetof(struct symtuner_kernel_decision, ctas));
    decision.struct_size = sizeof decision + 1;
    ck_assert_int_eq(symtuner_kernel_decide(rules, &query, &decision), SYMTUNER_EINVAL);
    symtuner_rules_free(rules);
}
END_TEST

Suite *kernels_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *kernels = tcase_create("kernels");

    tcase_add_test(kernels, test_the_two_lists_do_not_see_each_other);
    tcase_add_test(kernels, test_rules_know_what_runs_beside);
    tcase_add_test(kernels, test_network_pieces_are_for_several_boxes);
    tcase_add_test(kernels, test_coll_says_which_collectives_a_rule_is_for);
    tcase_add_test(kernels, test_network_pieces_are_for_all_reduces);
    tcase_add_test(kernels, test_rules_without_coll_keep_their_hash);
    tcase_add_test(kernels, test_every_key_of_kernels_changes_the_hash);
    tcase_add_test(kernels, test_an_older_caller_s_smaller_kernel_query_is_answered);
    tcase_add_test(kernels, test_an_older_caller_s_smaller_kernel_decision_is_not_overrun);
    tcase_add_test(kernels, test_a_kernel_query_out_of_range_is_refused);
    suite_add_tcase(suite, kernels);
    return suite;
}
