/* SPDX-License-Identifier: Apache-2.0 */
/* env.c - symtuner env: lists the SYMTUNER_* variables; with --markdown it prints docs/env.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "nccl/names.h"
#include "nccl/variables.h"
#include "symtuner.h"

extern char **environ;

/* Return "unset", to be printed before the other legal values, if the first legal value is empty,
 * as in "|USR1|USR2". Otherwise return "". */
static const char *empty(const struct symtuner_option *row)
{
    return row->values[0] == '|' ? "unset" : "";
}

static void print_markdown(void)
{
    struct symtuner_option row;

    printf("# Environment variables\n\n"
           "`symtuner env --markdown` prints this page; do not edit it. If a meaning begins with "
           "the name of a part, such as \"drop-in:\", only this part of symtuner reads the "
           "variable. The plugin also reads `NCCL_TUNER_CONFIG_FILE`, which names a CSV of "
           "NCCL's example tuner. The kernel library reads the variables `SYMTUNER_AR_*` "
           "(docs/kernels.md).\n\n"
           "| variable | default | values | meaning |\n|---|---|---|---|\n");
    for (int i = 0; symtuner_option_get(i, &row); i++) {
        printf("| `%s` | %s | ", row.name, row.fallback[0] ? row.fallback : "unset");
        fputs(empty(&row), stdout);
        for (const char *c = row.values; *c; c++)
            printf(*c == '|' ? ", " : "%c", *c);
        printf(" | %s |\n", row.help);
    }
}

static void print_json(void)
{
    struct st_json json = {.out = stdout};
    struct symtuner_option row;

    st_json_open(&json, NULL, "[");
    for (int i = 0; symtuner_option_get(i, &row); i++) {
        st_json_open(&json, NULL, i ? "\n  {" : " {");
        st_json_text(&json, "name", row.name);
        st_json_text(&json, "value", getenv(row.name));
        st_json_text(&json, "default", row.fallback);
        st_json_text(&json, "values", row.values);
        st_json_text(&json, "help", row.help);
        st_json_close(&json);
    }
    st_json_close(&json);
}

static void print_text(void)
{
    struct symtuner_option row;

    for (int i = 0; symtuner_option_get(i, &row); i++) {
        const char *value = getenv(row.name);

        printf("%s=%s%s\n    %s\n    values: %s%s; default: %s\n", row.name,
               value ? value : row.fallback, value ? "" : "   (not set)", row.help, empty(&row),
               row.values, row.fallback[0] ? row.fallback : "unset");
    }
}

/* Report on stderr the values that are not legal. */
static void print_wrong_values(void)
{
    const struct st_variable *variable;
    struct symtuner_option row;
    char legal[ST_VARIABLE_LEGAL];
    int number;

    for (int i = 0; symtuner_option_get(i, &row); i++) {
        const char *value = getenv(row.name);

        if (value && strcmp(row.values, "text") != 0 &&
            !st_word_listed(row.values, value, strncmp))
            fprintf(stderr, "symtuner env: %s=%s: write one of %s%s; %s\"%s\"\n", row.name, value,
                    empty(&row), row.values,
                    strncmp(row.help, "JAX package", 11) == 0 ? "JAX stops here, default "
                                                              : "symtuner uses ",
                    row.fallback[0] ? row.fallback : "unset");
    }
    for (int i = 0; (variable = st_variable_get(i)); i++) {
        const char *value = getenv(variable->name);

        if (!value || st_variable_value(variable, value, &number))
            continue;
        st_variable_legal(variable, legal);
        fprintf(stderr, "symtuner env: %s=%s: write %s\n", variable->name, value, legal);
    }
}

/* Report on stderr the variables SYMTUNER_* that do not exist. */
static void print_strangers(void)
{
    enum { MOST = 64 };
    const char *word[MOST];
    struct st_words words = {word, 0};
    const struct st_variable *variable;
    struct symtuner_option row;

    for (int i = 0; words.count < MOST && symtuner_option_get(i, &row); i++)
        word[words.count++] = row.name;
    for (int i = 0; words.count < MOST && (variable = st_variable_get(i)); i++)
        word[words.count++] = variable->name;
    for (char **entry = environ; *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        const char *near = st_word_nearest(&words, *entry, length);

        if (strncmp(*entry, "SYMTUNER_", 9) == 0 && st_word_find(&words, *entry, length) < 0)
            fprintf(stderr, "symtuner env: %.*s: no such variable%s%s%s\n", (int)length, *entry,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
}

struct request {
    bool json, markdown, defaults;
};

#define AT(member) offsetof(struct request, member)
static const struct st_option rows[] = {
    {"markdown", NULL, "print docs/env.md", ST_OPTION_FLAG, .at = AT(markdown)},
    {"defaults", NULL, "print the built-in CTA count, and the boxes and releases that get it",
     ST_OPTION_FLAG, .at = AT(defaults)},
    {"json", NULL, "for programs", ST_OPTION_FLAG, .at = AT(json)},
};
static const struct st_command_line line = {
    .command = "env",
    .usage = "[--json | --markdown | --defaults]\n",
    .about = "The SYMTUNER_* variables: value here, default, legal values, meaning.\n",
    ST_OPTIONS(rows)};

int st_cmd_env(int argc, char **argv)
{
    struct request request = {.json = false};
    int status = st_line_read(&line, argc, argv, &request);

    if (status >= 0)
        return status;
    if (request.json + request.markdown + request.defaults > 1)
        return st_line_wrong(&line, "one of --json, --markdown and --defaults at a time");
    if (request.markdown)
        print_markdown();
    else if (request.defaults)
        fputs(symtuner_defaults_text(), stdout);
    else
        (request.json ? print_json : print_text)();
    if (!request.markdown && !request.defaults) {
        print_wrong_values();
        print_strangers();
    }
    return ST_EXIT_FINE;
}
