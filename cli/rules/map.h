/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - the decisions of a rules file as a map: sizes x ranks x registered or not.
 *
 * A column is one collective, rank count and registration; it is cut into runs of bytes that are
 * decided alike. Boundaries are exact to the byte where they lie more than 1/16 of a power of two
 * apart, which two bounds of sensible rules do.
 *
 * Units      bytes are NCCL's nBytes. Ownership  st_map_free. Errors  st_map_read prints them.
 */
#ifndef ST_MAP_H_
#define ST_MAP_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/options.h"
#include "symtuner.h"

enum { ST_MAP_COLUMNS = 64, ST_MAP_CELL = 24, ST_MAP_KERNELS = 2048 };

struct st_run {
    uint64_t lo, hi;
    struct symtuner_decision decision;
};

struct st_column {
    enum symtuner_coll coll;
    int ranks, registered;
    struct st_run *run;
    int runs;
};

/* What [kernels] rules say to libsymtuner_ar.so: sizes of an all-reduce that are decided alike. */
struct st_kernel_run {
    int ranks;
    uint64_t lo, hi;
    struct symtuner_kernel_decision decision[2]; /* plain buffers, registered ones */
};

/* What a map is drawn for; st_map_read fills it from the command line. */
struct st_map_request {
    int nccl, nodes;
    struct symtuner_machine machine;
    unsigned colls;           /* bit per collective */
    int dtype, op;            /* for [kernels] rules */
    int ranks[16], n_ranks;
    uint64_t lo, hi;
    const char *file[2], *html, *machine_word;
    int gpus; /* of a node; 0 unknown */
    bool json, force;
};

struct st_map {
    struct st_column column[ST_MAP_COLUMNS * 2];
    int columns;
    struct st_kernel_run kernel[ST_MAP_KERNELS];
    int kernels;
    int process_ctas;
    int rules;
    uint64_t hash;
};

/* The options that both commands have; the last two, --html and --force, are of table. */
enum { ST_MAP_OPTIONS = 14 };
extern const struct st_option st_map_options[ST_MAP_OPTIONS];
bool st_map_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR]);

/* ${command}'s machine, for ${started} of its line. */
int st_map_started(const char *command, struct st_map_request *request);

/* Read the arguments. No collective: none was named. -1: go on; else the exit status. */
int st_map_read(const struct st_command_line *line, int argc, char **argv,
                struct st_map_request *request_out);

/* Decide everything. False, and the error printed, when the rules cannot be read. */
bool st_map_make(const struct st_map_request *request, const char *file, struct st_map *map_out);
void st_map_free(struct st_map *map);

/* The least size above ${at}, up to ${end}, that is not like ${at}; 0 when all are. */
uint64_t st_map_edge(uint64_t at, uint64_t end, bool (*alike)(void *, uint64_t, uint64_t),
                     void *with);

/* map_kernels.c: what [kernels] rules say; no runs when no rule acts for any rank count. Runs past
 * the last that there is room for are left out. */
void st_map_kernels(const struct st_map_request *request, const symtuner_rules *rules,
                    struct st_map *map);
bool st_map_kernels_alike(const struct symtuner_kernel_decision *a,
                          const struct symtuner_kernel_decision *b);
/* "one_lamport, 64 CTAs of 128 threads"; "own table" when no rule acts. */
const char *st_map_kernel(const struct symtuner_kernel_decision *decision, char *text, size_t size);
void st_map_kernels_print(const struct st_map_request *request, const struct st_map *map,
                          FILE *out);
void st_map_kernels_json(const struct st_map *map, FILE *out);
/* Call ${tell} for each range that two maps of one request decide differently. */
void st_map_kernels_diff(const struct st_map *a, const struct st_map *b,
                         void (*tell)(void *with, const struct st_kernel_run *range, int registered,
                                      const struct symtuner_kernel_decision *old,
                                      const struct symtuner_kernel_decision *new),
                         void *with);

/* The same effect on NCCL, whatever the rule is called. */
bool st_map_alike(const struct symtuner_decision *a, const struct symtuner_decision *b);

/* Two columns of one collective that say the same, by the same rules, to every size. */
bool st_map_same(const struct st_column *a, const struct st_column *b);

/* Columns come in pairs, plain and registered, a pair for each collective and number of ranks; ${pair}
 * is the plain one. Is it the first pair of those that say the same? */
bool st_map_first(const struct st_map *map, int pair);

/* "2,4,8 ranks": of the pairs that say the same as ${pair}. */
const char *st_map_ranks(const struct st_map *map, int pair, char text[64]);

/* "symmetric", "ring/ll", "limits" ...; "." when no rule applies. */
const char *st_map_cell(const struct symtuner_decision *decision, char text[ST_MAP_CELL]);

/* "256 B .. 64 KiB", ">64 KiB .. <1 MiB", "1 MiB .." for everything above. */
const char *st_map_range(uint64_t lo, uint64_t hi, char *text, size_t size);

/* Bits of symtuner_decision.forbid as words. */
const char *st_map_entries(uint32_t bits, char *text, size_t size);

/* The run that ${bytes} falls into. */
const struct st_run *st_map_at(const struct st_column *column, uint64_t bytes);

/* map_page.c: the map as a page, request->html; false when it cannot be written. */
bool st_map_write_page(const struct st_map_request *request, const struct st_map *map);

#endif
