/* SPDX-License-Identifier: Apache-2.0 */
/* check_api.c - checks the API of include/symtuner.h: decisions, tables, explanations, and
 * hazards. */
#include <string.h>

#include "nccl/hazards.h"
#include "plugin/process.h"
#include "test/suites.h"
#include "test/tables.h"

static const struct symtuner_query usual = {
    .struct_size = sizeof usual, .nccl = 22809, .coll = SYMTUNER_ALLREDUCE, .bytes = 4096,
    .ranks = 8, .nodes = 1, .pipe_ops = 1, .machine = {"test box", 90, 1, 0, 8}};

static symtuner_rules *inlined(const char *text)
{
    char error[SYMTUNER_ERROR_MAX] = "";
    symtuner_rules *rules = NULL;

    ck_assert_msg(symtuner_rules_inline(text, &rules, error, sizeof error) == SYMTUNER_OK, "%s",
                  error);
    return rules;
}

START_TEST(test_a_decision_carries_all_of_its_rule)
{
    symtuner_rules *rules = inlined("process sym-ctas=12; reduce; allreduce bytes=..8KiB "
                                    "prefer=general:ring/ll forbid=pat channels=4");
    struct symtuner_decision d = {.struct_size = sizeof d};

    ck_assert_int_eq(symtuner_decide(rules, &usual, &d), SYMTUNER_OK);
    ck_assert_int_eq(d.rule, 2);
    ck_assert_int_eq(d.line, 1);
    ck_assert_str_eq(d.name, "inline:3");
    ck_assert_int_eq(d.prefer, SYMTUNER_GENERAL);
    ck_assert_int_eq(d.algo, SYMTUNER_RING);
    ck_assert_int_eq(d.proto, SYMTUNER_LL);
    ck_assert_uint_eq(d.forbid, 7u << 18);
    ck_assert_int_eq(d.process_ctas, 12);
    ck_assert_int_eq(d.channels, 4);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_without_a_rule_nccl_decides)
{
    struct symtuner_decision d = {.struct_size = sizeof d};
    float table[T_CELLS] = {1, 2, 3}, before[T_CELLS];
    int channels = 0;

    memcpy(before, table, sizeof table);
    ck_assert_int_eq(symtuner_decide(NULL, &usual, &d), SYMTUNER_OK);
    ck_assert_int_eq(d.rule, -1);
    ck_assert_int_eq(d.line, 0);
    ck_assert_str_eq(d.name, "");
    ck_assert_int_eq(d.prefer, SYMTUNER_LEAVE);
    ck_assert_int_eq(d.process_ctas, 0);
    ck_assert_int_eq(symtuner_table_apply(&d, &usual, table, T_ALGOS, T_PROTOS, &channels), 0);
    ck_assert(memcmp(table, before, sizeof table) == 0);
}
END_TEST

#define BUT(member, value)                                                                         \
    {                                                                                              \
        .struct_size = sizeof(struct symtuner_query), .nccl = 22809, .coll = SYMTUNER_ALLREDUCE,   \
        .bytes = 4096, .ranks = 8, .nodes = 1, .pipe_ops = 1, .machine = {"", 0, -1, -1, 0},       \
        .member = value                                                                            \
    }
/* in the table below, BUT initializes a member twice on purpose; the later value counts */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Woverride-init"
#pragma GCC diagnostic ignored "-Winitializer-overrides"
static const struct symtuner_query refused[] = {
    BUT(struct_size, sizeof(struct symtuner_query) + 8), BUT(struct_size, 0), BUT(nccl, 22699),
    BUT(nccl, 0),
    BUT(coll, SYMTUNER_COLLS), BUT(coll, (enum symtuner_coll)-1), BUT(ranks, 0), BUT(ranks, -4),
    BUT(nodes, 0), BUT(pipe_ops, -1),
};
#pragma GCC diagnostic pop

START_TEST(test_a_query_out_of_range_is_refused)
{
    struct symtuner_decision d = {.struct_size = sizeof d, .rule = 77};

    ck_assert_int_eq(symtuner_decide(NULL, &refused[_i], &d), SYMTUNER_EINVAL);
    ck_assert_int_eq(d.rule, 77); /* a function writes its outputs only if it succeeds */
}
END_TEST

