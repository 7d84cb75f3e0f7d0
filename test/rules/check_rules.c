/* SPDX-License-Identifier: Apache-2.0 */
/* check_rules.c - checks rules texts at their limits, the hash of rules, and rules from several
 * sources. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules/reader.h"
#include "test/suites.h"

static char error[SYMTUNER_ERROR_MAX];

static enum symtuner_status parse(const char *text, symtuner_rules **rules)
{
    *rules = NULL;
    error[0] = '\0';
    return symtuner_rules_parse(text, "t", rules, error, sizeof error);
}

static symtuner_rules *parsed(const char *text)
{
    symtuner_rules *rules;

    ck_assert_msg(parse(text, &rules) == SYMTUNER_OK, "%s", error);
    return rules;
}

static void refused(const char *text, const char *want)
{
    symtuner_rules *rules;

    ck_assert_int_eq(parse(text, &rules), SYMTUNER_ESYNTAX);
    ck_assert_ptr_null(rules);
    ck_assert_str_eq(error, want);
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Return a text with ${count} rules of about 16 bytes each. */
static char *many_rules(int count)
{
    char *text = malloc((size_t)count * 32 + 1), *at = text;

    *at = '\0';
    for (int i = 0; i < count; i++)
        at += sprintf(at, "[rule r%d]\ncoll = any\n", i);
    return text;
}

START_TEST(test_256_rules_are_read_and_257_are_not)
{
    char *text = many_rules(SYMTUNER_RULES_MAX);
    symtuner_rules *rules = parsed(text);

    ck_assert_int_eq(symtuner_rules_count(rules), 256);
    ck_assert_str_eq(rules->rule[255].name, "r255");
    symtuner_rules_free(rules);
    free(text);
    text = many_rules(SYMTUNER_RULES_MAX + 1);
    refused(text, "t:513:1: more than 256 rules; merge some");
    free(text);
}
END_TEST

/* Return "[rule a]\n" and a comment line of ${length} bytes. */
static char *long_line(size_t length)
{
    char *text = malloc(length + 16);

    sprintf(text, "[rule a]\n#%0*d\n", (int)length - 1, 0);
    return text;
}

START_TEST(test_a_line_of_4096_bytes_is_read_and_one_of_4097_is_not)
{
    char *text = long_line(SYMTUNER_LINE_MAX);

    symtuner_rules_free(parsed(text));
    free(text);
    text = long_line(SYMTUNER_LINE_MAX + 1);
    refused(text, "t:2:4097: the line is longer than 4096 bytes; split it");
    free(text);
}
END_TEST

START_TEST(test_a_name_of_63_bytes_is_kept_and_one_of_64_is_refused)
{
    char text[128];
    symtuner_rules *rules;

    sprintf(text, "[rule %063d]\n", 7);
    rules = parsed(text);
    ck_assert_uint_eq(strlen(rules->rule[0].name), 63);
    symtuner_rules_free(rules);
    sprintf(text, "[rule %064d]\n", 7);
    refused(text, "t:1:7: a rule has a name of 1 to 63 bytes: [rule NAME]");
}
END_TEST

START_TEST(test_a_gpu_of_95_bytes_is_kept_and_one_of_96_is_refused)
{
    char text[160];
    symtuner_rules *rules;

    sprintf(text, "[rule a]\ngpu = %095d\n", 7);
    rules = parsed(text);
    ck_assert_uint_eq(strlen(rules->rule[0].gpu), 95);
    symtuner_rules_free(rules);
    sprintf(text, "[rule a]\ngpu = %096d\n", 7);
    refused(text, "t:2:7: a GPU name has 1 to 95 bytes");
}
END_TEST

/* Return comment lines of ${size} bytes in all. */
static char *large_text(size_t size)
{
    char *text = malloc(size + 1);

    for (size_t i = 0; i < size; i++)
        text[i] = i % 64 == 63 ? '\n' : '#';
    text[size] = '\0';
    return text;
}

START_TEST(test_a_text_of_1_mib_is_read_and_a_byte_more_is_not)
{
    char *text = large_text(SYMTUNER_TEXT_MAX);

    symtuner_rules_free(parsed(text));
    free(text);
    text = large_text(SYMTUNER_TEXT_MAX + 1);
    refused(text, "t: larger than 1 MiB");
    free(text);
}
END_TEST

