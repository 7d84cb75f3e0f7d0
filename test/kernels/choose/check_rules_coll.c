/* SPDX-License-Identifier: Apache-2.0 */
/* check_rules_coll.c - checks [kernels] rules in the library: for which collectives a rule
 * decides. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/names.h"
#include "test/kernels/choose/ask.h"
#include "test/kernels/choose/read_rules.h"
#include "test/kernels/suites.h"

static struct ar_ask call_of(int coll, uint64_t bytes)
{
    struct ar_ask ask = ask_for(4, AR_LINKS_NVLINK, bytes, AR_BF16, AR_SUM);

    ask.coll = coll;
    ask.has_nccl = 1;
    return ask;
}

START_TEST(test_the_language_knows_what_each_kernel_runs)
{
    ck_assert_int_eq(st_kernel_coll_words.count, AR_COLLS);
    ck_assert_int_eq(ST_KERNEL_ALL_REDUCE, AR_ALL_REDUCE);
    ck_assert_int_eq(ST_KERNEL_REDUCE_SCATTER, AR_REDUCE_SCATTER);
    ck_assert_int_eq(ST_KERNEL_ALL_GATHER, AR_ALL_GATHER);
    for (int f = 0; f < AR_FAMILIES; f++)
        for (int coll = 0; coll < AR_COLLS; coll++)
            ck_assert_msg((st_kernel_runs(f) >> coll & 1) == (ar_family_needs(f, coll) != 0),
                          "%s: collective %d", ar_family_name(f), coll);
    ck_assert_uint_eq(st_kernel_runs(-1), (1u << AR_COLLS) - 1);
}
END_TEST

/* The kernel "engines" runs only all-gathers, so a rule that names it decides only for all-gathers.
 * Other rules without coll decide only for all-reduces. */
START_TEST(test_a_kernel_without_all_reduce_is_for_its_own_collective)
{
    symtuner_rules *rules = rules_of("kernels kernel=engines; kernels kernel=two_ll128");
    struct ar_ask ask = call_of(AR_ALL_REDUCE, 64 << 20);
    struct ar_choice c;

    for (int coll = 0; coll < AR_COLLS; coll++)
        for (int mapped = 0; mapped < 2; mapped++) {
            ask.coll = coll;
            ask.src_mapped = ask.dst_mapped = mapped;
            ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
            ck_assert_int_eq(c.family == AR_ENGINES, coll == AR_ALL_GATHER);
            ck_assert_int_eq(c.family == AR_TWO_LL128, coll == AR_ALL_REDUCE);
        }
    ask.coll = AR_ALL_GATHER;
    ask.has_copy = 0;
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_ne(c.family, AR_ENGINES);
    ck_assert_ptr_nonnull(strstr(why_of(rules, &ask, &c), "engines cannot run this call"));
    symtuner_rules_free(rules);
}
END_TEST

/* Rules may give each collective another kernel. */
START_TEST(test_each_collective_has_rules_of_its_own)
{
    static const int want[AR_COLLS] = {AR_TWO_LL128, AR_CHUNKED, AR_PULL};
    symtuner_rules *rules =
        rules_of("kernels coll=allgather kernel=pull; kernels kernel=two_ll128; "
                 "kernels coll=any kernel=chunked ctas=5");
    struct ar_choice c;

    for (int coll = 0; coll < AR_COLLS; coll++) {
        struct ar_ask ask = call_of(coll, 16 << 20);

        ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
        ck_assert_int_eq(c.because, AR_RULE_SAYS);
        ck_assert_int_eq(c.family, want[coll]);
        if (coll == AR_REDUCE_SCATTER) {
            ck_assert_int_eq(c.ctas, 5);
            ck_assert_str_eq(why_of(rules, &ask, &c), "rules: SYMTUNER_RULE:1 \"inline:3\"");
        }
    }
    symtuner_rules_free(rules);
}
END_TEST

/* The bytes of a rule are those of the whole call, that is, of all parts together. */
START_TEST(test_bytes_of_a_rule_are_those_of_all_parts)
{
    symtuner_rules *rules = rules_of("kernels coll=allgather bytes=..64KiB kernel=nccl");
    struct ar_ask ask = call_of(AR_ALL_GATHER, 64 << 10);
    struct ar_choice c, table;

    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(c.family, AR_NCCL);
    ask.bytes += 16;
    ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
    ck_assert_int_eq(ar_select(&ask, &free_choice, &table), 0);
    ck_assert_int_eq(memcmp(&c, &table, sizeof c), 0);
    symtuner_rules_free(rules);
}
END_TEST

