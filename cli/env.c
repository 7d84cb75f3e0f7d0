/* SPDX-License-Identifier: Apache-2.0 */
/* env.c - symtuner env: the variables; --markdown prints docs/env.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "symtuner.h"

static const char help[] =
    "usage: symtuner env [--json | --markdown | --defaults]\n"
    "The SYMTUNER_* variables: value here, default, legal values, meaning.\n"
    "  --json      for programs\n"
    "  --markdown  print docs/env.md\n"
    "  --defaults  print the built-in defaults: a rules text with its provenance\n";

/* A list of words that begins with none: it may be unset, or set to nothing. */
static const char *empty(const struct symtuner_option *row)
{
    return row->values[0] == '|' ? "unset" : "";
}

static void print_markdown(void)
{
    struct symtuner_option row;

    printf("# Environment variables\n\n"
           "Printed by `symtuner env --markdown`; do not edit. `NCCL_TUNER_CONFIG_FILE` is read as "
           "well (the CSV of NCCL's example tuner). `SYMTUNER_AR_*` belong to the kernel library "
           "(docs/kernels.md).\n\n| variable | default | values | meaning |\n|---|---|---|---|\n");
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
    struct symtuner_option row;

    for (int i = 0; symtuner_option_get(i, &row); i++) {
        fputs(i ? ",\n  {" : "[ {", stdout);
        st_json_field(stdout, true, "name", row.name);
        st_json_field(stdout, false, "value", getenv(row.name));
        st_json_field(stdout, false, "default", row.fallback);
        st_json_field(stdout, false, "values", row.values);
        st_json_field(stdout, false, "help", row.help);
        fputs("}", stdout);
    }
    puts("]");
}

int st_cmd_env(int argc, char **argv)
{
    struct symtuner_option row;

    if (argc > 1 && strcmp(argv[1], "--markdown") == 0 && argc == 2) {
        print_markdown();
        return ST_EXIT_FINE;
    }
    if (argc == 2 && strcmp(argv[1], "--defaults") == 0) {
        fputs(symtuner_defaults_text(), stdout);
        return ST_EXIT_FINE;
    }
    if (argc == 2 && strcmp(argv[1], "--json") == 0) {
        print_json();
        return ST_EXIT_FINE;
    }
    if (argc > 1) {
        int asked = strcmp(argv[1], "--help") == 0;

        if (!asked)
            fprintf(stderr, argc > 2 ? "symtuner env: one option at a time, not also \"%.60s\"\n"
                                     : "symtuner env: unknown argument \"%.60s\"\n",
                    argv[argc > 2 ? 2 : 1]);
        fputs(help, asked ? stdout : stderr);
        return asked ? ST_EXIT_FINE : ST_EXIT_USAGE;
    }
    for (int i = 0; symtuner_option_get(i, &row); i++) {
        const char *value = getenv(row.name);

        printf("%s=%s%s\n    %s\n    values: %s%s; default: %s\n", row.name,
               value ? value : row.fallback, value ? "" : "   (not set)", row.help, empty(&row),
               row.values, row.fallback[0] ? row.fallback : "unset");
    }
    return ST_EXIT_FINE;
}
