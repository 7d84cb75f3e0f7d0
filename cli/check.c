/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - symtuner check FILE...: errors and lint findings of rules files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/text.h"
#include "plugin/nccl_release.h"
#include "rules/sources.h"
#include "symtuner.h"

static const char help[] =
    "usage: symtuner check [--here] [--nccl X.Y.Z] [--json] FILE...\n"
    "Read rules files (or *.csv of NCCL's example tuner) and report what is wrong with them.\n"
    "Prints one line per file that is fine: its rules and their hash (equal hashes, equal rules).\n"
    "  --here        also: does the [provenance] fit this box? (SYMTUNER_MACHINE may describe "
    "one)\n"
    "  --nccl X.Y.Z  the release to compare the provenance with (implies --here)\n"
    "  --json        one object, for programs\n"
    "Exit 0: fine. 1: an error or a finding.\n"
    "examples: symtuner check my.rules\n"
    "          symtuner check --nccl 2.28.9 my.rules\n";

struct check {
    bool json, here;
    int nccl;
    int files;
};

/* One finding or error of a file. */
static void tell(const struct check *check, const char *kind, const char *text, int *count)
{
    if (check->json) {
        printf("%s\n  {\"kind\": \"%s\", \"text\": ", *count ? "," : "", kind);
        st_json_string(stdout, text);
        putchar('}');
    } else {
        fprintf(strcmp(kind, "error") == 0 ? stderr : stdout, "%s\n", text);
    }
    ++*count;
}

/* Does the provenance fit here? A release that nobody gave is taken from the rules' own range by
 * asking for every release that is known: any that fits is enough. */
static void check_here(const struct check *check, const symtuner_rules *rules, int *count)
{
    struct symtuner_machine machine;
    char text[SYMTUNER_ERROR_MAX] = "";
    enum symtuner_status status = SYMTUNER_EMISMATCH;

    st_machine_here(&machine);
    if (check->nccl) {
        status = symtuner_rules_fit(rules, check->nccl, &machine, text, sizeof text);
    } else {
        for (int nccl = 22700; nccl <= st_release_newest() && status != SYMTUNER_OK; nccl++)
            status = symtuner_rules_fit(rules, nccl, &machine, text, sizeof text);
    }
    if (status != SYMTUNER_OK)
        tell(check, "provenance", text, count);
}

static int check_file(struct check *check, const char *path)
{
    char text[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules = NULL;
    int findings = 0;

    if (check->json) {
        printf("%s\n {\"file\": ", check->files++ ? "," : "");
        st_json_string(stdout, path);
        fputs(", \"findings\": [", stdout);
    }
    if (st_rules_load_any(path, &rules, text, sizeof text) != SYMTUNER_OK) {
        tell(check, "error", text, &findings);
    } else {
        for (int i = 0; symtuner_rules_lint(rules, i, text, sizeof text); i++)
            tell(check, "lint", text, &findings);
        if (check->here)
            check_here(check, rules, &findings);
    }
    if (check->json) {
        fputs("]", stdout);
        if (rules)
            printf(", \"rules\": %d, \"hash\": \"0x%016llx\"", symtuner_rules_count(rules),
                   (unsigned long long)symtuner_rules_hash(rules));
        fputs("}", stdout);
    } else if (!findings) {
        printf("%s: fine, %d rule%s, hash 0x%016llx\n", path, symtuner_rules_count(rules),
               symtuner_rules_count(rules) == 1 ? "" : "s",
               (unsigned long long)symtuner_rules_hash(rules));
    }
    symtuner_rules_free(rules);
    return findings != 0;
}

int st_cmd_check(int argc, char **argv)
{
    struct check check = {.nccl = 0};
    int bad = 0, first = 1;

    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        if (strcmp(argv[first], "--help") == 0) {
            fputs(help, stdout);
            return ST_EXIT_FINE;
        }
        if (strcmp(argv[first], "--json") == 0) {
            check.json = true;
        } else if (strcmp(argv[first], "--here") == 0) {
            check.here = true;
        } else if (strcmp(argv[first], "--nccl") == 0) {
            const char *release = first + 1 < argc ? argv[++first] : "";

            check.nccl = st_release_parse(release);
            check.here = true;
            if (check.nccl <= 0) {
                fprintf(stderr, "symtuner check: --nccl wants a release such as 2.28.9, not "
                                "\"%.60s\"\n",
                        release);
                return ST_EXIT_USAGE;
            }
        } else {
            fprintf(stderr, "symtuner check: unknown option \"%.60s\"; see symtuner check --help\n",
                    argv[first]);
            return ST_EXIT_USAGE;
        }
    }
    if (first == argc) {
        fputs(help, stderr);
        return ST_EXIT_USAGE;
    }
    if (check.json)
        fputs("{\"files\": [", stdout);
    for (int i = first; i < argc; i++)
        bad |= check_file(&check, argv[i]);
    if (check.json)
        printf("],\n \"fine\": %s}\n", bad ? "false" : "true");
    return bad ? ST_EXIT_FINDINGS : ST_EXIT_FINE;
}