START_TEST(test_a_file_of_1_mib_is_read_and_a_byte_more_is_not)
{
    char path[] = "/tmp/symtuner-check-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    char *text = large_text(SYMTUNER_TEXT_MAX);
    symtuner_rules *rules = NULL;

    fputs(text, file);
    fflush(file);
    ck_assert_int_eq(symtuner_rules_load(path, &rules, error, sizeof error), SYMTUNER_OK);
    symtuner_rules_free(rules);
    rules = NULL;
    fputc('\n', file);
    fclose(file);
    ck_assert_int_eq(symtuner_rules_load(path, &rules, error, sizeof error), SYMTUNER_ESYNTAX);
    ck_assert_ptr_null(rules);
    ck_assert_ptr_nonnull(strstr(error, ": larger than 1 MiB"));
    unlink(path);
    free(text);
}
END_TEST

START_TEST(test_a_nul_byte_in_a_file_is_named)
{
    char path[] = "/tmp/symtuner-check-XXXXXX";
    int fd = mkstemp(path);
    symtuner_rules *rules;

    ck_assert_int_eq(write(fd, "[rule a]\ncoll\0= any\n", 20), 20);
    close(fd);
    ck_assert_int_eq(symtuner_rules_load(path, &rules, error, sizeof error), SYMTUNER_ESYNTAX);
    unlink(path);
    ck_assert_msg(strstr(error, ":2:5: a NUL byte: is this a text file?"), "%s", error);
}
END_TEST

START_TEST(test_every_error_fits_the_buffer_that_the_header_names)
{
    char text[4096], name[1024];
    symtuner_rules *rules;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memset(text, 'w', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "[rule a]\ncoll = ", 16);
    error[sizeof error - 1] = 'x';
    ck_assert_int_eq(symtuner_rules_parse(text, name, &rules, error, sizeof error),
                     SYMTUNER_ESYNTAX);
    ck_assert_uint_lt(strlen(error), SYMTUNER_ERROR_MAX - 1); /* no part of the text was cut off */
    for (size_t size = 0; size < 64; size++) { /* the function never writes beyond a small buffer */
        memset(error, 'z', sizeof error);
        symtuner_rules_parse(text, "t", &rules, error, size);
        ck_assert_int_eq(error[size], 'z');
        ck_assert(size == 0 || memchr(error, 0, size));
    }
}
END_TEST

/* ---- hash ----------------------------------------------------------------------------------- */

static const char base[] = "[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\n";

static const struct {
    const char *text;
    int same; /* 1: the hash is the same as that of ${base} */
} hashed[] = {
    {"# other layout\n[rule b]\nprefer=symmetric\nbytes=1024..1048576\ncoll=allreduce", 1},
    {"[provenance]\nmade-by = me\n[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\n"
     "prefer = symmetric\n", 1},
    {"", 0},
    {"[rule a]\ncoll = reduce\nbytes = 1KiB..1MiB\nprefer = symmetric\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 2KiB..1MiB\nprefer = symmetric\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..2MiB\nprefer = symmetric\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes-per-rank = 1KiB..1MiB\nprefer = symmetric\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = general:*/simple\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nranks = 2\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nnodes = 1\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\npipe-ops = 1\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nnccl = 2.28\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nregistered = yes\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nlinks = pcie\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nmulticast = no\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\ngpu = a\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nforbid = pat\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\n[process]\n", 0},
    {"[rule a]\ncoll = allreduce\nbytes = 1KiB..1MiB\nprefer = symmetric\nchannels = 4\n", 0},
};

START_TEST(test_equal_meaning_gives_an_equal_hash_and_only_that)
{
    symtuner_rules *a = parsed(base), *b = parsed(hashed[_i].text);

    ck_assert_msg((symtuner_rules_hash(a) == symtuner_rules_hash(b)) == hashed[_i].same,
                  "row %d: %s", _i, hashed[_i].text);
    symtuner_rules_free(a);
    symtuner_rules_free(b);
}
END_TEST

/* Both the conditions and the actions of [process] sections change the hash. */
START_TEST(test_process_sections_count_in_the_hash)
{
    static const char *const text[] = {"[process]\nsym-ctas = 4\n", "[process]\nsym-ctas = 8\n",
                                       "[process]\ngpus = 2\nsym-ctas = 4\n",
                                       "[process]\ngpus = ..2\nsym-ctas = 4\n",
                                       "[process]\ngpus = 2..\nsym-ctas = 4\n"};
    enum { TEXTS = sizeof text / sizeof *text };
    uint64_t hash[TEXTS];

    for (int i = 0; i < TEXTS; i++) {
        symtuner_rules *rules = parsed(text[i]);

        hash[i] = symtuner_rules_hash(rules);
        symtuner_rules_free(rules);
        for (int j = 0; j < i; j++)
            ck_assert_msg(hash[i] != hash[j], "%s and %s", text[i], text[j]);
    }
}
END_TEST