/* Whatever kernel a rule names for all collectives, each call gets a kernel that can run it: the
 * rule's kernel, or else one that the table chooses. */
START_TEST(test_a_kernel_of_other_collectives_gives_way_to_the_table)
{
    for (int f = 0; f < AR_FAMILIES; f++) {
        char line[80], want[80];
        symtuner_rules *rules;

        snprintf(line, sizeof line, "kernels coll=any kernel=%s", ar_family_name(f));
        snprintf(want, sizeof want, "rules: SYMTUNER_RULE:1: %s cannot run", ar_family_name(f));
        rules = rules_of(line);
        for (int coll = 0; coll < AR_COLLS; coll++) {
            struct ar_ask ask = call_of(coll, 1 << 20);
            struct ar_choice c, table;

            ck_assert_int_eq(ar_rules_select(rules, &ask, &free_choice, &c), 0);
            if (ar_capacity(&ask, f) != 0) {
                ck_assert_int_eq(c.family, f);
                continue;
            }
            ck_assert_int_eq(ar_select(&ask, &free_choice, &table), 0);
            ck_assert_int_eq(c.family, table.family);
            ck_assert_ptr_nonnull(strstr(why_of(rules, &ask, &c), want));
        }
        symtuner_rules_free(rules);
    }
}
END_TEST

/* Ranks that have different rules must not have equal hashes. */
START_TEST(test_the_collectives_of_a_rule_count_in_the_hash)
{
    static const char *const lines[] = {
        "kernels kernel=engines", "kernels coll=allreduce kernel=engines",
        "kernels coll=allgather kernel=engines", "kernels coll=any kernel=engines"};
    enum { LINES = sizeof lines / sizeof *lines };
    uint64_t hash[LINES];

    for (int i = 0; i < LINES; i++) {
        symtuner_rules *rules = rules_of(lines[i]);

        hash[i] = symtuner_rules_hash(rules);
        symtuner_rules_free(rules);
        for (int k = 0; k < i; k++)
            ck_assert_msg(hash[i] != hash[k], "%s and %s", lines[i], lines[k]);
    }
}
END_TEST

START_TEST(test_a_rule_over_several_boxes_is_for_all_reduces)
{
    symtuner_rules *rules = rules_of("kernels coll=allgather network-pieces=2; "
                                     "kernels coll=any bytes=1MiB.. network-pieces=3");
    char place[AR_PLACE];

    ck_assert_int_eq(ar_rules_network(rules, 1 << 20, AR_BF16, AR_SUM, place), 3);
    ck_assert_int_eq(ar_rules_network(rules, 1 << 10, AR_BF16, AR_SUM, place), -1);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_the_collectives_of_a_rule_are_shown)
{
    symtuner_rules *rules = rules_of("kernels coll=allgather,reducescatter kernel=pull; "
                                     "kernels bytes=..1KiB kernel=one_ll8");
    char text[400];

    ar_rules_print(rules, "two", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "any size, coll reducescatter,allgather: pull, blocks"));
    ck_assert_ptr_nonnull(strstr(text, "0B to 1KiB: one_ll8, blocks"));
    symtuner_rules_free(rules);
}
END_TEST

Suite *st_suite_rules_coll(void)
{
    Suite *suite = suite_create("ar_rules_coll");
    TCase *t = tcase_create("rules_coll");

    tcase_add_checked_fixture(t, clean, clean);
    tcase_add_test(t, test_the_language_knows_what_each_kernel_runs);
    tcase_add_test(t, test_a_kernel_without_all_reduce_is_for_its_own_collective);
    tcase_add_test(t, test_each_collective_has_rules_of_its_own);
    tcase_add_test(t, test_bytes_of_a_rule_are_those_of_all_parts);
    tcase_add_test(t, test_a_kernel_of_other_collectives_gives_way_to_the_table);
    tcase_add_test(t, test_the_collectives_of_a_rule_count_in_the_hash);
    tcase_add_test(t, test_a_rule_over_several_boxes_is_for_all_reduces);
    tcase_add_test(t, test_the_collectives_of_a_rule_are_shown);
    suite_add_tcase(suite, t);
    return suite;
}
