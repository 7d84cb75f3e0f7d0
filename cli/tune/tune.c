/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - symtuner tune: measures this box; writes rules, raw data and a report. */
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/own_file.h"
#include "cli/text.h"
#include "cli/tune/tune.h"
#include "symtuner_why.h"

/* static, because it is large */
static struct st_tune tune = {
    .search = true, .ctas = {0, 8, 16, 32, 64}, .n_ctas = 5, .out = "symtuner.rules"};

static const struct st_command_line line = {
    .command = "tune",
    .usage = "[options]\n",
    .about =
        "Measure NCCL's general kernels, its symmetric kernels with several CTA counts, and "
        "symtuner's\nkernels on this box. Write rules for this box (FILE), the raw data (FILE.csv) "
        "and a report\n(FILE.html). Each kernel's result is checked before it is timed. Ctrl-C "
        "stops; the same command\ngoes on where it stopped.\n"
        "Ranks on several boxes are not measured: docs/nodes.md says which rules are for them.\n",
    .after =
        "Exit 0: done. 1: failed, stopped, or not verified. 2: wrong usage or unreadable file.\n"
        "77: cannot measure here, and why.\n"
        "examples: symtuner tune --out h200x4.rules\n"
        "          symtuner tune --ledger job.ledger --ranks 8\n",
    .row = st_tune_options + ST_BENCH_ALONE,
    .rows = ST_TUNE_OPTIONS - ST_BENCH_ALONE};

/* May this run write its three files? Raw data of an earlier run are no obstacle: resume() reads
 * them. */
static bool may_write(void)
{
    return st_own_file_possible("tune", tune.out) &&
           st_own_file_free("tune", tune.out, tune.force) &&
           st_own_file_free("tune", tune.html, tune.force) &&
           (tune.from || st_own_file_free("tune", tune.raw, tune.force));
}

/* Load what an interrupted run measured, unless --fresh is given. Returns false, with the error
 * printed, if that fails. */
static bool resume(void)
{
    char error[600];

    if (tune.fresh || access(tune.raw, F_OK) != 0)
        return true;
    if (st_tune_load(&tune, false, error, sizeof error) != SYMTUNER_OK)
        return st_fail(false, "%s\n", error);
    fprintf(stderr, "%s: %d of %d measurements are there already\n", tune.raw,
            st_tune_units(&tune, false) - st_tune_units(&tune, true), st_tune_units(&tune, false));
    return true;
}

static int finish(void)
{
    st_tune_choose(&tune);
    if (!st_tune_write_rules(&tune) || !st_tune_write_report(&tune))
        return ST_EXIT_FINDINGS;
    (tune.json ? st_tune_print_json : st_tune_print)(&tune, stdout);
    fprintf(stderr, "wrote %s, %s\n", tune.out, tune.html);
    return ST_EXIT_FINE;
}

/* Add an argument to the command line that is printed in the rules and the report. The folders of
 * an absolute path are left out, because they are private. Returns the new length. */
static size_t add_argument(size_t at, const char *argument)
{
    const char *equals = argument[0] == '-' ? strchr(argument, '=') : NULL;
    const char *value = equals ? equals + 1 : argument;

    return st_text_add(tune.command, sizeof tune.command, at, " %.*s%.100s",
                       (int)(value - argument), argument,
                       value[0] == '/' ? st_text_base(value) : value);
}

int st_cmd_tune(int argc, char **argv)
{
    enum symtuner_status loaded;
    char error[600];
    size_t at;
    int status;

    st_tune_defaults(&tune);
    at = st_text_add(tune.command, sizeof tune.command, 0, "symtuner");
    for (int i = 0; i < argc; i++)
        at = add_argument(at, argv[i]);
    status = st_line_read(&line, argc, argv, &tune);
    if (status >= 0)
        return status;
    snprintf(tune.raw, sizeof tune.raw, "%.500s.csv", tune.out);
    snprintf(tune.html, sizeof tune.html, "%.500s.html", tune.out);
    if (!tune.verify_files && !may_write())
        return ST_EXIT_USAGE;
    if (tune.from) {
        snprintf(tune.raw, sizeof tune.raw, "%.590s", tune.from);
        loaded = st_tune_load(&tune, true, error, sizeof error);
        if (loaded != SYMTUNER_OK)
            return st_fail(st_exit_of(loaded), "%s\n", error);
        if (st_tune_units(&tune, true))
            return st_fail(ST_EXIT_FINDINGS,
                           "symtuner tune: %s is of a run that was not finished: %d of %d "
                           "measurements are missing\n",
                           tune.raw, st_tune_units(&tune, true), st_tune_units(&tune, false));
        return finish();
    }
    if (tune.verify_files && tune.beside)
        return st_fail(ST_EXIT_USAGE, "symtuner tune: --verify measures calls alone, without "
                                      "--beside; see symtuner tune --help\n");
    if (tune.verify_files)
        return st_tune_verify(&tune, tune.verify_files, tune.json);
    status = st_tune_find_gpus(&tune, "tune", !tune.no_kernels);
    if (status >= 0)
        return status;
    if (!resume())
        return ST_EXIT_FINDINGS;
    status = st_tune_measure(&tune, "tune");
    return status == ST_EXIT_FINE ? finish() : status;
}
