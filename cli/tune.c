/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - symtuner tune: measure this box, write rules, raw data and a report. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/commands.h"
#include "cli/cuda.h"
#include "cli/ledger_read.h"
#include "cli/text.h"
#include "cli/tune.h"

static const char help[] =
    "usage: symtuner tune [options]\n"
    "Measure NCCL's general kernels, its symmetric kernels over CTA counts and symtuner's kernels on\n"
    "this box; write rules for it (FILE), the raw data (FILE.csv) and a report (FILE.html). Results\n"
    "are checked before they are timed. Ctrl-C stops; the same command goes on where it stopped.\n"
    "  --out FILE          (symtuner.rules)\n"
    "  --ranks N           GPUs to use (all)\n"
    "  --coll C,C,...      allreduce, allgather, reducescatter (allreduce)\n"
    "  --bytes LOW..HIGH   powers of two of NCCL's nBytes (1KiB..256MiB)\n"
    "  --ledger FILE       collectives and sizes that a program used, instead of the two above\n"
    "  --ctas N,N,...      CTA counts besides NCCL's own (8,16,32,64)\n"
    "  --rounds N          3 to 9 (3)\n"
    "  --no-kernels        without libsymtuner_ar.so\n"
    "  --nccl FILE         the libnccl.so.2 to measure (the loader's)\n"
    "  --fresh             forget an earlier run into the same files\n"
    "  --from FILE.csv     measure nothing: rules and report from raw data\n"
    "  --json              print the result for programs\n"
    "Exit 0: done. 1: failed, or stopped. 77: cannot measure here, and why.\n"
    "examples: symtuner tune --out h200x4.rules\n"
    "          symtuner tune --ledger job.ledger --ranks 8\n";

static struct st_tune tune; /* large */

struct options {
    bool json, fresh, no_kernels;
    const char *from, *ledger;
};

static bool wrong(const char *what, const char *value)
{
    fprintf(stderr, "symtuner tune: %s \"%.60s\"; see symtuner tune --help\n", what, value);
    return false;
}

static bool read_ctas(const char *value)
{
    const char *at = value;

    tune.n_ctas = 1;
    for (;; at++) {
        char *end;
        long n = strtol(at, &end, 10);

        if (end == at || n < 1 || n > 64 || tune.n_ctas == ST_TUNE_CTAS)
            return wrong("--ctas wants up to 11 numbers from 1 to 64, not", value);
        tune.ctas[tune.n_ctas++] = (int)n;
        at = end;
        if (*at == '\0')
            return true;
        if (*at != ',')
            return wrong("--ctas wants numbers such as 8,16,32, not", value);
    }
}

static bool read_colls(const char *value)
{
    char word[32];

    tune.colls = 0;
    for (;;) {
        size_t length = strcspn(value, ",");
        int coll;

        snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), value);
        coll = symtuner_coll_parse(word);
        if (coll != SYMTUNER_ALLREDUCE && coll != SYMTUNER_ALLGATHER &&
            coll != SYMTUNER_REDUCESCATTER)
            return wrong("--coll: only allreduce, allgather and reducescatter have symmetric "
                         "kernels, not", word);
        tune.colls |= 1u << coll;
        if (value[length] == '\0')
            return true;
        value += length + 1;
    }
}

static bool read_bytes(const char *value)
{
    const char *dots = strstr(value, "..");
    char word[64], error[SYMTUNER_ERROR_MAX];

    if (!dots || (size_t)(dots - value) >= sizeof word)
        return wrong("--bytes wants a range such as 1KiB..256MiB, not", value);
    snprintf(word, sizeof word, "%.*s", (int)(dots - value), value);
    if (symtuner_size_parse(word, &tune.low, error, sizeof error) != 0 ||
        symtuner_size_parse(dots + 2, &tune.high, error, sizeof error) != 0)
        return wrong("--bytes:", error);
    if (tune.low < 256 || tune.low & (tune.low - 1) || tune.high & (tune.high - 1) ||
        tune.low > tune.high || tune.high > (uint64_t)4 << 30)
        return wrong("--bytes wants powers of two from 256 to 4GiB, the smaller first, not", value);
    return true;
}

static bool read_number(const char *option, const char *value, int least, int most, int *out)
{
    char *end;
    long n = strtol(value, &end, 10);

    if (*end || end == value || n < least || n > most)
        return wrong(option, value);
    *out = (int)n;
    return true;
}

