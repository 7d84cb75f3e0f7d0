/* SPDX-License-Identifier: Apache-2.0 */
/* check_match.c - checks that index and scan give the same answer, and that an answer depends only
 * on the call. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/match.h"
#include "test/random.h"
#include "test/suites.h"

enum { SETS = 500, QUERIES = 2500 }; /* 1.25 million random queries */

static struct st_span random_span(struct t_random *random, uint64_t a, uint64_t b)
{
    switch (t_below(random, 4)) {
    case 0:
        return (struct st_span){0, UINT64_MAX};
    case 1:
        return (struct st_span){a, UINT64_MAX};
    case 2:
        return (struct st_span){0, a};
    default:
        return (struct st_span){a < b ? a : b, a < b ? b : a};
    }
}

static void random_rule(struct t_random *random, struct st_rule *rule)
{
    static const char *const gpu[] = {"", "", "NVIDIA H200", "NVIDIA *", "AMD*"};

    st_rule_clear(rule);
    rule->process = t_below(random, 16) == 0;
    rule->kernels = !rule->process && t_below(random, 16) == 0;
    rule->colls = 1u + (unsigned)t_below(random, 31);
    rule->bytes = random_span(random, t_size(random), t_size(random));
    rule->per_rank = t_below(random, 2);
    rule->reg = 1u + (unsigned)t_below(random, 3);
    if (t_below(random, 4) == 0)
        rule->ranks = random_span(random, 1ull + t_next(random) % 8, 1 + t_next(random) % 8);
    if (t_below(random, 4) == 0)
        rule->pipe_ops = random_span(random, t_next(random) % 4, t_next(random) % 4);
    if (t_below(random, 8) == 0)
        rule->nccl = random_span(random, 22800 + t_next(random) % 400, 23000);
    rule->links = t_below(random, 8) ? -1 : t_below(random, 2);
    strcpy(rule->gpu, gpu[t_below(random, 5)]);
}

static symtuner_rules *random_rules(struct t_random *random)
{
    symtuner_rules *rules = calloc(1, sizeof *rules);

    rules->count = 1 + t_below(random, t_below(random, 8) ? 24 : SYMTUNER_RULES_MAX);
    for (int i = 0; i < rules->count; i++)
        random_rule(random, &rules->rule[i]);
    return rules;
}

static struct st_group random_group(struct t_random *random)
{
    struct st_group group = {22800 + t_below(random, 400), 1 + t_below(random, 8),
                             1 + t_below(random, 2),
                             {"NVIDIA H200", 90, t_below(random, 2), t_below(random, 2),
                              t_below(random, 3)}};
    return group;
}

/* Return a size at an edge of some rule, or just below or above it, because a wrong index fails
 * there first. */
static uint64_t random_bytes(struct t_random *random, const symtuner_rules *rules)
{
    const struct st_rule *rule = &rules->rule[t_below(random, rules->count)];
    struct st_span span = st_rule_total_bytes(rule, SYMTUNER_ALLGATHER, 1 + t_below(random, 8));

    switch (t_below(random, 4)) {
    case 0:
        return span.lo + (uint64_t)t_below(random, 3) - 1;
    case 1:
        return span.hi + (uint64_t)t_below(random, 3) - 1;
    default:
        return t_size(random);
    }
}

START_TEST(test_index_and_scan_agree_on_random_rules)
{
    struct t_random random = {t_seed()};
    long sets = t_rounds(SETS), answered = 0;

    for (long s = 0; s < sets; s++) {
        symtuner_rules *rules = random_rules(&random);
        struct st_group group = random_group(&random);
        struct st_index *index = st_index_build(rules, &group);

        for (int q = 0; q < QUERIES; q++) {
            struct st_call call = {t_below(&random, SYMTUNER_COLLS), random_bytes(&random, rules),
                                   t_below(&random, 4), t_below(&random, 2)};
            const struct st_rule *scan = st_match(rules, 0, &group, &call);
            const struct st_rule *found = st_index_find(index, &call);

            answered += scan != NULL;
            t_check(scan == found,
                          "seed 0x%llx set %ld query %d: %s of %llu bytes: scan says rule %d, "
                          "index rule %d of %d", (unsigned long long)t_seed(), s, q,
                          symtuner_coll_name(call.coll), (unsigned long long)call.bytes,
                          scan ? (int)(scan - rules->rule) : -1,
                          found ? (int)(found - rules->rule) : -1, rules->count);
        }
        free(index);
        free(rules);
    }
    ck_assert_msg(answered > sets * QUERIES / 10 && answered < sets * QUERIES,
                  "the generator is lopsided: %ld of %ld queries had a rule", answered,
                  sets * QUERIES);
}
END_TEST