START_TEST(test_an_older_caller_s_smaller_decision_is_not_overrun)
{
    struct symtuner_decision d = {.struct_size = offsetof(struct symtuner_decision, channels),
                                  .channels = 99};
    symtuner_rules *rules = inlined("allreduce channels=4 prefer=symmetric");

    ck_assert_int_eq(symtuner_decide(rules, &usual, &d), SYMTUNER_OK);
    ck_assert_int_eq(d.prefer, SYMTUNER_SYMMETRIC);
    ck_assert_int_eq(d.channels, 99);
    d.struct_size = sizeof d + 1; /* the library refuses a struct that is newer than itself */
    ck_assert_int_eq(symtuner_decide(rules, &usual, &d), SYMTUNER_EINVAL);
    symtuner_rules_free(rules);
}
END_TEST

/* A caller that was compiled before the member no_defaults existed passes a smaller struct. The
 * library must not read beyond its end. */
START_TEST(test_an_older_caller_s_smaller_query_is_answered)
{
    struct symtuner_query older = usual;
    struct symtuner_decision d = {.struct_size = sizeof d};

    older.struct_size = offsetof(struct symtuner_query, no_defaults);
    older.no_defaults = 1;
    older.machine = (struct symtuner_machine){"NVIDIA H200", 90, 1, 0, 2};
    ck_assert_int_eq(symtuner_decide(NULL, &older, &d), SYMTUNER_OK);
    ck_assert_int_gt(d.min_ctas, 0);
    older.struct_size = sizeof older;
    ck_assert_int_eq(symtuner_decide(NULL, &older, &d), SYMTUNER_OK);
    ck_assert_int_eq(d.min_ctas, 0);
}
END_TEST

START_TEST(test_a_probe_counts_the_bytes_of_one_rank)
{
    symtuner_rules *rules = inlined("allgather bytes=32768 prefer=symmetric");
    struct symtuner_decision d = {.struct_size = sizeof d};
    struct symtuner_query query = usual;

    query.coll = SYMTUNER_ALLGATHER;
    query.nccl = 23102;
    query.pipe_ops = 0;
    symtuner_decide(rules, &query, &d);
    ck_assert_int_eq(d.rule, 0); /* 4096 bytes from each of 8 ranks */
    query.nccl = 22907; /* this release has no probes, so 4096 is the size of the whole call */
    symtuner_decide(rules, &query, &d);
    ck_assert_int_eq(d.rule, -1);
    symtuner_rules_free(rules);
}
END_TEST

static const struct {
    const char *rule;
    int changed;
} applied[] = {
    {"allreduce prefer=general:ring/ll", 1}, {"allreduce channels=4", 1},
    {"allreduce forbid=tree/ll", 1},         {"allreduce forbid=pat/simple", 1},
    {"allreduce", 0},                        {"reduce channels=4", 0},
    {"allreduce forbid=nvls", 0}, /* NVLS is not available in the table */
};

START_TEST(test_apply_says_of_each_kind_that_it_changed_something)
{
    symtuner_rules *rules = inlined(applied[_i].rule);
    struct symtuner_decision d = {.struct_size = sizeof d};
    float table[T_CELLS] = {8, 9, 10, 6, 7, 12, 5};
    int channels = 0;

    for (int i = 7; i < T_CELLS; i++)
        table[i] = i == T_CELLS - 1 ? 99.0f : -1.0f;
    symtuner_decide(rules, &usual, &d);
    ck_assert_int_eq(symtuner_table_apply(&d, &usual, table, T_ALGOS, T_PROTOS, &channels),
                     applied[_i].changed);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_apply_says_whether_anything_changed)
{
    symtuner_rules *rules = inlined("allreduce prefer=general:ring/ll channels=4");
    struct symtuner_decision d = {.struct_size = sizeof d};
    float table[T_CELLS] = {8, 9, 10, 6, 7, 12, 5};
    int channels = 0;

    for (int i = 7; i < T_CELLS; i++)
        table[i] = -1.0f;
    symtuner_decide(rules, &usual, &d);
    ck_assert_int_eq(symtuner_table_apply(&d, &usual, table, T_ALGOS, T_PROTOS, &channels), 1);
    ck_assert(table[3] == 6.0f && table[6] == 12.0f);
    ck_assert_int_eq(channels, 4);
    ck_assert_int_eq(symtuner_table_apply(&d, &usual, table, T_ALGOS, T_PROTOS, &channels), 0);
    /* applying a rule a second time changes nothing more */
    ck_assert(table[3] == 6.0f && table[6] == 12.0f);
    symtuner_rules_free(rules);
}
END_TEST

