/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.h - the measurements of symtuner tune and symtuner bench, and what tune chooses from them.
 *
 * A candidate is one kind of kernels for a collective: NCCL's general kernels, NCCL's symmetric
 * kernels with some CTA count, or symtuner's kernels, those of the library libsymtuner_ar.so. We
 * measure several ways to run symtuner's kernels at each size. A way is a kernel with a number of
 * CTAs (blocks) and of threads; way 0 is the library's own choice.
 *
 * NCCL reads its CTA count once per process. So a process measures one setting: a CTA count, the
 * ways, or rules to verify. A round measures every setting once, and each round starts with a
 * different setting. A unit is one setting and one collective in one round; it has a process of its
 * own. With --beside every setting is measured a second time, beside GEMMs.
 *
 * Units: bytes are NCCL's nBytes; times are microseconds per call on the slowest rank; a GB is 10^9
 * bytes. Ownership: one static struct st_tune. Errors: printed where they happen.
 */
#ifndef ST_TUNE_H_
#define ST_TUNE_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/json.h"
#include "cli/ledger/read.h"
#include "cli/options.h"
#include "symtuner.h"

enum {
    ST_TUNE_SIZES = 32,
    ST_TUNE_ROUNDS = 9,
    ST_TUNE_CTAS = 12,
    ST_TUNE_CANDIDATES = ST_TUNE_CTAS + 2,
    ST_TUNE_WAYS = 12,
    ST_TUNE_RULES = 2
};

/* Settings have numbers. Number ST_TUNE_BESIDE + s is setting s beside GEMMs. ST_TUNE_AGAIN
 * measures the same as ST_TUNE_BESIDE once more: the differences between the two are noise
 * (A/A). */
enum {
    ST_TUNE_BESIDE = ST_TUNE_CTAS + 1 + ST_TUNE_RULES,
    ST_TUNE_AGAIN = ST_TUNE_BESIDE + ST_TUNE_CTAS + 1,
    ST_TUNE_SETTINGS = 2 * ST_TUNE_BESIDE
};

/* An entry of ctas[] that is no count: NCCL runs with symtuner's plugin (symtuner bench). */
enum { ST_TUNE_PLUGIN = -1 };

/* Candidates: NCCL's general kernels, symtuner's kernels, and NCCL's symmetric kernels.
 * ST_SYMMETRIC + i runs with CTA count ctas[i]. */
enum { ST_GENERAL, ST_OWN, ST_SYMMETRIC };

struct st_cell {
    /* [round]: the time; 0: not measured. Beside GEMMs it is what a call adds to them, which may be
     * below 0. */
    double us[ST_TUNE_ROUNDS];
    int n;                     /* the number of measured rounds */
    double median, sigma;      /* median and standard deviation of the measured rounds, in us */
};

/* One way to run symtuner's kernels at one size. The name is KERNEL/CTAS/THREADS, such as
 * "one_ll8/16/128". */
struct st_way {
    char name[48];
    struct st_cell cell;
};

/* What the rules choose at one size: NCCL, or nothing, so that the library's own choice stays. A
 * number above 0 chooses a way: it is an index into way[]. */
enum { ST_SAY_NCCL = -1, ST_SAY_NOTHING = 0 };

/* What was measured and chosen beside GEMMs. Members that struct st_tune has, too, mean the same as
 * there, but for calls beside GEMMs. */
struct st_tune_beside {
    struct st_cell cell[SYMTUNER_COLLS][ST_TUNE_CANDIDATES][ST_TUNE_SIZES];
    struct st_cell again[SYMTUNER_COLLS][ST_TUNE_SIZES]; /* ST_SYMMETRIC measured again (A/A) */
    struct st_cell gemms[SYMTUNER_COLLS][ST_TUNE_SIZES]; /* the GEMMs without calls, in us */
    struct st_way way[SYMTUNER_COLLS][ST_TUNE_SIZES][ST_TUNE_WAYS];
    int ways[SYMTUNER_COLLS][ST_TUNE_SIZES];
    int pick[SYMTUNER_COLLS][ST_TUNE_SIZES];
    int say[SYMTUNER_COLLS][ST_TUNE_SIZES];
    /* Beside GEMMs, the rules' choice for calls alone is not slower than NCCL's own choice and the
     * library's own choice. */
    bool holds[SYMTUNER_COLLS][ST_TUNE_SIZES];
    char why[300]; /* why the CTA count is not the one that is best alone; "": it is */
};

