/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_golden.c - the rules texts of test/golden, each beside what must come of it.
 *
 *   rules/NAME.rules|.csv|.inline  + NAME.out   what the text means, and its lint findings
 *   bad/NAME.rules|.csv|.inline    + NAME.err   the one error, with line and column
 *
 * GOLDEN_UPDATE=1 rewrites the expected texts; git then shows what changed.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/names.h"
#include "rules/rules.h"
#include "test/suites.h"

enum { FILES_MAX = 256 };
static const char *const folder[] = {"test/golden/rules", "test/golden/bad"};
static const char *const expected_end[] = {"out", "err"};

static struct golden {
    char name[64];
} files[2][FILES_MAX];

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct golden *)a)->name, ((const struct golden *)b)->name);
}

static int find_files(int set)
{
    DIR *dir = opendir(folder[set]);
    struct dirent *entry;
    int count = 0;

    while (dir && (entry = readdir(dir)) && count < FILES_MAX) {
        const char *end = strrchr(entry->d_name, '.');

        if (!end || entry->d_name[0] == '.' || strcmp(end + 1, expected_end[set]) == 0 ||
            strlen(entry->d_name) >= sizeof files[0][0].name)
            continue;
        strcpy(files[set][count++].name, entry->d_name);
    }
    if (dir)
        closedir(dir);
    qsort(files[set], (size_t)count, sizeof files[set][0], by_name);
    return count;
}

/* The whole file, terminated; NULL when it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = file ? calloc(1, 65536) : NULL;

    if (text && fread(text, 1, 65535, file) == 0 && ferror(file)) {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* ---- what a text means ---------------------------------------------------------------------- */

static void print_span(FILE *out, const char *key, struct st_span span)
{
    if (span.lo == 0 && span.hi == UINT64_MAX)
        return;
    fprintf(out, " %s=%llu..", key, (unsigned long long)span.lo);
    if (span.hi != UINT64_MAX)
        fprintf(out, "%llu", (unsigned long long)span.hi);
}

static void print_set(FILE *out, const char *key, const struct st_words *words, unsigned set)
{
    for (int i = 0; i < words->count && set != ~0u; i++)
        if (set >> i & 1) {
            fprintf(out, "%s%s", key, words->word[i]);
            key = ",";
        }
}

static void print_kernels(FILE *out, const struct st_rule *rule)
{
    print_set(out, " dtype=", &st_dtype_words, rule->dtypes);
    print_set(out, " op=", &st_op_words, rule->ops);
    fprintf(out, " -> kernel=%s ctas=%d threads=%d\n",
            rule->launch.kernel < 0 ? "leave" : st_kernel_words.word[rule->launch.kernel],
            rule->launch.ctas, rule->launch.threads);
}

static void print_rule(FILE *out, const char *kind, const struct st_rule *rule)
{
    static const char *const prefer[] = {"leave", "symmetric", "general"};
    static const char *const reg[] = {"", "no", "yes"};

    fprintf(out, "%s \"%s\" line %d:", kind, rule->name, rule->line);
    for (int c = 0; c < SYMTUNER_COLLS && rule->colls != (1u << SYMTUNER_COLLS) - 1; c++)
        if (rule->colls >> c & 1)
            fprintf(out, " %s", symtuner_coll_name(c));
    print_span(out, rule->per_rank ? "bytes-per-rank" : "bytes", rule->bytes);
    print_span(out, "ranks", rule->ranks);
    print_span(out, "nodes", rule->nodes);
    print_span(out, "pipe-ops", rule->pipe_ops);
    print_span(out, "nccl", rule->nccl);
    if (rule->reg != ST_REG_ANY)
        fprintf(out, " registered=%s", reg[rule->reg]);
    if (rule->links >= 0)
        fprintf(out, " links=%s", rule->links ? "nvlink" : "pcie");
    if (rule->multicast >= 0)
        fprintf(out, " multicast=%s", rule->multicast ? "yes" : "no");
    if (rule->gpu[0])
        fprintf(out, " gpu=\"%s\"", rule->gpu);
    if (rule->kernels) {
        print_kernels(out, rule);
        return;
    }
    fprintf(out, " -> prefer=%s", prefer[rule->act.prefer]);
    if (rule->act.prefer == SYMTUNER_GENERAL)
        fprintf(out, ":%s/%s", rule->act.algo < 0 ? "*" : symtuner_algo_name(rule->act.algo),
                rule->act.proto < 0 ? "*" : symtuner_proto_name(rule->act.proto));
    if (rule->act.forbid)
        fprintf(out, " forbid=0x%x", rule->act.forbid);
    if (rule->act.sym_ctas)
        fprintf(out, " sym-ctas=%d", rule->act.sym_ctas);
    if (rule->act.channels)
        fprintf(out, " channels=%d", rule->act.channels);
    fputc('\n', out);
}