static const struct {
    int nccl;
    float table[T_CELLS];
    int taken, algo, proto;
} picks[] = {
    {22809, {3, 2, 1}, 1, 0, 0},
    {22809, {-1, -1, -1, -1, 5, 5, -1, -1, -1, -1, -1, -1, -1, -1, 5, -1, -1, -1, -1, -1, -1}, 1,
     SYMTUNER_RING, SYMTUNER_LL128},
    {23102, {-1, -1, -1, -1, 5, 5, -1, -1, -1, -1, -1, -1, -1, -1, 5, -1, -1, -1, -1, -1, -1}, 1,
     SYMTUNER_NVLS, SYMTUNER_SIMPLE},
};

START_TEST(test_pick_takes_what_the_release_takes)
{
    int algo = -7, proto = -7;
    float none[T_CELLS];

    if (_i == 0) { /* the table has no entry that NCCL could take */
        for (int i = 0; i < T_CELLS; i++)
            none[i] = i % 2 ? -1.0f : INFINITY;
        ck_assert_int_eq(symtuner_table_pick(22809, none, T_ALGOS, T_PROTOS, &algo, &proto), 0);
        ck_assert_int_eq(algo, -7);
        return;
    }
    ck_assert_int_eq(symtuner_table_pick(picks[_i].nccl, picks[_i].table, T_ALGOS, T_PROTOS, &algo,
                                         &proto), picks[_i].taken);
    ck_assert_int_eq(algo, picks[_i].algo);
    ck_assert_int_eq(proto, picks[_i].proto);
}
END_TEST

/* ---- explain -------------------------------------------------------------------------------- */

static const struct {
    const char *rule;
    int nccl;
    const char *says;
} explained[] = {
    {"reduce", 22809, "No rule covers allreduce of 4096 bytes on 8 ranks: NCCL 2.28.9 decides."},
    {"allreduce", 22809, "leaves algorithm and protocol alone."},
    {"allreduce prefer=general:ring/ll", 22809, "makes ring/ll the cheapest entry"},
    {"allreduce prefer=general:*/ll", 22809, "makes */ll the cheapest entry"},
    {"allreduce prefer=general:*/simple", 22809, "makes */simple the cheapest entry"},
    {"allreduce prefer=symmetric", 22809, "the table stays as it is"},
    {"allreduce prefer=symmetric", 22902,
     "so that NCCL keeps an LL symmetric kernel if it picked one."},
    {"allreduce prefer=symmetric", 22907, "if it picked one and one side is registered."},
    {"allreduce prefer=symmetric", 23102, "only the LL probe is answered"},
    {"allreduce channels=8", 22809, "Gives general kernels 8 channels."},
    {"allreduce channels=8", 23102, "Caps general kernels at 8 channels."},
    {"allreduce forbid=pat", 22809, "Forbids pat/ll. Forbids pat/ll128. Forbids pat/simple."},
    {"process sym-ctas=16", 22809, "Symmetric kernels of the process get 16 CTAs."},
    {"process gpus=8 sym-ctas=12", 22809, "Symmetric kernels of the process get 12 CTAs."},
    {"process gpus=..7 sym-ctas=12", 22809, "Symmetric kernels get NCCL's own CTA count."},
};

