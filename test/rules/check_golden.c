/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_golden.c - checks what rules texts mean. The expected result follows each text.
 *
 * test/golden/rules/rules.test has good texts, what they mean, and their lint findings.
 * bad/bad.test has bad texts, each with its one error, line and column. A case of these files is
 *
 *   --- KIND NAME      KIND is rules, csv, inline or file
 *   the text           nothing with KIND file: the text is then the file NAME in the same folder
 *   --- means          or --- error
 *   the result         blank lines in front of the next case do not count
 *
 * GOLDEN_UPDATE=1 rewrites the results; then read what git diff shows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl/names.h"
#include "rules/rules.h"
#include "test/suites.h"

enum { GOOD, BAD, CASES_MAX = 256 };
static const char *const folder[] = {"test/golden/rules", "test/golden/bad"};
static const char *const path[] = {"test/golden/rules/rules.test", "test/golden/bad/bad.test"};
static const char *const middle[] = {"--- means\n", "--- error\n"};

static char *content[2]; /* [set]: the content of path[set] */
static struct golden {
    char kind[8], name[64];
    int line;
    const char *text, *text_end, *want, *want_end; /* pointers into content[set] */
} cases[2][CASES_MAX];

/* Return the whole file with a 0 at its end, or NULL if it cannot be read. */
static char *read_file(const char *name)
{
    FILE *file = fopen(name, "r");
    char *text = file ? calloc(1, 65536) : NULL;

    if (text && fread(text, 1, 65535, file) == 0 && ferror(file)) {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* Read path[set]. Returns the number of cases, or -1 if the file is malformed. */
static int read_cases(int set)
{
    int count = 0, line = 1;
    struct golden *half = NULL; /* a case whose middle line has not been read yet */

    free(content[set]);
    content[set] = read_file(path[set]);
    for (char *at = content[set], *next; at && *at; at = next, line++) {
        next = at + strcspn(at, "\n");
        next += *next == '\n';
        if (half && strncmp(at, middle[set], strlen(middle[set])) == 0) {
            half->text_end = at;
            half->want = next;
            half = NULL;
        } else if (strncmp(at, "--- ", 4) == 0) {
            if (half || count == CASES_MAX)
                return -1;
            half = &cases[set][count++];
            half->line = line;
            half->text = next;
            if (sscanf(at, "--- %7s %63s", half->kind, half->name) != 2)
                return -1;
        }
        if (!half && count && *at != '\n') /* blank lines at the end do not count */
            cases[set][count - 1].want_end = next;
    }
    return half || !content[set] ? -1 : count;
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
        if (!rule->kernels && rule->colls >> c & 1)
            fprintf(out, " %s", symtuner_coll_name(c));
    for (int c = 0; rule->kernels && c < st_kernel_coll_words.count; c++)
        if (st_kernels_colls(rule) >> c & 1)
            fprintf(out, " %s", st_kernel_coll_words.word[c]);
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

static enum symtuner_status load_csv(const char *name, const char *text, symtuner_rules **rules,
                                     char *error)
{
    char file_name[] = "/tmp/symtuner-check-XXXXXX.csv", rest[SYMTUNER_ERROR_MAX];
    size_t length = strlen(file_name);
    FILE *file = fdopen(mkstemps(file_name, 4), "w");
    enum symtuner_status status;

    ck_assert_msg(file && fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s",
                  file_name);
    status = symtuner_rules_load(file_name, rules, error, SYMTUNER_ERROR_MAX);
    unlink(file_name);
    if (status != SYMTUNER_OK) { /* replace the name of the file by the name of the case */
        ck_assert_msg(strncmp(error, file_name, length) == 0, "no file name: %s", error);
        strcpy(rest, error + length);
        ck_assert_int_lt(snprintf(error, SYMTUNER_ERROR_MAX, "%s.csv%s", name, rest),
                         SYMTUNER_ERROR_MAX);
    }
    return status;
}

static enum symtuner_status load(int set, const struct golden *golden, symtuner_rules **rules,
                                 char *error)
{
    const char *kind = golden->kind;
    enum symtuner_status status = SYMTUNER_EIO;
    char name[160], *text;

    if (strcmp(kind, "file") == 0) {
        kind = strrchr(golden->name, '.') + 1;
        snprintf(name, sizeof name, "%s/%s", folder[set], golden->name);
        if (strcmp(kind, "csv") == 0)
            return symtuner_rules_load(name, rules, error, SYMTUNER_ERROR_MAX);
        text = read_file(name);
        ck_assert_msg(text, "cannot read %s", name);
        snprintf(name, sizeof name, "%s", golden->name);
    } else {
        text = strndup(golden->text, (size_t)(golden->text_end - golden->text));
        snprintf(name, sizeof name, "%s.rules", golden->name);
    }
    if (strcmp(kind, "csv") == 0) {
        status = load_csv(golden->name, text, rules, error);
    } else if (strcmp(kind, "inline") == 0) {
        text[strcspn(text, "\n")] = '\0';
        status = symtuner_rules_inline(text, rules, error, SYMTUNER_ERROR_MAX);
    } else {
        ck_assert_msg(strcmp(kind, "rules") == 0, "%s:%d: unknown kind %s", path[set], golden->line,
                      kind);
        status = symtuner_rules_parse(text, name, rules, error, SYMTUNER_ERROR_MAX);
    }
    free(text);
    return status;
}

static void compare(int set, const struct golden *golden, const char *got)
{
    int length = (int)(golden->want_end - golden->want);

    if (getenv("GOLDEN_UPDATE")) {
        FILE *file = fopen(path[set], "w");

        ck_assert_msg(
            file && fwrite(content[set], 1, (size_t)(golden->want - content[set]), file) &&
                fputs(got, file) >= 0 && fputs(golden->want_end, file) >= 0 && fclose(file) == 0,
            "cannot write %s", path[set]);
        return;
    }
    ck_assert_msg((size_t)length == strlen(got) && strncmp(golden->want, got, strlen(got)) == 0,
                  "%s:%d: %s wants\n%.*sbut came\n%s", path[set], golden->line, golden->name,
                  length, golden->want, got);
}

static void run(int set, int i)
{
    char error[SYMTUNER_ERROR_MAX + 1] = "";
    symtuner_rules *rules = NULL;
    const struct golden *golden = &cases[set][i];
    enum symtuner_status status;

    ck_assert_int_gt(read_cases(set), i);
    status = load(set, golden, &rules, error);
    if (set == BAD) {
        ck_assert_msg(status == SYMTUNER_ESYNTAX, "%s:%d: %s was accepted, or unreadable",
                      path[set], golden->line, golden->name);
        ck_assert_ptr_null(rules); /* the function writes its output only if it succeeds */
        strcat(error, "\n");
        compare(set, golden, error);
    } else {
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        ck_assert_msg(status == SYMTUNER_OK, "%s", error);
        print_rules(out, rules);
        fclose(out);
        compare(set, golden, text);
        free(text);
        symtuner_rules_free(rules);
    }
}

START_TEST(test_a_good_text_means_what_its_case_says)
{
    run(GOOD, _i);
}
END_TEST

START_TEST(test_a_bad_text_is_refused_as_its_case_says)
{
    run(BAD, _i);
}
END_TEST

START_TEST(test_the_files_are_well_formed)
{
    ck_assert_int_ge(read_cases(GOOD), 17);
    ck_assert_int_ge(read_cases(BAD), 98);
}
END_TEST

Suite *golden_suite(void)
{
    Suite *suite = suite_create("golden");
    TCase *good = tcase_create("good texts"), *bad = tcase_create("bad texts");

    tcase_add_test(good, test_the_files_are_well_formed);
    tcase_add_loop_test(good, test_a_good_text_means_what_its_case_says, 0, read_cases(GOOD));
    tcase_add_loop_test(bad, test_a_bad_text_is_refused_as_its_case_says, 0, read_cases(BAD));
    suite_add_tcase(suite, good);
    suite_add_tcase(suite, bad);
    return suite;
}
