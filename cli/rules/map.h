/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - the decisions of a rules file as a map: sizes by ranks, for plain and registered buffers.
 *
 * A column is one collective, number of ranks and kind of buffers. It is cut into runs: sizes that
 * are decided alike. A run shorter than 1/16 of its size may be missed; all other bounds are exact
 * to the byte.
 *
 * Units: bytes are NCCL's nBytes. Ownership: st_map_free. Errors: st_map_read and st_map_make print
 * them.
 */
#ifndef ST_MAP_H_
#define ST_MAP_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/json.h"
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

/* Sizes of an all-reduce for which [kernels] rules tell libsymtuner_ar.so the same. */
struct st_kernel_run {
    int ranks;
    uint64_t lo, hi;
    struct symtuner_kernel_decision decision[2]; /* [0] plain buffers, [1] registered */
};

/* What a map covers; st_map_read fills it from the command line. */
struct st_map_request {
    int nccl, nodes;
    struct symtuner_machine machine;
    unsigned colls; /* bit per collective */
    int dtype, op;  /* for [kernels] rules */
    int ranks[16], n_ranks;
    uint64_t lo, hi;
    const char *command, *file[2], *html, *machine_word;
    int gpus; /* of a node; 0: unknown */
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

/* The options of table; diff has them without the last two, --html and --force. */
enum { ST_MAP_OPTIONS = 14 };
extern const struct st_option st_map_options[ST_MAP_OPTIONS];
bool st_map_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR]);

/* Find the machine; .started of both commands. ${self} is the request. */
int st_map_started(void *self);

/* Read the arguments. request_out->colls is 0 if none were named. -1: go on. Otherwise the exit
 * status. */
int st_map_read(const struct st_command_line *line, int argc, char **argv,
                struct st_map_request *request_out);

/* Decide everything. False, with the error printed, if the rules cannot be read. */
bool st_map_make(const struct st_map_request *request, const char *file, struct st_map *map_out);
void st_map_free(struct st_map *map);

/* The smallest size above ${at}, at most ${end}, for which ${alike} is false; 0: there is none. */
uint64_t st_map_edge(uint64_t at, uint64_t end, bool (*alike)(void *, uint64_t, uint64_t),
                     void *with);

/* map_kernels.c: what [kernels] rules say. There are no runs if no rule applies for any number of
 * ranks. Runs beyond ST_MAP_KERNELS are left out. */
void st_map_kernels(const struct st_map_request *request, const symtuner_rules *rules,
                    struct st_map *map);
bool st_map_kernels_alike(const struct symtuner_kernel_decision *a,
                          const struct symtuner_kernel_decision *b);
/* "one_lamport, 64 CTAs of 128 threads"; "own table" if no rule applies. */
const char *st_map_kernel(const struct symtuner_kernel_decision *decision, char *text, size_t size);
void st_map_kernels_print(const struct st_map_request *request, const struct st_map *map,
                          FILE *out);
void st_map_kernels_json(const struct st_map *map, struct st_json *json);
/* Call ${tell} for each range that two maps of the same request decide differently. */
void st_map_kernels_diff(const struct st_map *a, const struct st_map *b,
                         void (*tell)(void *with, const struct st_kernel_run *range, int registered,
                                      const struct symtuner_kernel_decision *old,
                                      const struct symtuner_kernel_decision *new),
                         void *with);

/* Do both have the same effect on NCCL, whatever their rules are called? */
bool st_map_alike(const struct symtuner_decision *a, const struct symtuner_decision *b);

/* Do two columns of one collective decide every size alike, by the same rules? */
bool st_map_same(const struct st_column *a, const struct st_column *b);

/* Columns come in pairs, a plain and a registered one for each collective and number of ranks.
 * ${pair} is the plain one. Is it the first of the pairs that decide alike? */
bool st_map_first(const struct st_map *map, int pair);

/* "2,4,8 ranks": of ${pair} and the later pairs that decide as it does. */
const char *st_map_ranks(const struct st_map *map, int pair, char text[64]);

/* "leave", "symmetric" or "general"; NULL if no rule applies. */
const char *st_map_prefer(const struct symtuner_decision *decision);

/* "symmetric", "ring/ll", "limits" ...; "." if no rule applies. */
const char *st_map_cell(const struct symtuner_decision *decision, char text[ST_MAP_CELL]);

/* "256 B .. 64 KiB", ">64 KiB .. <1 MiB", "1 MiB .." for everything above. */
const char *st_map_range(uint64_t lo, uint64_t hi, char *text, size_t size);

/* The same as members "low" and "high"; the last range has no "high". */
void st_map_json_range(struct st_json *json, uint64_t lo, uint64_t hi);

/* The bits of symtuner_decision.forbid: "ring/ll tree/simple". */
const char *st_map_entries(uint32_t bits, char *text, size_t size);

/* The run that holds ${bytes}. */
const struct st_run *st_map_at(const struct st_column *column, uint64_t bytes);

/* map_page.c: write the map as a page, request->html. False if that fails. */
bool st_map_write_page(const struct st_map_request *request, const struct st_map *map);

#endif