struct st_tune {
    /* the plan */
    bool beside; /* measure beside GEMMs, too */
    int ranks, rounds;
    int ctas[ST_TUNE_CTAS], n_ctas; /* the CTA counts; 0: NCCL chooses               */
    unsigned own;                   /* bit c is set: measure symtuner's kernels for
                                     * collective c                                  */
    bool search;                    /* measure symtuner's kernels in several ways    */
    unsigned colls;                 /* bit c is set: measure collective c            */
    int dtype;                      /* NCCL's number of the type                     */
    int budget_s;                   /* time for all rounds, in seconds; only the first
                                     * three rounds may take longer; 0: no limit     */
    uint64_t low, high;             /* the smallest and the largest size, powers of two */
    /* the box */
    struct symtuner_machine machine;
    int nccl;          /* NCCL's release: 22809 is 2.28.9; 0: not known yet */
    double floor_gbps; /* rate of the copy engine between two GPUs, in GB/s */
    char date[32];
    /* what was measured */
    /* [collective][candidate][size] */
    struct st_cell cell[SYMTUNER_COLLS][ST_TUNE_CANDIDATES][ST_TUNE_SIZES];
    /* [collective][size][way]; way 0 is the library's choice */
    struct st_way way[SYMTUNER_COLLS][ST_TUNE_SIZES][ST_TUNE_WAYS];
    int ways[SYMTUNER_COLLS][ST_TUNE_SIZES];           /* how many ways there are at each size */
    /* --verify: the way that the rules chose: [rules][collective][size] */
    struct st_way ruled[ST_TUNE_RULES][SYMTUNER_COLLS][ST_TUNE_SIZES];
    /* [round][collective][setting]: the unit has been measured */
    bool done[ST_TUNE_ROUNDS][SYMTUNER_COLLS][ST_TUNE_SETTINGS];
    struct st_tune_beside by; /* measured and chosen beside GEMMs */
    /* what was chosen */
    int chosen;                                /* the CTA count, as an index into ctas[]   */
    int policy[SYMTUNER_COLLS][ST_TUNE_SIZES]; /* the fastest candidate; -1: none measured */
    int pick[SYMTUNER_COLLS][ST_TUNE_SIZES];   /* the best way; ST_OWN gets its times      */
    int say[SYMTUNER_COLLS][ST_TUNE_SIZES];    /* the rules' choice: ST_SAY_... or a way   */
    char why[300];                             /* why this CTA count was chosen            */
    /* files */
    const char *out;                   /* rules file to write              */
    const char *rules;                 /* bench: rules to load, or NULL    */
    const char *verify[ST_TUNE_RULES]; /* rules to verify, or NULL         */
    char raw[600], html[600];          /* names of the raw data file and of the report */
    /* the libnccl.so.2 to measure; NULL: not chosen yet, or the one that the loader finds */
    const char *nccl_file;
    char command[400];     /* the command line */
    const char *from, *verify_files; /* values of --from and --verify, or NULL */
    struct st_ledgers ledger;        /* what the file of --ledger holds        */
    const char *ledger_file;         /* the name of this file, or NULL         */
    bool json, fresh, no_kernels, force;
};

/* data.c */
/* st_tune_sizes returns the number of sizes. st_tune_bytes returns how many bytes size number
 * ${size} has: low << size. */
int st_tune_sizes(const struct st_tune *tune);
uint64_t st_tune_bytes(const struct st_tune *tune, int size);
/* st_tune_candidates returns the number of candidates. st_tune_name fills ${text} with the name of
 * a candidate, such as "symmetric/16", and returns ${text}. */
int st_tune_candidates(const struct st_tune *tune);
const char *st_tune_name(const struct st_tune *tune, int candidate, char text[48]);
/* Return the bus bandwidth in GB/s of a call of ${us} microseconds. */
double st_tune_busbw(const struct st_tune *tune, int coll, uint64_t bytes, double us);
/* st_tune_settings returns the number of settings. st_tune_has returns whether ${coll} is measured
 * with ${setting}. The first n_ctas settings are the CTA counts. If ways are compared, the next
 * setting is for the ways. The last settings are the rules to verify. st_tune_settings does not
 * count the settings beside GEMMs, whose numbers begin with ST_TUNE_BESIDE. */