/* ---- edges ---------------------------------------------------------------------------------- */

static const struct {
    const char *rule;
    int coll, ranks;
    uint64_t bytes;
    int matches;
} edges[] = {
    {"any bytes=4096..8192", SYMTUNER_ALLREDUCE, 2, 4095, 0},
    {"any bytes=4096..8192", SYMTUNER_ALLREDUCE, 2, 4096, 1},
    {"any bytes=4096..8192", SYMTUNER_ALLREDUCE, 2, 8192, 1},
    {"any bytes=4096..8192", SYMTUNER_ALLREDUCE, 2, 8193, 0},
    {"any bytes=0", SYMTUNER_ALLREDUCE, 2, 0, 1},
    {"any bytes=0", SYMTUNER_ALLREDUCE, 2, 1, 0},
    /* converted to a float, 16777216 would be equal to 16777217 */
    {"any bytes=16777217", SYMTUNER_ALLREDUCE, 2, 16777216, 0},
    {"any bytes=16777217", SYMTUNER_ALLREDUCE, 2, 16777217, 1},
    {"any bytes=16777217", SYMTUNER_ALLREDUCE, 2, 16777218, 0},
    {"any bytes=18446744073709551615", SYMTUNER_ALLREDUCE, 2, UINT64_MAX, 1},
    {"any bytes=18446744073709551615", SYMTUNER_ALLREDUCE, 2, UINT64_MAX - 1, 0},
    {"any bytes=9223372036854775808..", SYMTUNER_ALLREDUCE, 2, INT64_MAX, 0},
    {"any bytes=9223372036854775808..", SYMTUNER_ALLREDUCE, 2, 1ull << 63, 1},
    {"any bytes-per-rank=4096", SYMTUNER_ALLREDUCE, 4, 4096, 1},
    {"any bytes-per-rank=4096", SYMTUNER_BROADCAST, 4, 16384, 0},
    {"any bytes-per-rank=4096", SYMTUNER_ALLGATHER, 4, 16383, 0},
    {"any bytes-per-rank=4096", SYMTUNER_ALLGATHER, 4, 16384, 1},
    /* 16387 bytes on 4 ranks are 4096 per rank, with a remainder */
    {"any bytes-per-rank=4096", SYMTUNER_REDUCESCATTER, 4, 16387, 1},
    {"any bytes-per-rank=4096", SYMTUNER_REDUCESCATTER, 4, 16388, 0},
    {"any bytes-per-rank=4096..", SYMTUNER_ALLGATHER, 8, UINT64_MAX, 1},
    {"any bytes-per-rank=9223372036854775808..", SYMTUNER_ALLGATHER, 8, UINT64_MAX, 0},
    {"any ranks=4", SYMTUNER_ALLREDUCE, 4, 1, 1},
    {"any ranks=4", SYMTUNER_ALLREDUCE, 5, 1, 0},
    {"reduce", SYMTUNER_REDUCESCATTER, 4, 1, 0},
    {"process sym-ctas=4", SYMTUNER_ALLREDUCE, 4, 1, 0},
};

