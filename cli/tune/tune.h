/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.h - what symtuner tune and symtuner bench measure, and what tune makes of it.
 *
 * A candidate is one way to run a collective: NCCL's general kernels, its symmetric kernels with
 * some CTA count, or symtuner's kernels. The last ones run in several ways (kernel, blocks,
 * threads) at each size; the first way is the library's own choice.
 *
 * A setting is what one process can measure: a CTA count is read once per process. A round measures
 * every setting once, each in a process of its own, in an order that rotates. A unit is one setting
 * and one collective in one round.
 *
 * Units: bytes are NCCL's nBytes; times are microseconds per call on the slowest rank; GB/s are
 * 10^9. Ownership: one static struct st_tune. Errors: printed where they happen.
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

/* In place of a CTA count: NCCL with symtuner's plugin (symtuner bench). */
enum { ST_TUNE_PLUGIN = -1 };

/* Candidates. From ST_SYMMETRIC on: the CTA counts in the order of the plan. */
enum { ST_GENERAL, ST_OWN, ST_SYMMETRIC };

struct st_cell {
    double us[ST_TUNE_ROUNDS]; /* 0: not measured */
    int n;
    double median, sigma; /* of the rounds */
};

/* One way to run symtuner's kernels at one size: "one_ll8/16/128". */
struct st_way {
    char name[48];
    struct st_cell cell;
};

/* What the rules ask for at one size; above 0, the number of a way. */
enum { ST_SAY_NCCL = -1, ST_SAY_NOTHING = 0 };

struct st_tune {
    /* the plan */
    int ranks, rounds;
    int ctas[ST_TUNE_CTAS], n_ctas; /* 0 CTAs: as NCCL chooses                       */
    bool own, search;               /* with symtuner's kernels; in several ways      */
    unsigned colls;                 /* bit per collective                            */
    int dtype;                      /* NCCL's number                                 */
    int budget_s;                   /* time for rounds beyond the third; 0: no limit */
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
    struct st_way ruled[ST_TUNE_RULES][ST_TUNE_SIZES]; /* --verify: what the rules chose */
    bool done[ST_TUNE_ROUNDS][SYMTUNER_COLLS][ST_TUNE_CTAS + 1 + ST_TUNE_RULES];
    /* what was chosen */
    int chosen;                                /* index into ctas                   */
    int policy[SYMTUNER_COLLS][ST_TUNE_SIZES]; /* fastest kind: a candidate, or -1  */
    int pick[ST_TUNE_SIZES];                   /* way that counts as ST_OWN         */
    int say[ST_TUNE_SIZES];                    /* ST_SAY_..., or a way              */
    char why[300];                             /* why that CTA count                */
    /* files */
    const char *out;                   /* rules to write */
    const char *rules;                 /* rules for ST_TUNE_PLUGIN, or NULL */
    const char *verify[ST_TUNE_RULES]; /* rules to verify, or NULL          */
    char raw[600], html[600];
    const char *nccl_file; /* NULL: what the loader finds */
    char command[400];
    const char *from, *verify_files; /* options, or NULL */
    bool json, fresh, no_kernels, force;
};

/* data.c */
int st_tune_sizes(const struct st_tune *tune);
uint64_t st_tune_bytes(const struct st_tune *tune, int size);
int st_tune_candidates(const struct st_tune *tune);
const char *st_tune_name(const struct st_tune *tune, int candidate, char text[48]);
double st_tune_busbw(const struct st_tune *tune, int coll, uint64_t bytes, double us);
/* How many settings there are, and whether ${coll} is measured with ${setting}. The CTA counts come
 * first, then the ways of our kernels, then the rules to verify. */
int st_tune_settings(const struct st_tune *tune);
bool st_tune_has(const struct st_tune *tune, int coll, int setting);
/* The worker's modes for ${setting}. The first setting also measures general kernels, and our own
 * if no ways are compared. */
const char *st_tune_modes(const struct st_tune *tune, int coll, int setting);
/* "BYTES:WAY,...": what the first round found, for the later ones; "" before. Freed with free(). */
char *st_tune_ways(const struct st_tune *tune);
/* The number of a way at ${size}. A new way is added; -1 if there is no room or ${name} is none. */
int st_tune_way(struct st_tune *tune, int size, const char *name);
/* Store what a worker printed for one unit. False, with the reason, if it is not what was asked
 * for. */
bool st_tune_take(struct st_tune *tune, int round, int coll, int setting, const char *output,
                  char *error, size_t size);
/* Store one measurement. False if its size, candidate, way or time is not in the plan. */
bool st_tune_put(struct st_tune *tune, int round, int coll, int candidate, uint64_t bytes,
                 double us);
bool st_tune_put_way(struct st_tune *tune, int round, const char *name, uint64_t bytes, double us);
/* error = "${what}: "${line}""; false, so that a reader can return it. */
bool st_tune_wrong(char *error, size_t size, const char *what, const char *line);

/* raw.c: the raw data file. Write all complete units; read them back. With ${take_plan} the plan is
 * that of the file; without, another plan is an error. */
extern const char st_tune_first_line[];
bool st_tune_save(const struct st_tune *tune);
bool st_tune_load(struct st_tune *tune, bool take_plan, char *error, size_t size);

/* read.c: bench has the first ST_BENCH_OPTIONS of them, tune all but the first ST_BENCH_ALONE. */
enum { ST_TUNE_OPTIONS = 19, ST_BENCH_OPTIONS = 14, ST_BENCH_ALONE = 2 };
extern const struct st_option st_tune_options[ST_TUNE_OPTIONS];

/* run.c. Exit statuses; st_tune_find_gpus returns -1 if this box can measure. */
int st_tune_find_gpus(struct st_tune *tune, const char *command, bool kernels);
int st_tune_measure(struct st_tune *tune, const char *command);
int st_tune_units(const struct st_tune *tune, bool only_open);

/* kernels.c: write [kernels] rules; neighbouring sizes with the same way share one. */
void st_tune_write_kernels(const struct st_tune *tune, FILE *out);

/* verify.c: measure rules again beside all that tune compared. The exit status. */
int st_tune_verify(struct st_tune *tune, const char *files, bool json);

/* choose.c: medians and standard deviations; and from them one CTA count and one candidate per
 * size. */
void st_tune_summarise(struct st_tune *tune);
void st_tune_choose(struct st_tune *tune);

/* write.c: write the result as rules, for a terminal and for programs. */
bool st_tune_write_rules(const struct st_tune *tune);
void st_tune_print(const struct st_tune *tune, FILE *out);
void st_tune_print_json(const struct st_tune *tune, FILE *out);
void st_tune_json(struct st_json *json, const char *key, const struct st_tune *tune);

/* report.c: write it as a page. */
bool st_tune_write_report(const struct st_tune *tune);

#endif