/* Two values for every key, except for "made-by". */
static const struct {
    const char *key, *value[2];
} values[] = {
    {"coll", {"allreduce", "allgather"}},
    {"bytes", {"1KiB..", "..1KiB"}},
    {"bytes-per-rank", {"1KiB..", "..1KiB"}},
    {"ranks", {"2", "4"}},
    {"nodes", {"1", "2"}},
    {"pipe-ops", {"1", "2"}},
    {"nccl", {"2.28", "2.29"}},
    {"registered", {"yes", "no"}},
    {"links", {"pcie", "nvlink"}},
    {"multicast", {"yes", "no"}},
    {"prefer", {"general:ring/ll", "general:ring/simple"}},
    {"forbid", {"pat", "tree"}},
    {"sym-ctas", {"4", "8"}},
    {"channels", {"4", "8"}},
    {"gpu", {"a", "b"}},
    {"gpus", {"2", "2.."}},
    {"dtype", {"f32", "f16"}},
    {"op", {"sum", "max"}},
    {"kernel", {"one_ll8", "two_ll8"}},
    {"ctas", {"2", "4"}},
    {"threads", {"64", "96"}},
    {"beside", {"alone", "compute"}},
    {"when-beside", {"alone", "alone, compute"}},
    {"network-pieces", {"0", "64"}},
};

/* Return the hash of "${head}", with the line "${key} = ${value}" unless ${value} is NULL. */
static uint64_t hash_with(const char *head, const char *key, const char *value)
{
    char text[200];
    symtuner_rules *rules;
    uint64_t hash;

    snprintf(text, sizeof text, value ? "%s%s = %s\n" : "%s", head, key, value);
    rules = parsed(text);
    hash = symtuner_rules_hash(rules);
    symtuner_rules_free(rules);
    return hash;
}

START_TEST(test_every_key_of_the_table_counts_in_the_hash)
{
    static const struct {
        int where;
        const char *head;
    } sections[] = {{ST_IN_PROCESS, "[process]\n"},
                    {ST_IN_RULE, "[rule a]\n"},
                    {ST_IN_KERNELS, "[kernels a]\n"}};

    for (const struct st_key *key = st_keys; key->word; key++) {
        size_t row = 0, rows = sizeof values / sizeof *values;

        while (row < rows && strcmp(values[row].key, key->word) != 0)
            row++;
        for (size_t s = 0; s < sizeof sections / sizeof *sections; s++) {
            uint64_t none, one, other;

            if (!(key->where & sections[s].where))
                continue;
            ck_assert_msg(row < rows, "%s: give it two values in this test", key->word);
            none = hash_with(sections[s].head, key->word, NULL);
            one = hash_with(sections[s].head, key->word, values[row].value[0]);
            other = hash_with(sections[s].head, key->word, values[row].value[1]);
            ck_assert_msg(none != one && none != other && one != other, "%s%s", sections[s].head,
                          key->word);
        }
    }
}
END_TEST

/* ---- several sources ------------------------------------------------------------------------ */

START_TEST(test_rules_of_a_second_source_follow_those_of_the_first)
{
    symtuner_rules *first, *second = parsed("[provenance]\ngpu = B\n[rule two]\ncoll = reduce\n");
    struct symtuner_machine machine = {"A", 90, 1, 0, 0};

    ck_assert_int_eq(symtuner_rules_inline("allreduce prefer=symmetric", &first, error,
                                           sizeof error), SYMTUNER_OK);
    ck_assert(st_rules_append(first, second));
    ck_assert_int_eq(first->count, 2);
    ck_assert_str_eq(first->rule[1].name, "two");
    ck_assert_str_eq(first->source[first->rule[0].source], "SYMTUNER_RULE");
    ck_assert_str_eq(first->source[first->rule[1].source], "t");
    ck_assert(first->has_provenance);
    ck_assert_int_eq(symtuner_rules_fit(first, 22809, &machine, error, sizeof error),
                     SYMTUNER_EMISMATCH);
    ck_assert_msg(strncmp(error, "t:1:1: ", 7) == 0, "the wrong source is named: %s", error);
    symtuner_rules_free(first);
    symtuner_rules_free(second);
}
END_TEST