static void print_rules(FILE *out, const symtuner_rules *rules)
{
    char text[SYMTUNER_ERROR_MAX];

    fprintf(out, "%d rules\n", symtuner_rules_count(rules));
    if (rules->has_provenance)
        print_rule(out, "provenance", &rules->provenance);
    for (int i = 0; i < rules->count; i++)
        print_rule(out, rules->rule[i].process   ? "process"
                        : rules->rule[i].kernels ? "kernels"
                                                 : "rule",
                   &rules->rule[i]);
    for (int i = 0; symtuner_rules_lint(rules, i, text, sizeof text); i++)
        fprintf(out, "lint: %s\n", text);
}

/* ---- runner --------------------------------------------------------------------------------- */

static enum symtuner_status load(const char *name, const char *path, symtuner_rules **rules,
                                 char *error)
{
    const char *end = strrchr(name, '.');
    enum symtuner_status status = SYMTUNER_EIO;
    char *text;

    if (strcmp(end, ".csv") == 0)
        return symtuner_rules_load(path, rules, error, SYMTUNER_ERROR_MAX);
    text = read_file(path);
    if (text && strcmp(end, ".inline") == 0) {
        text[strcspn(text, "\n")] = '\0';
        status = symtuner_rules_inline(text, rules, error, SYMTUNER_ERROR_MAX);
    } else if (text) {
        status = symtuner_rules_parse(text, name, rules, error, SYMTUNER_ERROR_MAX);
    }
    free(text);
    return status;
}

static void compare(int set, const char *name, const char *got)
{
    char path[160];
    char *want;

    snprintf(path, sizeof path, "%s/%.*s.%s", folder[set], (int)(strrchr(name, '.') - name), name,
             expected_end[set]);
    if (getenv("GOLDEN_UPDATE")) {
        FILE *file = fopen(path, "w");

        ck_assert_msg(file && fputs(got, file) >= 0 && fclose(file) == 0, "cannot write %s", path);
        return;
    }
    want = read_file(path);
    ck_assert_msg(want, "%s is missing; run with GOLDEN_UPDATE=1 and read it", path);
    ck_assert_msg(strcmp(want, got) == 0, "%s wants\n%sbut came\n%s", path, want, got);
    free(want);
}

static void run(int set, const char *name)
{
    char path[160], error[SYMTUNER_ERROR_MAX + 1] = "";
    symtuner_rules *rules = NULL;
    enum symtuner_status status;

    snprintf(path, sizeof path, "%s/%s", folder[set], name);
    status = load(name, path, &rules, error);
    if (set == 1) {
        ck_assert_msg(status == SYMTUNER_ESYNTAX, "%s was accepted, or unreadable", path);
        ck_assert_ptr_null(rules); /* outputs are written on success only */
        strcat(error, "\n");
        compare(set, name, error);
    } else {
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        ck_assert_msg(status == SYMTUNER_OK, "%s", error);
        print_rules(out, rules);
        fclose(out);
        compare(set, name, text);
        free(text);
        symtuner_rules_free(rules);
    }
}

START_TEST(test_a_good_text_means_what_its_out_file_says)
{
    find_files(0);
    run(0, files[0][_i].name);
}
END_TEST

START_TEST(test_a_bad_text_is_refused_as_its_err_file_says)
{
    find_files(1);
    run(1, files[1][_i].name);
}
END_TEST

START_TEST(test_the_folders_are_there)
{
    ck_assert_int_ge(find_files(0), 8);
    ck_assert_int_ge(find_files(1), 40);
}
END_TEST

Suite *golden_suite(void)
{
    Suite *suite = suite_create("golden");
    TCase *good = tcase_create("good texts"), *bad = tcase_create("bad texts");

    tcase_add_test(good, test_the_folders_are_there);
    tcase_add_loop_test(good, test_a_good_text_means_what_its_out_file_says, 0, find_files(0));
    tcase_add_loop_test(bad, test_a_bad_text_is_refused_as_its_err_file_says, 0, find_files(1));
    suite_add_tcase(suite, good);
    suite_add_tcase(suite, bad);
    return suite;
}