int st_tune_settings(const struct st_tune *tune);
bool st_tune_has(const struct st_tune *tune, int coll, int setting);
/* Return the modes (cli/gpu/worker.c) in which the worker measures ${setting}. Setting 0 also
 * measures general kernels, except with --verify. If no ways are compared, setting 0 also measures
 * symtuner's kernels. */
const char *st_tune_modes(const struct st_tune *tune, int coll, int setting);
/* Return all known ways of ${coll} as "BYTES:WAY,...", so that the next round measures the same
 * ways. Returns "" if no way is known, as before the first round, and NULL if there is no memory.
 * Beside GEMMs the first round gets "+" and the ways that were measured alone. Free the result with
 * free(). */
char *st_tune_ways(const struct st_tune *tune, int coll, bool beside);
/* Return the index of the way ${name} of ${coll} at size number ${size}; add the way if it is new.
 * Returns -1 if there is no room or if ${name} is not a way. */
int st_tune_way(struct st_tune *tune, int coll, int size, const char *name);
/* Store the output of the worker that measured one unit. Returns false, with the reason in
 * ${error}, if the output does not fit the plan. */
bool st_tune_take(struct st_tune *tune, int round, int coll, int setting, const char *output,
                  char *error, size_t size);
/* Store one measured time, ${us}: st_tune_put for a candidate, st_tune_put_way for a way. Both
 * return false if the size, candidate or way is not in the plan, or if ${us} is not above 0 or is
 * above 1e9. */
bool st_tune_put(struct st_tune *tune, int round, int coll, int candidate, uint64_t bytes,
                 double us);
bool st_tune_put_way(struct st_tune *tune, int round, int coll, const char *name, uint64_t bytes,
                     double us);
/* Return the index of the size ${bytes}, or -1. */
int st_tune_size_of(const struct st_tune *tune, uint64_t bytes);
/* Return the number of the setting that is like ${setting}, but without GEMMs. ${setting} itself
 * may be without them. */
int st_tune_alone(int setting);
/* Set ${error} to: ${what}: "${line}". Returns false, so that the caller can return it. */
bool st_tune_wrong(char *error, size_t size, const char *what, const char *line);

/* beside.c: calls beside GEMMs */
/* Store one time of setting ${setting}. ${name} is a candidate, "A/A", a way, or "gemms" for the
 * GEMMs without calls. Returns false as st_tune_put does, but only for "gemms" must ${us} be above
 * 0. */
bool st_tune_put_beside(struct st_tune *tune, int round, int coll, int setting, const char *name,
                        uint64_t bytes, double us);
/* Return the argument BESIDE of the worker (cli/gpu/beside.c) for ${coll}: how long the GEMMs are
 * to take at each size, and how many calls run beside them. Both depend on how long a call takes
 * alone with NCCL's own CTA count in the first round. Free the result with free(). */
char *st_tune_amounts(const struct st_tune *tune, int coll);
/* Return about how many seconds the units beside GEMMs that are not done will take. */
int st_tune_beside_seconds(const struct st_tune *tune);
/* Is it true at every size that a call with CTA count ${setting} adds at most 3 % more to GEMMs
 * than a call with NCCL's own count? If not, say so in ${why}. True if nothing was measured beside
 * GEMMs. */
bool st_tune_ctas_hold(const struct st_tune *tune, int setting, char *why, size_t size);
/* Choose what the rules say for calls beside GEMMs. */
void st_tune_choose_beside(struct st_tune *tune);
/* Return the times beside GEMMs of the way that the rules choose. If the rules choose NCCL, return
 * the times of NCCL's symmetric kernels with the chosen CTA count. */
const struct st_cell *st_tune_said_beside(const struct st_tune *tune, int coll, int size);
/* Beside GEMMs NCCL's own choice is measured twice. Return the difference in us between the two
 * results. */
double st_tune_noise(const struct st_tune *tune, int coll, int size);
/* Print what was measured beside GEMMs, for the terminal or as JSON. Both write nothing without
 * --beside. */
void st_tune_print_beside(const struct st_tune *tune, FILE *out);
void st_tune_json_beside(struct st_json *json, const struct st_tune *tune);

