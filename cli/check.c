/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - symtuner check FILE...: errors and lint findings of rules files. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "symtuner.h"

static const char help[] =
    "usage: symtuner check FILE...\n"
    "Read rules files (or *.csv of NCCL's example tuner) and report what is wrong with them.\n"
    "Prints one line per file that is fine: its rules and their hash (equal hashes, equal rules).\n"
    "Exit 0: fine. 1: an error or a finding.\n"
    "example: symtuner check my.rules\n";

static int check_file(const char *path)
{
    char text[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules;
    int findings = 0;

    if (symtuner_rules_load(path, &rules, text, sizeof text) != SYMTUNER_OK) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    while (symtuner_rules_lint(rules, findings, text, sizeof text)) {
        printf("%s\n", text);
        findings++;
    }
    if (!findings)
        printf("%s: fine, %d rules, hash 0x%016llx\n", path, symtuner_rules_count(rules),
               (unsigned long long)symtuner_rules_hash(rules));
    symtuner_rules_free(rules);
    return findings != 0;
}

int st_cmd_check(int argc, char **argv)
{
    int bad = 0;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return ST_EXIT_FINE;
    }
    if (argc < 2) {
        fputs(help, stderr);
        return ST_EXIT_USAGE;
    }
    for (int i = 1; i < argc; i++)
        bad |= check_file(argv[i]);
    return bad ? ST_EXIT_FINDINGS : ST_EXIT_FINE;
}