START_TEST(test_an_explanation_says_what_the_release_allows)
{
    symtuner_rules *rules = inlined(explained[_i].rule);
    struct symtuner_decision d = {.struct_size = sizeof d};
    struct symtuner_query query = usual;
    char text[4096];
    int length;

    query.nccl = explained[_i].nccl;
    symtuner_decide(rules, &query, &d);
    length = symtuner_explain(rules, &query, &d, text, sizeof text);
    ck_assert_msg(strstr(text, explained[_i].says), "\"%s\" not in: %s", explained[_i].says, text);
    ck_assert_uint_eq(strlen(text), (size_t)length);
    /* the text must fit any buffer: it is cut, and nothing is written beyond the buffer's end */
    for (size_t size = 0; size <= (size_t)length + 1; size += 7) {
        char small[4096];

        memset(small, 'z', sizeof small);
        ck_assert_int_eq(symtuner_explain(rules, &query, &d, small, size), length);
        ck_assert_int_eq(small[size], 'z');
        ck_assert(size == 0 || strncmp(small, text, strlen(small)) == 0);
    }
    symtuner_rules_free(rules);
}
END_TEST

/* These tests compare the whole text, because a sentence about one preference must not appear for
 * another. */
static const struct {
    const char *rule;
    int nccl;
    const char *text;
} explained_whole[] = {
#define COVERS "Rule \"inline:1\" (SYMTUNER_RULE:1) covers allreduce of 4096 bytes on 8 ranks. "
#define COUNT  " Symmetric kernels get NCCL's own CTA count."
    {"reduce", 22809,
     "No rule covers allreduce of 4096 bytes on 8 ranks: NCCL 2.28.9 decides." COUNT},
    {"allreduce", 22809,
     COVERS "On NCCL 2.28.9 it leaves algorithm and protocol alone." COUNT},
    {"allreduce prefer=symmetric", 22809,
     COVERS "On NCCL 2.28.9 it prefers a symmetric kernel: NCCL runs one whenever both buffers "
     "are registered, and never otherwise, so the table stays as it is." COUNT},
    {"allreduce prefer=general:tree", 22809,
     COVERS "On NCCL 2.28.9 it makes tree/* the cheapest entry where NCCL offers it." COUNT},
    {"allreduce forbid=pat/ll,tree/simple", 22809,
     COVERS "On NCCL 2.28.9 it leaves algorithm and protocol alone. Forbids tree/simple. Forbids "
     "pat/ll." COUNT},
    {"allreduce prefer=general:ring channels=3; process sym-ctas=4", 22809,
     COVERS "On NCCL 2.28.9 it makes ring/* the cheapest entry where NCCL offers it. Gives general "
     "kernels 3 channels. Symmetric kernels of the process get 4 CTAs."},
};

START_TEST(test_an_explanation_says_that_and_no_more)
{
    symtuner_rules *rules = inlined(explained_whole[_i].rule);
    struct symtuner_decision d = {.struct_size = sizeof d};
    struct symtuner_query query = usual;
    char text[4096];

    query.nccl = explained_whole[_i].nccl;
    symtuner_decide(rules, &query, &d);
    symtuner_explain(rules, &query, &d, text, sizeof text);
    ck_assert_str_eq(text, explained_whole[_i].text);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_one_rank_is_one_rank)
{
    symtuner_rules *rules = inlined("allreduce; process sym-ctas=4");
    struct symtuner_decision d = {.struct_size = sizeof d};
    struct symtuner_query query = usual;
    char text[4096];

    query.ranks = 1;
    symtuner_decide(rules, &query, &d);
    symtuner_explain(rules, &query, &d, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, " on 1 rank. "));
    query.coll = SYMTUNER_REDUCE;
    symtuner_decide(rules, &query, &d);
    symtuner_explain(rules, &query, &d, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, " on 1 rank: NCCL"));
    symtuner_rules_free(rules);
}
END_TEST

/* ---- NULL ------------------------------------------------------------------------------------ */