START_TEST(test_both_ends_of_a_range_belong_to_it)
{
    struct st_group group = {22809, edges[_i].ranks, 1, {"", 0, -1, -1, 0}};
    struct st_call call = {edges[_i].coll, edges[_i].bytes, 1, false};
    char error[SYMTUNER_ERROR_MAX] = "";
    symtuner_rules *rules;
    struct st_index *index;

    ck_assert_msg(symtuner_rules_inline(edges[_i].rule, &rules, error, sizeof error) ==
                  SYMTUNER_OK, "%s", error);
    index = st_index_build(rules, &group);
    ck_assert_msg((st_match(rules, 0, &group, &call) != NULL) == edges[_i].matches,
                  "scan, row %d: %s", _i, edges[_i].rule);
    ck_assert_msg((st_index_find(index, &call) != NULL) == edges[_i].matches, "index, row %d: %s",
                  _i, edges[_i].rule);
    free(index);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_the_first_rule_in_file_order_wins)
{
    struct st_group group = {22809, 4, 1, {"", 0, -1, -1, 0}};
    symtuner_rules *rules;
    char error[SYMTUNER_ERROR_MAX];
    struct st_call call = {SYMTUNER_ALLREDUCE, 100, 2, false};

    symtuner_rules_inline("any bytes=50..60; any bytes=..200 pipe-ops=1; any bytes=90..110; any",
                          &rules, error, sizeof error);
    ck_assert_int_eq(st_match(rules, 0, &group, &call) - rules->rule, 2);
    call.pipe_ops = 1;
    ck_assert_int_eq(st_match(rules, 0, &group, &call) - rules->rule, 1);
    call.bytes = 55;
    ck_assert_int_eq(st_match(rules, 0, &group, &call) - rules->rule, 0);
    call.bytes = 201;
    ck_assert_int_eq(st_match(rules, 0, &group, &call) - rules->rule, 3);
    symtuner_rules_free(rules);
}
END_TEST

/* ---- purity --------------------------------------------------------------------------------- */

enum { ASKERS = 8, ASKED = 20000 };

static struct {
    struct st_index *index;
    struct st_call call[ASKED];
    const struct st_rule *answer[ASKED];
} shared;

/* Ask all questions in this thread's own order. Returns NULL if all answers are the known ones. */
static void *ask_in_own_order(void *argument)
{
    struct t_random random = {*(uint64_t *)argument};
    uintptr_t differ = 0;

    for (int i = 0; i < ASKED; i++) {
        int q = t_below(&random, ASKED);

        differ |= st_index_find(shared.index, &shared.call[q]) != shared.answer[q];
    }
    return (void *)differ;
}

START_TEST(test_answers_depend_on_no_order_and_no_thread)
{
    struct t_random random = {t_seed()};
    symtuner_rules *rules = random_rules(&random);
    struct st_group group = random_group(&random);
    pthread_t thread[ASKERS];
    uint64_t seed[ASKERS];

    shared.index = st_index_build(rules, &group);
    for (int i = 0; i < ASKED; i++) {
        shared.call[i] = (struct st_call){t_below(&random, SYMTUNER_COLLS),
                                          random_bytes(&random, rules), t_below(&random, 4),
                                          t_below(&random, 2)};
        shared.answer[i] = st_index_find(shared.index, &shared.call[i]);
    }
    for (int t = 0; t < ASKERS; t++) {
        seed[t] = t_next(&random) | 1;
        ck_assert_int_eq(pthread_create(&thread[t], NULL, ask_in_own_order, &seed[t]), 0);
    }
    for (int t = 0; t < ASKERS; t++) {
        void *differ;

        pthread_join(thread[t], &differ);
        ck_assert_ptr_null(differ);
    }
    free(shared.index);
    free(rules);
}
END_TEST

Suite *match_suite(void)
{
    Suite *suite = suite_create("match");
    TCase *index = tcase_create("index"), *order = tcase_create("order");

    tcase_set_timeout(index, 120);
    tcase_set_timeout(order, 60);
    tcase_add_test(index, test_index_and_scan_agree_on_random_rules);
    t_add_rows(index, test_both_ends_of_a_range_belong_to_it, edges);
    tcase_add_test(order, test_the_first_rule_in_file_order_wins);
    tcase_add_test(order, test_answers_depend_on_no_order_and_no_thread);
    suite_add_tcase(suite, index);
    suite_add_tcase(suite, order);
    return suite;
}