/* raw.c: write all complete units to the raw data file, or read them back. If ${take_plan} is set,
 * the file's plan replaces that of ${tune}. Otherwise a file with another plan is an error.
 * st_tune_load returns SYMTUNER_EIO if the file cannot be read, and SYMTUNER_ESYNTAX if it is
 * wrong. */
bool st_tune_save(const struct st_tune *tune);
enum symtuner_status st_tune_load(struct st_tune *tune, bool take_plan, char *error, size_t size);

/* read.c: the options. The first ST_BENCH_ALONE are for bench only, the next ones, up to number
 * ST_BENCH_OPTIONS, are for bench and tune, and the rest is for tune only. */
enum { ST_TUNE_OPTIONS = 20, ST_BENCH_OPTIONS = 15, ST_BENCH_ALONE = 2 };
extern const struct st_option st_tune_options[ST_TUNE_OPTIONS];
/* Set the defaults that both commands share, and today's date. */
void st_tune_defaults(struct st_tune *tune);

/* run.c: find out whether this box can measure, and complete the plan. If ${kernels} is false,
 * leave out symtuner's kernels. Returns -1 if the box can measure, else the exit status. */
int st_tune_find_gpus(struct st_tune *tune, const char *command, bool kernels);
/* Measure all units that are not done. Returns the exit status. */
int st_tune_measure(struct st_tune *tune, const char *command);
/* Return the number of units of the plan. If ${only_open} is set, count only those not done. */
int st_tune_units(const struct st_tune *tune, bool only_open);

/* kernels.c: write the [kernels] rules. Neighbouring sizes of a collective with the same chosen way
 * share a rule. */
void st_tune_write_kernels(const struct st_tune *tune, FILE *out);
/* Does the kernel of ${way} always copy the caller's buffers? If not, tune's times and rule for it
 * hold only for registered buffers, because tune measures with registered buffers. */
bool st_tune_copies(const char *way);

/* Would the plugin and the library accept the rules in ${file} on this box with NCCL release
 * ${nccl}? If so, return ST_EXIT_FINE. If not, print why and return another exit status. If ${nccl}
 * is 0, do not check for which release and box the rules are. */
int st_tune_try_rules(const struct st_tune *tune, const char *file, int nccl);

/* verify.c: measure calls with the rules of ${files} ("A" or "A,B"), in turns with the candidates
 * that the earlier run of tune compared. Print whether the rules are still good. Returns the exit
 * status. */
int st_tune_verify(struct st_tune *tune, const char *files, bool json);

/* choose.c: st_tune_summarise computes medians and standard deviations. st_tune_choose calls
 * st_tune_summarise, then chooses one CTA count and, for each size, a candidate and the rule that
 * selects it. */
void st_tune_summarise(struct st_tune *tune);
/* Is ${a} faster than ${b} by more than ${share} of the time of ${b}, by more than two standard
 * deviations of the difference, and by more than ${noise} us? */
bool st_tune_faster(const struct st_cell *a, const struct st_cell *b, double share, double noise);
void st_tune_choose(struct st_tune *tune);

/* gain.c: print how much time the calls in the file of --ledger would save, or write it as the JSON
 * member "gain". */
void st_tune_print_gain(const struct st_tune *tune, FILE *out);
void st_tune_json_gain(struct st_json *json, const struct st_tune *tune);

/* write.c: st_tune_print_cell prints median and standard deviation of ${cell}. st_tune_print_right
 * prints ${text}, right-aligned in ${width} columns. st_tune_json_cell opens an element of "cells";
 * the caller adds the last members and closes it. */
void st_tune_print_cell(FILE *out, const struct st_cell *cell, int width);
void st_tune_print_right(FILE *out, const char *text, int width);
void st_tune_json_cell(struct st_json *json, const char *coll, uint64_t bytes,
                       const char *candidate, const struct st_cell *cell);

/* write.c: write the result as rules, as text for a terminal, and as JSON. */
bool st_tune_write_rules(const struct st_tune *tune);
void st_tune_print(const struct st_tune *tune, FILE *out);
void st_tune_print_json(const struct st_tune *tune, FILE *out);
/* With ${files}, the JSON also has the names of the files, as the user gave them. */
void st_tune_json(struct st_json *json, const char *key, const struct st_tune *tune, bool files);

/* report.c: write the result as a page for a browser. */
bool st_tune_write_report(const struct st_tune *tune);

#endif