START_TEST(test_null_is_an_answer_and_never_a_crash)
{
    struct symtuner_decision d = {.struct_size = sizeof d};
    struct symtuner_kernel_query kernel = {.struct_size = sizeof kernel, .ranks = 2};
    char error[SYMTUNER_ERROR_MAX] = "";
    symtuner_rules *rules = NULL;
    uint64_t bytes;

    ck_assert_int_eq(symtuner_rules_load(NULL, &rules, error, sizeof error), SYMTUNER_EINVAL);
    ck_assert_str_eq(error, "path is NULL");
    ck_assert_int_eq(symtuner_rules_load_csv(NULL, &rules, NULL, 0), SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_rules_load("docs/example.rules", NULL, error, sizeof error),
                     SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_rules_parse(NULL, "t", &rules, error, 9), SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_rules_parse("", NULL, &rules, error, 9), SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_rules_inline(NULL, &rules, error, 9), SYMTUNER_EINVAL);
    /* if ${error} is NULL, the caller wants no text, whatever the size */
    ck_assert_int_eq(symtuner_rules_load("/nonexistent", &rules, NULL, 99), SYMTUNER_EIO);
    ck_assert_int_eq(symtuner_rules_inline("x", &rules, NULL, 99), SYMTUNER_ESYNTAX);
    ck_assert_ptr_null(rules);
    ck_assert_int_eq(symtuner_rules_count(NULL), 0);
    ck_assert_int_eq(symtuner_rules_lint(NULL, 0, error, sizeof error), 0);
    ck_assert_int_eq(symtuner_rules_fit(NULL, 22809, &usual.machine, NULL, 9), SYMTUNER_OK);
    ck_assert_int_eq(symtuner_rules_fit(NULL, 22809, NULL, NULL, 9), SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_rules_fit(NULL, 22809, NULL, error, sizeof error), SYMTUNER_EINVAL);
    ck_assert_str_eq(error, "machine is NULL");
    ck_assert_int_eq(symtuner_decide(NULL, NULL, &d), SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_decide(NULL, &usual, NULL), SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_kernel_decide(NULL, &kernel, NULL), SYMTUNER_EINVAL);
    ck_assert_int_eq(symtuner_size_parse(NULL, &bytes, NULL, 9), -1);
    ck_assert_int_eq(symtuner_coll_parse(NULL), -1);
    ck_assert_int_eq(symtuner_algo_parse(NULL), -1);
    ck_assert_int_eq(symtuner_proto_parse(NULL), -1);
}
END_TEST

/* ---- hazards, defaults ---------------------------------------------------------------------- */

static const struct {
    int nccl, count;
} dangers[] = {
    {22702, 0}, {22707, 2}, {22802, 2}, {22803, 3}, {22906, 3}, {22907, 2}, {23003, 2},
    {23006, 2}, {23007, 1}, {23101, 1}, {23102, 2}, {23200, 2}, {23203, 2}, {23206, 2},
};

START_TEST(test_each_release_names_its_own_hazards)
{
    int count = 0;

    while (st_hazard_get(dangers[_i].nccl, count))
        count++;
    ck_assert_msg(count == dangers[_i].count, "NCCL %d: %d hazards", dangers[_i].nccl, count);
}
END_TEST

/* Only boxes that were measured have a default. */
static const struct {
    int nccl, ctas;
    struct symtuner_machine machine;
} boxes[] = {
    {22809, 16, {"NVIDIA H200", 90, 1, 0, 2}},  {22809, 0, {"NVIDIA H200", 90, 1, 0, 4}},
    {22809, 0, {"NVIDIA H200", 90, 1, 0, 8}},   {22809, 0, {"NVIDIA H200", 90, 1, 0, 1}},
    {22809, 0, {"NVIDIA H200", 90, 1, 0, 0}},   {22809, 0, {"NVIDIA H200", 90, 1, 1, 2}},
    {22809, 0, {"NVIDIA H200", 90, 1, -1, 2}},  {22809, 0, {"NVIDIA H200", 90, 0, 0, 2}},
    {22809, 0, {"NVIDIA H200", 90, -1, 0, 2}},  {22809, 0, {"NVIDIA H100", 90, 1, 0, 2}},
    {22809, 0, {"NVIDIA H200 NVL", 90, 1, 0, 2}}, {22809, 0, {"", 0, -1, -1, 0}},
    {22907, 16, {"NVIDIA H200", 90, 1, 0, 2}},  {23007, 16, {"NVIDIA H200", 90, 1, 0, 2}},
    {23102, 16, {"NVIDIA H200", 90, 1, 0, 2}},  {23203, 16, {"NVIDIA H200", 90, 1, 0, 2}},
    {23206, 0, {"NVIDIA H200", 90, 1, 0, 2}},   {23102, 0, {"NVIDIA H200", 90, 1, 0, 4}},
    {22807, 0, {"NVIDIA H200", 90, 1, 0, 2}},   {22902, 0, {"NVIDIA H200", 90, 1, 0, 2}},
    {23004, 0, {"NVIDIA H200", 90, 1, 0, 2}},   {0, 0, {"NVIDIA H200", 90, 1, 0, 2}},
};