static bool read_option(struct options *options, const char *option, const char *value)
{
    if (strcmp(option, "--out") == 0)
        return tune.out = value, true;
    if (strcmp(option, "--ranks") == 0)
        return read_number(option, value, 2, 16, &tune.ranks);
    if (strcmp(option, "--rounds") == 0)
        return read_number("--rounds (3 to 9)", value, 3, ST_TUNE_ROUNDS, &tune.rounds);
    if (strcmp(option, "--coll") == 0)
        return read_colls(value);
    if (strcmp(option, "--bytes") == 0)
        return read_bytes(value);
    if (strcmp(option, "--ctas") == 0)
        return read_ctas(value);
    if (strcmp(option, "--ledger") == 0)
        return options->ledger = value, true;
    if (strcmp(option, "--nccl") == 0)
        return tune.nccl_file = value, true;
    if (strcmp(option, "--from") == 0)
        return options->from = value, true;
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

/* Collectives and sizes that a program used: sums and gathers of the ledger, from .. to. */
static bool take_ledger(const char *path)
{
    struct st_ledgers ledgers = {0};
    char error[SYMTUNER_ERROR_MAX];
    uint64_t low = UINT64_MAX, high = 0;

    if (!st_ledgers_read(&ledgers, path, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        st_ledgers_free(&ledgers);
        return false;
    }
    tune.colls = 0;
    for (int b = 0; b < ledgers.blocks; b++)
        for (int r = 0; r < ledgers.block[b].rows; r++) {
            const struct st_ledger_row *row = &ledgers.block[b].row[r];

            if (row->coll < SYMTUNER_ALLGATHER)
                continue;
            tune.colls |= 1u << row->coll;
            low = row->lo < low ? row->lo : low;
            high = row->hi > high ? row->hi : high;
        }
    st_ledgers_free(&ledgers);
    for (tune.low = 256; tune.low * 2 <= low; tune.low *= 2)
        ;
    for (tune.high = tune.low; tune.high * 2 <= high && tune.high < (uint64_t)4 << 30; tune.high *= 2)
        ;
    return tune.colls || wrong("no allreduce, allgather or reducescatter in", path);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int units(bool only_open)
{
    int n = 0;

    for (int r = 0; r < tune.rounds; r++)
        for (int c = 0; c < SYMTUNER_COLLS; c++)
            for (int s = 0; s < tune.n_ctas && tune.colls >> c & 1; s++)
                n += !only_open || !tune.done[r][c][s];
    return n;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void progress(double began, int measured, const char *what)
{
    enum { BAR = 30 };
    int all = units(false), open = units(true), full = BAR * (all - open) / all;
    bool terminal = isatty(2);
    char bar[BAR + 1];

    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)full);
    bar[BAR] = '\0';
    fprintf(stderr, "%s[%s] %d of %d", terminal ? "\r" : "", bar, all - open, all);
    if (measured > 0 && open > 0) {
        int left = (int)((now() - began) / measured * open + 0.5);

        fprintf(stderr, ", %d:%02d left", left / 60, left % 60);
    }
    fprintf(stderr, "  %-28s%s", open ? what : "", terminal && open ? "" : "\n");
}

/* One process: one setting, one collective, all sizes. */
static enum st_child_end run_unit(int round, int coll, int setting, char *error, size_t size)
{
    char ranks[12], low[24], high[24], number[12], seed[12], ctas[32] = "NCCL_SYM_CTAS";
    const char *arguments[] = {"measure", ranks, tune.nccl_file ? tune.nccl_file : "-",
                               st_tune_modes(&tune, coll, setting), number, low, high, seed, NULL};
    /* NCCL as it is: no plugin, and our CTA count instead of anybody else's */
    const char *set[] = {"NCCL_TUNER_PLUGIN=none", "NCCL_ENV_PLUGIN", "NCCL_PROFILER_PLUGIN",
                         "NCCL_SYM_KERNEL", "NCCL_ALGO", "NCCL_PROTO", ctas, NULL};
    struct st_child child = {.arguments = arguments, .set = set, .limit_s = 180};
    enum st_child_end end;

    snprintf(ranks, sizeof ranks, "%d", tune.ranks);
    snprintf(number, sizeof number, "%d", coll);
    snprintf(low, sizeof low, "%llu", (unsigned long long)tune.low);
    snprintf(high, sizeof high, "%llu", (unsigned long long)tune.high);
    snprintf(seed, sizeof seed, "%u", (unsigned)(round * 131 + setting * 17 + coll + 1));
    if (tune.ctas[setting])
        snprintf(ctas, sizeof ctas, "NCCL_SYM_CTAS=%d", tune.ctas[setting]);
    end = st_child_run(&child);
    snprintf(error, size, "%s", end == ST_CHILD_TIMEOUT ? "no end after 180 s" : child.error);
    if (end == ST_CHILD_DONE && !st_tune_take(&tune, round, coll, setting, child.output, error, size))
        end = ST_CHILD_FAILED;
    free(child.output);
    return end;
}

static int measure(void)
{
    char error[400], what[48], name[48];
    double began = now();
    int measured = 0;

    st_child_catch_signals();
    for (int r = 0; r < tune.rounds; r++)
        for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
            for (int i = 0; i < tune.n_ctas; i++) {
                int s = (i + r) % tune.n_ctas; /* no setting is always first */
                enum st_child_end end;

                if (!(tune.colls >> c & 1) || tune.done[r][c][s])
                    continue;
                snprintf(what, sizeof what, "%s %s", symtuner_coll_name(c),
                         st_tune_name(&tune, ST_SYMMETRIC + s, name));
                progress(began, measured, what);
                end = st_child_stop_asked() ? ST_CHILD_STOPPED
                                            : run_unit(r, c, s, error, sizeof error);
                if (end == ST_CHILD_STOPPED) {
                    fprintf(stderr, "\nstopped; the same command goes on from here (%s)\n", tune.raw);
                    return ST_EXIT_FINDINGS;
                }
                if (end != ST_CHILD_DONE) {
                    fprintf(stderr, "\nsymtuner tune: %s, round %d: %s\n", what, r + 1, error);
                    return ST_EXIT_FINDINGS;
                }
                measured++;
                if (!st_tune_save(&tune))
                    return ST_EXIT_FINDINGS;
            }
    progress(began, measured, "");
    return ST_EXIT_FINE;
}

/* GPUs, NCCL and our kernels: -1 when they are here, else the exit status. */
static int find_gpus(struct options *options)
{
    struct st_cuda cuda;
    struct st_ar ar;
    char error[400];
    int gpus = 0;

    if (!st_cuda_load(&cuda, &gpus, error, sizeof error)) {
        fprintf(stderr, "symtuner tune: cannot measure here: %s\n", error);
        return ST_EXIT_CANNOT;
    }
    if (tune.ranks == 0)
        tune.ranks = gpus > 16 ? 16 : gpus;
    if (gpus < 2 || gpus < tune.ranks) {
        fprintf(stderr, "symtuner tune: cannot measure here: %d ranks need %d GPUs, %d here\n",
                tune.ranks, tune.ranks < 2 ? 2 : tune.ranks, gpus);
        return ST_EXIT_CANNOT;
    }
    symtuner_machine_find(&tune.machine);
    if (!tune.machine.gpu[0])
        fprintf(stderr, "symtuner tune: these GPUs have no common name; the rules will not say for "
                        "which they are\n");
    tune.own = !options->no_kernels && tune.colls >> SYMTUNER_ALLREDUCE & 1;
    if (tune.own && !st_ar_load(&ar, error, sizeof error)) {
        fprintf(stderr, "symtuner tune: without symtuner's kernels: %s\n", error);
        tune.own = false;
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
            units(false) - units(true), units(false));
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

    tune = (struct st_tune){.rounds = 3, .ctas = {0, 8, 16, 32, 64}, .n_ctas = 5,
                            .colls = 1u << SYMTUNER_ALLREDUCE, .low = 1 << 10, .high = 256 << 20,
                            .out = "symtuner.rules", .machine = {.nvlink = -1, .multicast = -1}};
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
        if (units(true)) {
            fprintf(stderr, "symtuner tune: %s is of a run that was not finished: %d of %d "
                            "measurements are missing\n", tune.raw, units(true), units(false));
            return ST_EXIT_FINDINGS;
        }
        return finish(&options);
    }
    if (options.ledger && !take_ledger(options.ledger))
        return ST_EXIT_FINDINGS;
    status = find_gpus(&options);
    if (status >= 0)
        return status;
    if (!resume(&options))
        return ST_EXIT_FINDINGS;
    status = measure();
    return status == ST_EXIT_FINE ? finish(&options) : status;
}
