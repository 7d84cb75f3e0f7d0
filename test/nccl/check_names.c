/* SPDX-License-Identifier: Apache-2.0 */
/* check_names.c - tests words and their numbers, and the nearest spelling of a wrong word. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "nccl/names.h"
#include "nccl/variables.h"
#include "symtuner.h"
#include "symtuner_why.h"
#include "test/suites.h"

START_TEST(test_names_follow_nccl_numbers)
{
    ck_assert_str_eq(symtuner_coll_name(0), "broadcast");
    ck_assert_str_eq(symtuner_coll_name(2), "allgather");
    ck_assert_str_eq(symtuner_coll_name(4), "allreduce");
    ck_assert_str_eq(symtuner_algo_name(1), "ring");
    ck_assert_str_eq(symtuner_algo_name(6), "pat");
    ck_assert_str_eq(symtuner_proto_name(2), "simple");
    ck_assert_str_eq(symtuner_status_text(SYMTUNER_EMISMATCH), "other machine");
}
END_TEST

START_TEST(test_every_name_reads_back_in_any_case)
{
    static const struct {
        const char *(*name)(int);
        int (*parse)(const char *);
        int count;
    } sets[] = {{symtuner_coll_name, symtuner_coll_parse, SYMTUNER_COLLS},
                {symtuner_algo_name, symtuner_algo_parse, SYMTUNER_ALGOS},
                {symtuner_proto_name, symtuner_proto_parse, SYMTUNER_PROTOS}};

    for (int number = 0; number < sets[_i].count; number++) {
        char loud[32] = "";
        const char *name = sets[_i].name(number);

        for (size_t c = 0; name[c]; c++)
            loud[c] = (char)toupper((unsigned char)name[c]);
        ck_assert_int_eq(sets[_i].parse(name), number);
        ck_assert_int_eq(sets[_i].parse(loud), number);
    }
    ck_assert_ptr_null(sets[_i].name(-1));
    ck_assert_ptr_null(sets[_i].name(sets[_i].count));
    ck_assert_int_eq(sets[_i].parse(""), -1);
    ck_assert_int_eq(sets[_i].parse("rin"), -1);
}
END_TEST

static const struct {
    const char *wrong, *meant; /* meant is NULL if no word is near enough */
} misspelt[] = {
    {"allredcue", "allreduce"},
    {"all-reduce", "allreduce"},
    {"alreduce", "allreduce"},
    {"ALLGATHR", "allgather"},
    {"brodcast", "broadcast"},
    {"reduce_scatter", "reducescatter"},
    {"redcue", "reduce"},
    {"x", NULL},
    {"", NULL},
    {"alltoall", NULL},
    {"send", NULL},
    {"ring", NULL},
    {"reducer", "reduce"},
    {"a-word-much-longer-than-any-of-our-own-words", NULL},
};

START_TEST(test_a_misspelt_word_finds_the_word_that_was_meant)
{
    const char *near = st_word_nearest(&st_colls, misspelt[_i].wrong, strlen(misspelt[_i].wrong));

    if (misspelt[_i].meant)
        ck_assert_msg(near && strcmp(near, misspelt[_i].meant) == 0, "\"%s\" gave \"%s\"",
                      misspelt[_i].wrong, near ? near : "nothing");
    else
        ck_assert_msg(!near, "\"%s\" gave \"%s\"", misspelt[_i].wrong, near);
}
END_TEST

/* Words that share only a prefix are not near each other. */
static const struct {
    const char *wrong, *meant;
} misspelt_variables[] = {
    {"SYMTUNER_AR_FOO", NULL},
    {"SYMTUNER_AR_LAGG", "SYMTUNER_AR_LAG"},
    {"SYMTUNER_AR_KERNLE", "SYMTUNER_AR_KERNEL"},
    {"SYMTUNER_AR_TAPS", NULL},
};

START_TEST(test_a_common_prefix_makes_no_word_near)
{
    const char *wrong = misspelt_variables[_i].wrong, *meant = misspelt_variables[_i].meant;
    const char *near = st_word_nearest(&st_kernel_variables, wrong, strlen(wrong));

    ck_assert_msg(meant ? near && strcmp(near, meant) == 0 : !near, "\"%s\" gave \"%s\"", wrong,
                  near ? near : "nothing");
}
END_TEST

static const struct {
    const char *word;
    int dtype;
} types[] = {
    {"f32", SYMTUNER_FLOAT32},
    {"BF16", SYMTUNER_BFLOAT16},
    {"float32", SYMTUNER_FLOAT32},
    {"fp32", SYMTUNER_FLOAT32},
    {"bfloat16", SYMTUNER_BFLOAT16},
    {"half", SYMTUNER_FLOAT16},
    {"float16", SYMTUNER_FLOAT16},
    {"fp16", SYMTUNER_FLOAT16},
    {"double", SYMTUNER_FLOAT64},
    {"int64", SYMTUNER_INT64},
    {"uint8", SYMTUNER_UINT8},
    {"float8_e4m3fn", SYMTUNER_FLOAT8E4M3},
    {"float8_e5m2", SYMTUNER_FLOAT8E5M2},
    {"torch.float32", SYMTUNER_FLOAT32},
    {"torch.long", SYMTUNER_INT64},
    {"jnp.bfloat16", SYMTUNER_BFLOAT16},
    {"ncclFloat8e4m3", SYMTUNER_FLOAT8E4M3},
    {"", -1},
    {"torch.", -1},
    {"float8_e4m3fnuz", -1},
    {"float", SYMTUNER_FLOAT32},
    {"jax.float3", -1},
    {NULL, -1},
};

START_TEST(test_types_are_read_as_nccl_and_frameworks_write_them)
{
    ck_assert_int_eq(symtuner_dtype_parse(types[_i].word), types[_i].dtype);
}
END_TEST

START_TEST(test_no_operator_is_unknown)
{
    ck_assert_int_eq(symtuner_op_parse(NULL), -1);
    ck_assert_int_eq(symtuner_op_parse("avg"), SYMTUNER_AVG);
}
END_TEST

Suite *names_suite(void)
{
    Suite *suite = suite_create("names");
    TCase *words = tcase_create("words"), *near = tcase_create("nearest spelling");

    tcase_add_test(words, test_names_follow_nccl_numbers);
    tcase_add_loop_test(words, test_every_name_reads_back_in_any_case, 0, 3);
    t_add_rows(near, test_a_misspelt_word_finds_the_word_that_was_meant, misspelt);
    t_add_rows(near, test_a_common_prefix_makes_no_word_near, misspelt_variables);
    t_add_rows(words, test_types_are_read_as_nccl_and_frameworks_write_them, types);
    tcase_add_test(words, test_no_operator_is_unknown);
    suite_add_tcase(suite, words);
    suite_add_tcase(suite, near);
    return suite;
}