START_TEST(test_the_built_in_count_is_given_where_it_was_measured)
{
    struct symtuner_query query = usual;
    struct symtuner_decision d = {.struct_size = sizeof d};

    ck_assert_int_eq(st_default_ctas(boxes[_i].nccl, &boxes[_i].machine), boxes[_i].ctas);
    if (!boxes[_i].nccl)
        return;
    query.nccl = boxes[_i].nccl;
    query.machine = boxes[_i].machine;
    ck_assert_int_eq(symtuner_decide(NULL, &query, &d), SYMTUNER_OK);
    ck_assert_int_eq(d.min_ctas, boxes[_i].ctas);
    ck_assert_int_eq(d.process_ctas, 0);
}
END_TEST

START_TEST(test_the_built_in_count_is_told_in_full)
{
    const char *text = symtuner_defaults_text();
    symtuner_rules *rules = NULL;
    char error[SYMTUNER_ERROR_MAX];

    ck_assert_ptr_nonnull(strstr(text, "NCCL_MIN_CTAS=16"));
    ck_assert_ptr_nonnull(strstr(text, "2 x NVIDIA H200, NVLink, no multicast, NCCL 2.28.9\n"));
    /* read as a rules file, the text has no rule and no error */
    ck_assert_int_eq(symtuner_rules_parse(text, "t", &rules, error, sizeof error), SYMTUNER_OK);
    ck_assert_int_eq(symtuner_rules_count(rules), 0);
    symtuner_rules_free(rules);
}
END_TEST

Suite *api_suite(void)
{
    Suite *suite = suite_create("api");
    TCase *decide = tcase_create("decide"), *table = tcase_create("table");
    TCase *explain = tcase_create("explain"), *known = tcase_create("built in");

    tcase_add_test(decide, test_a_decision_carries_all_of_its_rule);
    tcase_add_test(decide, test_without_a_rule_nccl_decides);
    t_add_rows(decide, test_a_query_out_of_range_is_refused, refused);
    tcase_add_test(decide, test_an_older_caller_s_smaller_decision_is_not_overrun);
    tcase_add_test(decide, test_an_older_caller_s_smaller_query_is_answered);
    tcase_add_test(decide, test_a_probe_counts_the_bytes_of_one_rank);
    t_add_rows(table, test_apply_says_of_each_kind_that_it_changed_something, applied);
    tcase_add_test(table, test_apply_says_whether_anything_changed);
    t_add_rows(table, test_pick_takes_what_the_release_takes, picks);
    t_add_rows(explain, test_an_explanation_says_what_the_release_allows, explained);
    t_add_rows(explain, test_an_explanation_says_that_and_no_more, explained_whole);
    tcase_add_test(explain, test_one_rank_is_one_rank);
    tcase_add_test(known, test_null_is_an_answer_and_never_a_crash);
    t_add_rows(known, test_each_release_names_its_own_hazards, dangers);
    t_add_rows(known, test_the_built_in_count_is_given_where_it_was_measured, boxes);
    tcase_add_test(known, test_the_built_in_count_is_told_in_full);
    suite_add_tcase(suite, decide);
    suite_add_tcase(suite, table);
    suite_add_tcase(suite, explain);
    suite_add_tcase(suite, known);
    return suite;
}