START_TEST(test_too_many_rules_from_two_sources_are_refused_whole)
{
    char *text = many_rules(200);
    symtuner_rules *first = parsed(text), *second = parsed(text);

    ck_assert(!st_rules_append(first, second));
    ck_assert_int_eq(first->count, 200);
    symtuner_rules_free(first);
    symtuner_rules_free(second);
    free(text);
}
END_TEST

/* ---- machine -------------------------------------------------------------------------------- */

static const struct {
    const char *keys;
    int nccl;
    struct symtuner_machine machine;
    int fits;
} fitting[] = {
    {"nccl = 2.28", 22809, {"", 0, -1, -1, 0}, 1},
    {"nccl = 2.28", 22902, {"", 0, -1, -1, 0}, 0},
    {"nccl = 2.28.3..2.28.9", 22803, {"", 0, -1, -1, 0}, 1},
    {"nccl = 2.28.3..2.28.9", 22809, {"", 0, -1, -1, 0}, 1},
    {"nccl = 2.28.3..2.28.9", 22810, {"", 0, -1, -1, 0}, 0},
    {"nccl = ..2.30", 23099, {"", 0, -1, -1, 0}, 1},
    {"gpu = NVIDIA H200", 22809, {"NVIDIA H200", 90, 1, 0, 0}, 1},
    {"gpu = NVIDIA H200", 22809, {"NVIDIA H200 NVL", 90, 1, 0, 0}, 0},
    {"gpu = NVIDIA H200*", 22809, {"NVIDIA H200 NVL", 90, 1, 0, 0}, 1},
    {"gpu = *", 22809, {"", 0, -1, -1, 0}, 1},
    {"gpu = NVIDIA H200", 22809, {"", 0, -1, -1, 0}, 0},
    {"links = nvlink", 22809, {"", 0, 1, -1, 0}, 1},
    {"links = nvlink", 22809, {"", 0, 0, -1, 0}, 0},
    {"links = nvlink", 22809, {"", 0, -1, -1, 0}, 0},
    {"links = any", 22809, {"", 0, -1, -1, 0}, 1},
    {"gpus = 2", 22809, {"", 0, -1, -1, 2}, 1},
    {"gpus = 2", 22809, {"", 0, -1, -1, 3}, 0},
    {"gpus = ..4", 22809, {"", 0, -1, -1, 4}, 1},
    {"gpus = ..4", 22809, {"", 0, -1, -1, 5}, 0},
    /* 0 GPUs: their number is unknown, so it is not known to be 4 at most */
    {"gpus = ..4", 22809, {"", 0, -1, -1, 0}, 0},
    {"gpus = 4..", 22809, {"", 0, -1, -1, 8}, 1},
    {"gpus = 4..", 22809, {"", 0, -1, -1, 0}, 0},
    {"multicast = no", 22809, {"", 0, -1, 0, 0}, 1},
    {"multicast = no", 22809, {"", 0, -1, -1, 0}, 0},
    {"multicast = yes", 22809, {"", 0, -1, 1, 0}, 1},
};

START_TEST(test_provenance_fits_its_own_machine_only)
{
    char text[128];
    symtuner_rules *rules;

    snprintf(text, sizeof text, "[provenance]\n%s\n[rule a]\ncoll = any\n", fitting[_i].keys);
    rules = parsed(text);
    error[0] = '\0';
    ck_assert_msg((symtuner_rules_fit(rules, fitting[_i].nccl, &fitting[_i].machine, error,
                                      sizeof error) == SYMTUNER_OK) == fitting[_i].fits,
                  "row %d: %s", _i, fitting[_i].keys);
    ck_assert_int_eq(error[0] == '\0', fitting[_i].fits);
    ck_assert_int_eq(symtuner_rules_fit(rules, fitting[_i].nccl, &fitting[_i].machine, NULL, 99),
                     /* NULL: this caller wants no text */
                     fitting[_i].fits ? SYMTUNER_OK : SYMTUNER_EMISMATCH);
    symtuner_rules_free(rules);
}
END_TEST

