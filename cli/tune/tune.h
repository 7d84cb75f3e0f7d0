/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.h - what symtuner tune measures, and what it makes of it.
 *
 * The plan is a number of rounds; each round measures every setting once, in a process of its own,
 * in an order that rotates. A candidate is one way to run a collective: general kernels, NCCL's
 * symmetric kernels with a CTA count, symtuner's kernels. For the last there is a setting more, in
 * which each size is run in several ways (kernel, blocks, threads): the first is the library's own.
 *
 * Units      bytes are NCCL's nBytes; microseconds per call, of the slowest rank; GB/s are 10^9.
 * Ownership  one static struct st_tune. Errors  are printed where they happen.
 */
#ifndef ST_TUNE_H_
#define ST_TUNE_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/json.h"
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

/* Not a CTA count: NCCL with symtuner's plugin (symtuner bench). */
enum { ST_TUNE_PLUGIN = -1 };

/* Candidates 0 and 1 are fixed, the others are the CTA counts in the order of the plan. */
enum { ST_GENERAL, ST_OWN, ST_SYMMETRIC };

struct st_cell {
    double us[ST_TUNE_ROUNDS]; /* 0: not measured */
    int n;
    double median, sigma; /* of the rounds   */
};

/* One way to run symtuner's kernels at one size: "one_ll8/16/128". */
struct st_way {
    char name[48];
    struct st_cell cell;
};

/* What the rules say at one size. */
enum { ST_SAY_NCCL = -1, ST_SAY_NOTHING = 0 }; /* above: ask for that way */

struct st_tune {
    /* the plan */
    int ranks, rounds, ctas[ST_TUNE_CTAS], n_ctas; /* 0 CTAs: as NCCL chooses */
    bool own, search; /* with symtuner's kernels; in several ways                 */
    unsigned colls;   /* bit per collective                                       */
    int dtype;        /* NCCL's number                                            */
    int budget_s;     /* for more than 3 rounds; 0: as many as ${rounds} says     */
    uint64_t low, high;
    /* the box */
    struct symtuner_machine machine;
    int nccl;
    double floor_gbps;
    char date[32];
    /* what was measured */
    struct st_cell cell[SYMTUNER_COLLS][ST_TUNE_CANDIDATES][ST_TUNE_SIZES];
    struct st_way way[ST_TUNE_SIZES][ST_TUNE_WAYS]; /* all-reduce; [0] is the library's choice */
    int ways[ST_TUNE_SIZES];
    struct st_way ruled[ST_TUNE_RULES]
                       [ST_TUNE_SIZES]; /* --verify: what the rules gave, and its time */
    bool done[ST_TUNE_ROUNDS][SYMTUNER_COLLS][ST_TUNE_CTAS + 1 + ST_TUNE_RULES];
    /* what was chosen */
    int chosen; /* index into ctas                                   */
    int policy[SYMTUNER_COLLS][ST_TUNE_SIZES]; /* candidate; -1 none                   */
    int pick[ST_TUNE_SIZES]; /* way that is symtuner's column                     */
    int say[ST_TUNE_SIZES];  /* ST_SAY_NCCL, ST_SAY_NOTHING or a way              */
    char why[300];           /* ... the CTA count                                 */
    /* files */
    const char *out;                   /* rules to write */
    const char *rules;                 /* ... to use with ST_TUNE_PLUGIN, or NULL */
    const char *verify[ST_TUNE_RULES]; /* rules to compare with the alternatives; NULL: none */
    char raw[600], html[600];
    const char *nccl_file; /* NULL: as the loader finds it                      */
    char command[400];
    const char *from, *verify_files; /* options of tune; NULL: not given */
    bool json, fresh, no_kernels, force;
};

/* data.c */
int st_tune_sizes(const struct st_tune *tune);
uint64_t st_tune_bytes(const struct st_tune *tune, int size);
int st_tune_candidates(const struct st_tune *tune);
const char *st_tune_name(const struct st_tune *tune, int candidate, char text[48]);
double st_tune_busbw(const struct st_tune *tune, int coll, uint64_t bytes, double us);
double st_tune_floor(const struct st_tune *tune, int coll, uint64_t bytes);
/* Settings, and whether a collective has this one: ways of our kernels come behind the CTA counts,
 * and rules to verify behind those. */
int st_tune_settings(const struct st_tune *tune);
bool st_tune_has(const struct st_tune *tune, int coll, int setting);
/* Modes that setting ${s} measures: general kernels ride with the first one, and so do our own
 * where no ways are compared. */
const char *st_tune_modes(const struct st_tune *tune, int coll, int setting);
/* "BYTES:WAY,..." of the first round, for the later ones; "" before. Freed with free(). */
char *st_tune_ways(const struct st_tune *tune);
/* The way's number at ${size}; makes one when it is new and there is room, else -1. */
int st_tune_way(struct st_tune *tune, int size, const char *name);
/* Take over what a worker printed for one unit. False, and the reason, when it makes no sense. */
bool st_tune_take(struct st_tune *tune, int round, int coll, int setting, const char *output,
                  char *error, size_t size);
/* Store one measurement. False: its size, candidate, way or time is out of the plan. */
bool st_tune_put(struct st_tune *tune, int round, int coll, int candidate, uint64_t bytes, double us);
bool st_tune_put_way(struct st_tune *tune, int round, const char *name, uint64_t bytes, double us);
/* error = "${what}: "${line}""; false, so that a reader can return it. */
bool st_tune_wrong(char *error, size_t size, const char *what, const char *line);

/* raw.c: the raw data file: write all complete units; read them back. A plan that differs is an error. */
extern const char st_tune_first_line[];
bool st_tune_save(const struct st_tune *tune);
bool st_tune_load(struct st_tune *tune, bool take_plan, char *error, size_t size);

/* read.c: the options of bench, which are the first of all, and of tune, which are the last.
 */
enum { ST_TUNE_OPTIONS = 19, ST_BENCH_OPTIONS = 14, ST_BENCH_ALONE = 2 };
extern const struct st_option st_tune_options[ST_TUNE_OPTIONS];

/* run.c: exit statuses; st_tune_find_gpus gives -1 when it can be measured here. */
int st_tune_find_gpus(struct st_tune *tune, const char *command, bool kernels);
int st_tune_measure(struct st_tune *tune, const char *command);
int st_tune_units(const struct st_tune *tune, bool only_open);

/* kernels.c: the [kernels] rules; sizes that are said alike are one rule */
void st_tune_write_kernels(const struct st_tune *tune, FILE *out);

/* verify.c: rules in a fresh run beside all that tune compared; exit status */
int st_tune_verify(struct st_tune *tune, const char *files, bool json);

/* choose.c: median and sigma of everything measured; and, on top of them, the 2-sigma and 5 %
 * rule, one CTA count, one candidate per size */
void st_tune_summarise(struct st_tune *tune);
void st_tune_choose(struct st_tune *tune);

/* write.c: what tune found: as rules, for a terminal, for programs */
bool st_tune_write_rules(const struct st_tune *tune);
void st_tune_print(const struct st_tune *tune, FILE *out);
void st_tune_print_json(const struct st_tune *tune, FILE *out);
void st_tune_json(struct st_json *json, const char *key, const struct st_tune *tune);

/* report.c: as a page */
bool st_tune_write_report(const struct st_tune *tune);

#endif
