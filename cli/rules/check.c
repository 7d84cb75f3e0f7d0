/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - symtuner check FILE...: reports errors and findings in rules files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/json.h"
#include "cli/machines.h"
#include "cli/options.h"
#include "cli/values.h"
#include "rules/sources.h"
#include "symtuner.h"

struct check {
    bool json, here;
    int nccl;                        /* the release of --nccl; 0: not given            */
    struct symtuner_machine machine; /* with --here or --nccl: this box                */
    struct st_doctor doctor;         /* with --here and without --nccl: the NCCL here  */
    struct st_json out;
};

/* Print an error or a finding about the file, and count it in ${count}. */
static void tell(struct check *check, const char *kind, const char *text, int *count)
{
    if (check->json) {
        st_json_open(&check->out, NULL, "\n  {");
        st_json_text(&check->out, "kind", kind);
        st_json_text(&check->out, "text", text);
        st_json_close(&check->out);
    } else {
        fprintf(strcmp(kind, "error") == 0 ? stderr : stdout, "%s\n", text);
    }
    ++*count;
}

/* Report a finding if the section [provenance] of the rules does not fit this box with the release
 * ${nccl}; 0: not known. ${whose} says which NCCL this is, or is "". */
static void check_release(struct check *check, const symtuner_rules *rules, int nccl,
                          const char *whose, int *count)
{
    char text[SYMTUNER_ERROR_MAX + ST_COPY_TEXT + 40];
    char misfit[SYMTUNER_ERROR_MAX];

    if (symtuner_rules_fit(rules, nccl, &check->machine, misfit, sizeof misfit) == SYMTUNER_OK)
        return;
    snprintf(text, sizeof text, "%s%s", misfit, whose);
    tell(check, "provenance", text, count);
}

/* Compare with the release of --nccl, otherwise with every release that programs here load: jax and
 * torch may load different ones. */
static void check_here(struct check *check, const symtuner_rules *rules, int *count)
{
    const struct st_doctor *doctor = &check->doctor;
    char copy[ST_COPY_TEXT], whose[ST_COPY_TEXT + 40];

    if (check->nccl) {
        check_release(check, rules, check->nccl, "", count);
        return;
    }
    for (int i = 0; i < doctor->judgeds; i++) {
        snprintf(whose, sizeof whose, " (compared with %s)",
                 st_doctor_copy_text(doctor, doctor->judged[i], copy));
        check_release(check, rules, doctor->copy[doctor->judged[i]].nccl, whose, count);
    }
    if (doctor->judgeds == 0)
        check_release(check, rules, 0, " (no NCCL was found here; --nccl X.Y.Z names its release)",
                      count);
}

/* Return the exit status for the file. */
static int check_file(struct check *check, const char *path)
{
    char text[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules = NULL;
    enum symtuner_status status;
    int findings = 0;

    if (check->json) {
        st_json_open(&check->out, NULL, "\n {");
        st_json_text(&check->out, "file", path);
        st_json_open(&check->out, "findings", "[");
    }
    status = st_rules_load_any(path, &rules, text, sizeof text);
    if (status != SYMTUNER_OK) {
        tell(check, "error", text, &findings);
    } else {
        for (int i = 0; symtuner_rules_lint(rules, i, text, sizeof text); i++)
            tell(check, "lint", text, &findings);
        if (check->here || check->nccl)
            check_here(check, rules, &findings);
    }
    if (check->json) {
        st_json_close(&check->out);
        if (rules) {
            st_json_int(&check->out, "rules", symtuner_rules_count(rules));
            st_json_format(&check->out, "hash", "\"0x%016" PRIx64 "\"", symtuner_rules_hash(rules));
        }
        st_json_close(&check->out);
    } else if (!findings && symtuner_rules_count(rules) == 0) {
        printf("%s: no rules, NCCL decides everything\n", path);
    } else if (!findings) {
        printf("%s: fine, %d rule%s, hash 0x%016" PRIx64 "\n", path, symtuner_rules_count(rules),
               symtuner_rules_count(rules) == 1 ? "" : "s", symtuner_rules_hash(rules));
    }
    symtuner_rules_free(rules);
    return findings && status == SYMTUNER_OK ? ST_EXIT_FINDINGS : st_exit_of(status);
}

#define AT(member) offsetof(struct check, member)
static const struct st_option rows[] = {
    {"here", NULL,
     "also: does the [provenance] fit this box, and the NCCL that jax or torch of this python3 "
     "would load (without these two, the loader's)? SYMTUNER_MACHINE may describe a box",
     ST_OPTION_FLAG, .at = AT(here)},
    {"nccl", "X.Y.Z", "compare with this release instead (implies --here)", ST_OPTION_READ,
     .read = st_read_release, .at = AT(nccl)},
    {"json", NULL, "one object, for programs", ST_OPTION_FLAG, .at = AT(json)},
};
static const struct st_command_line line = {
    .command = "check",
    .usage = "[options] FILE...\n",
    .about =
        "Read rules files (or *.csv of NCCL's example tuner) and report what is wrong with them.\n"
        "For a file that is fine, prints how many rules it has and their hash. Files with equal "
        "hashes\nhave equal rules.\n",
    .after = "Exit 0: fine. 1: an error or a finding. 2: a file cannot be read.\n"
             "examples: symtuner check my.rules\n"
             "          symtuner check --nccl 2.28.9 my.rules\n",
    ST_OPTIONS(rows),
    .least_words = 1,
    .most_words = ST_ANY_WORDS};

int st_cmd_check(int argc, char **argv)
{
    static struct check check; /* static, because it is large */
    int status = st_line_read(&line, argc, argv, &check), worst = ST_EXIT_FINE;

    if (status >= 0)
        return status;
    check.out.out = stdout;
    if (check.here || check.nccl)
        st_machine_here(&check.machine);
    if (check.here && !check.nccl) {
        check.doctor.root = "";
        st_doctor_find_nccl(&check.doctor);
    }
    if (check.json) {
        st_json_open(&check.out, NULL, "{");
        st_json_open(&check.out, "files", "[");
    }
    for (char **file = argv + 1; *file; file++)
        if ((status = check_file(&check, *file)) > worst)
            worst = status;
    if (check.json) {
        st_json_close(&check.out);
        st_json_gap(&check.out, "\n ");
        st_json_bool(&check.out, "fine", worst == ST_EXIT_FINE);
        st_json_close(&check.out);
    }
    return worst;
}