static const struct {
    const char *keys;
    int nccl;
    struct symtuner_machine machine;
    const char *says;
} misfits[] = {
    {"nccl = 2.28..2.29", 23007, {"", 0, -1, -1, 0}, "nccl = 2.28..2.29 (here 2.30.7)"},
    {"nccl = 2.31..", 23007, {"", 0, -1, -1, 0}, "nccl = 2.31.. (here 2.30.7)"},
    {"nccl = 2.28.9", 0, {"", 0, -1, -1, 0}, "a release that could not be compared with"},
    {"gpu = A", 22809, {"B", 90, 1, 0, 0}, "another machine: gpu = A (here B); tune again"},
    {"gpu = A\nnccl = 2.27", 22809, {"B", 90, 1, 0, 0}, "another machine and release: nccl = "},
    {"gpus = 2..4", 22809, {"B", 90, 1, 0, 8}, "another machine: gpus = 2..4 (here 8)"},
    {"links = nvlink\nmulticast = no", 22809, {"", 0, 0, 1, 0}, "(here pcie), multicast = no (her"},
    {"gpu = A\nnccl = 2.27", 22809, {"", 0, -1, -1, 0},
     "another release: nccl = 2.27 (here 2.28.9), gpu = A (here not known); the machine could not"},
};

START_TEST(test_misfit_says_what_differs)
{
    char text[128];
    symtuner_rules *rules;

    snprintf(text, sizeof text, "[provenance]\n%s\n[rule a]\ncoll = any\n", misfits[_i].keys);
    rules = parsed(text);
    symtuner_rules_fit(rules, misfits[_i].nccl, &misfits[_i].machine, error, sizeof error);
    ck_assert_msg(strstr(error, misfits[_i].says), "row %d: %s", _i, error);
    symtuner_rules_free(rules);
}
END_TEST

START_TEST(test_the_first_process_rule_that_fits_counts)
{
    symtuner_rules *rules = parsed("[process]\nlinks = pcie\nsym-ctas = 4\n"
                                   "[process]\nnccl = 2.28\nsym-ctas = 8\n"
                                   "[process]\nsym-ctas = 12\n");
    struct symtuner_machine pcie = {"", 0, 0, 0, 0}, nvlink = {"", 0, 1, 0, 0};

    ck_assert_int_eq(st_rules_process(rules, 22809, &pcie)->act.sym_ctas, 4);
    ck_assert_int_eq(st_rules_process(rules, 22809, &nvlink)->act.sym_ctas, 8);
    ck_assert_int_eq(st_rules_process(rules, 22907, &nvlink)->act.sym_ctas, 12);
    ck_assert_ptr_null(st_rules_process(NULL, 22809, &pcie));
    symtuner_rules_free(rules);
}
END_TEST

Suite *rules_suite(void)
{
    Suite *suite = suite_create("rules");
    TCase *limits = tcase_create("limits");
    TCase *hash = tcase_create("hash"), *sources = tcase_create("sources");
    TCase *machine = tcase_create("machine");

    tcase_add_test(limits, test_256_rules_are_read_and_257_are_not);
    tcase_add_test(limits, test_a_line_of_4096_bytes_is_read_and_one_of_4097_is_not);
    tcase_add_test(limits, test_a_name_of_63_bytes_is_kept_and_one_of_64_is_refused);
    tcase_add_test(limits, test_a_gpu_of_95_bytes_is_kept_and_one_of_96_is_refused);
    tcase_add_test(limits, test_a_text_of_1_mib_is_read_and_a_byte_more_is_not);
    tcase_add_test(limits, test_a_file_of_1_mib_is_read_and_a_byte_more_is_not);
    tcase_add_test(limits, test_every_error_fits_the_buffer_that_the_header_names);
    tcase_add_test(limits, test_a_nul_byte_in_a_file_is_named);
    t_add_rows(hash, test_equal_meaning_gives_an_equal_hash_and_only_that, hashed);
    tcase_add_test(hash, test_process_sections_count_in_the_hash);
    tcase_add_test(hash, test_every_key_of_the_table_counts_in_the_hash);
    tcase_add_test(sources, test_rules_of_a_second_source_follow_those_of_the_first);
    tcase_add_test(sources, test_too_many_rules_from_two_sources_are_refused_whole);
    t_add_rows(machine, test_provenance_fits_its_own_machine_only, fitting);
    t_add_rows(machine, test_misfit_says_what_differs, misfits);
    tcase_add_test(machine, test_the_first_process_rule_that_fits_counts);
    suite_add_tcase(suite, limits);
    suite_add_tcase(suite, hash);
    suite_add_tcase(suite, sources);
    suite_add_tcase(suite, machine);
    return suite;
}
