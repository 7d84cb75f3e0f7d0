/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - symtuner tune: measure this box, write rules, raw data and a report. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "cli/tune.h"
#include "symtuner_why.h"

static const char help[] =
    "usage: symtuner tune [options]\n"
    "Measure NCCL's general kernels, its symmetric kernels over CTA counts and symtuner's kernels "
    "on\n"
    "this box; write rules for it (FILE), the raw data (FILE.csv) and a report (FILE.html). "
    "Results\n"
    "are checked before they are timed. Ctrl-C stops; the same command goes on where it stopped.\n"
    "  --out FILE          (symtuner.rules)\n"
    "  --ranks N           GPUs to use (all)\n"
    "  --coll C,C,...      allreduce, allgather, reducescatter (allreduce)\n"
    "  --dtype T           bf16, f16 or f32 (bf16)\n"
    "  --bytes LOW..HIGH   powers of two of NCCL's nBytes (1KiB..256MiB)\n"
    "  --ledger FILE       collectives and sizes that a program used, instead of the two above\n"
    "  --ctas N,N,...      CTA counts besides NCCL's own (8,16,32,64)\n"
    "  --rounds N          3 to 9 (3)\n"
    "  --budget SECONDS    3 rounds, and more, up to 9, as long as they fit into this time\n"
    "  --no-kernels        without libsymtuner_ar.so\n"
    "  --nccl FILE         the libnccl.so.2 to measure (the loader's)\n"
    "  --fresh             forget an earlier run into the same files\n"
    "  --from FILE.csv     measure nothing: rules and report from raw data\n"
    "  --verify A[,B]      load rules that tune wrote in a fresh run, beside all that it "
    "compared:\n"
    "                      nowhere more than 3 % slower? B of a second run: nowhere 5 % apart?\n"
    "  --json              print the result for programs\n"
    "Exit 0: done. 1: failed, stopped, or not verified. 77: cannot measure here, and why.\n"
    "examples: symtuner tune --out h200x4.rules\n"
    "          symtuner tune --ledger job.ledger --ranks 8\n";

static struct st_tune tune; /* large */

struct options {
    bool json, fresh, no_kernels;
    const char *from, *verify;
};

static bool wrong(const char *what, const char *value)
{
    fprintf(stderr, "symtuner tune: %s \"%.60s\"; see symtuner tune --help\n", what, value);
    return false;
}

static bool read_option(struct options *options, const char *option, const char *value)
{
    int read = st_tune_option(&tune, "tune", option, value);

    if (read >= 0)
        return read;
    if (strcmp(option, "--out") == 0)
        return tune.out = value, true;
    if (strcmp(option, "--from") == 0)
        return options->from = value, true;
    if (strcmp(option, "--verify") == 0)
        return options->verify = value, true;
    return wrong("unknown option", option);
}

static int read_options(int argc, char **argv, struct options *options)
{
    size_t at = st_text_add(tune.command, sizeof tune.command, 0, "symtuner");

    for (int i = 0; i < argc; i++)
        at = st_text_add(tune.command, sizeof tune.command, at, " %.100s", argv[i]);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return ST_EXIT_FINE;
        }
        if (strcmp(argv[i], "--json") == 0) {
            options->json = true;
        } else if (strcmp(argv[i], "--fresh") == 0) {
            options->fresh = true;
        } else if (strcmp(argv[i], "--no-kernels") == 0) {
            options->no_kernels = true;
        } else if (i + 1 == argc) {
            wrong("unknown option, or a value is missing after", argv[i]);
            return ST_EXIT_USAGE;
        } else if (!read_option(options, argv[i], argv[i + 1])) {
            return ST_EXIT_USAGE;
        } else {
            i++;
        }
    }
    return -1;
}

/* Take over an earlier, interrupted run. */
static bool resume(const struct options *options)
{
    char error[600];

    if (options->fresh || access(tune.raw, F_OK) != 0)
        return true;
    if (!st_tune_load(&tune, false, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return false;
    }
    fprintf(stderr, "%s: %d of %d measurements are there already\n", tune.raw,
            st_tune_units(&tune, false) - st_tune_units(&tune, true), st_tune_units(&tune, false));
    return true;
}

static int finish(const struct options *options)
{
    st_tune_choose(&tune);
    if (!st_tune_write_rules(&tune) || !st_tune_write_html(&tune))
        return ST_EXIT_FINDINGS;
    (options->json ? st_tune_print_json : st_tune_print)(&tune, stdout);
    fprintf(stderr, "wrote %s, %s\n", tune.out, tune.html);
    return ST_EXIT_FINE;
}

int st_cmd_tune(int argc, char **argv)
{
    struct options options = {.json = false};
    char error[600];
    time_t today = time(NULL);
    int status;

    tune = (struct st_tune){.rounds = 3,
                            .search = true,
                            .dtype = SYMTUNER_BFLOAT16,
                            .ctas = {0, 8, 16, 32, 64},
                            .n_ctas = 5,
                            .colls = 1u << SYMTUNER_ALLREDUCE,
                            .low = 1 << 10,
                            .high = 256 << 20,
                            .out = "symtuner.rules",
                            .machine = {.nvlink = -1, .multicast = -1}};
    status = read_options(argc, argv, &options);
    if (status >= 0)
        return status;
    snprintf(tune.raw, sizeof tune.raw, "%.500s.csv", tune.out);
    snprintf(tune.html, sizeof tune.html, "%.500s.html", tune.out);
    strftime(tune.date, sizeof tune.date, "%Y-%m-%d", gmtime(&today));
    if (options.from) {
        snprintf(tune.raw, sizeof tune.raw, "%.590s", options.from);
        if (!st_tune_load(&tune, true, error, sizeof error)) {
            fprintf(stderr, "%s\n", error);
            return ST_EXIT_FINDINGS;
        }
        if (st_tune_units(&tune, true)) {
            fprintf(stderr,
                    "symtuner tune: %s is of a run that was not finished: %d of %d "
                    "measurements are missing\n",
                    tune.raw, st_tune_units(&tune, true), st_tune_units(&tune, false));
            return ST_EXIT_FINDINGS;
        }
        return finish(&options);
    }
    if (options.verify)
        return st_tune_verify(&tune, options.verify, options.json);
    status = st_tune_find_gpus(&tune, "tune", !options.no_kernels);
    if (status >= 0)
        return status;
    if (!resume(&options))
        return ST_EXIT_FINDINGS;
    status = st_tune_measure(&tune, "tune");
    return status == ST_EXIT_FINE ? finish(&options) : status;
}
