/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - the decision map: what a rules file decides, by size and number of ranks, for plain and
 * for registered buffers.
 *
 * A column of the map holds one collective, one number of ranks and one kind of buffers. A column
 * is cut into runs; a run is a range of sizes with the same decision. A run that begins at b bytes
 * and is shorter than b/16 bytes may be missed; all other bounds are exact to the byte. The rules
 * in the section [kernels] of the file choose among the kernels of libsymtuner_ar.so; their
 * decisions are in map->kernel.
 *
 * Units: bytes are NCCL's nBytes. Ownership: st_map_free frees what st_map_make filled. Errors:
 * st_map_read and st_map_make print them.
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
    uint64_t lo, hi; /* sizes from lo to hi bytes */
    struct symtuner_decision decision;
};

struct st_column {
    enum symtuner_coll coll;
    int ranks, registered;
    struct st_run *run;
    int runs;
};

/* A range of sizes, lo to hi, for which the same [kernels] rules decide. */
struct st_kernel_run {
    enum symtuner_coll coll;
    int ranks;
    uint64_t lo, hi;
    struct symtuner_kernel_decision decision[2]; /* [0] plain buffers, [1] registered */
};

/* What a map covers; st_map_read fills it from the command line. */
struct st_map_request {
    int nccl, nodes;
    struct symtuner_machine machine;
    unsigned colls; /* bit c is set: show collective c */
    int dtype, op;  /* type and operator of the calls that [kernels] rules decide */
    int beside;     /* what runs beside these calls: an index into st_beside_words */
    int ranks[16], n_ranks;
    uint64_t lo, hi; /* sizes from lo to hi bytes */
    const char *command, *file[2], *html, *machine_word;
    int gpus; /* GPUs of a node; 0: unknown */
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

/* The options of symtuner table. symtuner diff has all but the last ${ST_MAP_PAGE_OPTIONS},
 * which are about the page that symtuner table writes. */
enum { ST_MAP_OPTIONS = 16, ST_MAP_PAGE_OPTIONS = 3 };
extern const struct st_option st_map_options[ST_MAP_OPTIONS];

/* Find the machine of ${self}, a struct st_map_request. symtuner table and symtuner diff name this
 * function as .started in their struct st_command_line. */
int st_map_started(void *self);

/* Read the command line. If it names no collectives, request_out->colls becomes 0. Returns -1 if
 * the command continues, else its exit status. */
int st_map_read(const struct st_command_line *line, int argc, char **argv,
                struct st_map_request *request_out);

/* Fill ${map_out} with the decisions of the rules in ${file}. Returns ST_EXIT_FINE. If
 * the rules cannot be read or memory runs out, prints the error and returns another exit status. */
int st_map_make(const struct st_map_request *request, const char *file, struct st_map *map_out);
void st_map_free(struct st_map *map);

/* Return the smallest size above ${at}, up to ${end}, for which the decision differs from the one
 * for ${at}, that is, for which alike(with, at, size) is false. Returns 0 if there is no such
 * size. */
uint64_t st_map_edge(uint64_t at, uint64_t end, bool (*alike)(void *, uint64_t, uint64_t),
                     void *with);

/* map_kernels.c: fill map->kernel with what [kernels] rules decide. A collective stays out of
 * map->kernel if no rule applies to any of its sizes and numbers of ranks. Runs beyond
 * ST_MAP_KERNELS are left out. */
void st_map_kernels(const struct st_map_request *request, const symtuner_rules *rules,
                    struct st_map *map);
/* Put a decision into words: "one_lamport, 64 CTAs of 128 threads", or "own table" if no rule
 * applies. Returns ${text}. */
const char *st_map_kernel(const struct symtuner_kernel_decision *decision, char *text, size_t size);
void st_map_kernels_print(const struct st_map_request *request, const struct st_map *map,
                          FILE *out);
void st_map_kernels_json(const struct st_map *map, struct st_json *json);
/* Return the run for ${coll} and ${ranks} that ${bytes} falls into. Returns NULL if there is none;
 * libsymtuner_ar.so's own table then decides. */
const struct st_kernel_run *st_map_kernels_at(const struct st_map *map, enum symtuner_coll coll,
                                              int ranks, uint64_t bytes);

/* Do both decisions have the same effect, even if they come from different rules? st_map_alike
 * compares the effects on NCCL, and st_map_kernels_alike those on libsymtuner_ar.so. */
bool st_map_alike(const struct symtuner_decision *a, const struct symtuner_decision *b);
bool st_map_kernels_alike(const struct symtuner_kernel_decision *a,
                          const struct symtuner_kernel_decision *b);

/* Do two columns have the same collective and, at every size, the same decision, made by the same
 * rule? */
bool st_map_same(const struct st_column *a, const struct st_column *b);

/* Columns come in pairs: for each collective and number of ranks one for plain and one for
 * registered buffers. ${pair} is the index of the plain column. Returns true if no earlier pair has
 * the same decisions. */
bool st_map_first(const struct st_map *map, int pair);

/* Write the numbers of ranks of ${pair} and of all later pairs with the same decisions into
 * ${text}, for example "2,4,8 ranks". Returns ${text}. */
const char *st_map_ranks(const struct st_map *map, int pair, char text[64]);

/* Return what a decision prefers: "leave", "symmetric" or "general"; NULL if no rule applies. */
const char *st_map_prefer(const struct symtuner_decision *decision);

/* Return a decision as a cell of the map: "symmetric", "ring/ll", "limits" ...; "." if no rule
 * applies. */
const char *st_map_cell(const struct symtuner_decision *decision, char text[ST_MAP_CELL]);

/* Return a range as text: "256 B .. 64 KiB"; ">64 KiB .. <1 MiB"; "1 MiB .." if it has no upper
 * bound. */
const char *st_map_range(uint64_t lo, uint64_t hi, char *text, size_t size);

/* Write a range as the members "low" and "high". A range without an upper bound has no "high". */
void st_map_json_range(struct st_json *json, uint64_t lo, uint64_t hi);

/* Name the entries of the cost table whose bits are set in symtuner_decision.forbid: "ring/ll
 * tree/simple". */
const char *st_map_entries(uint32_t bits, char *text, size_t size);

/* Return the run that ${bytes} falls into. */
const struct st_run *st_map_at(const struct st_column *column, uint64_t bytes);

/* map_page.c: write the map as a page for a browser into the file request->html. Returns false if
 * that fails. */
bool st_map_write_page(const struct st_map_request *request, const struct st_map *map);

#endif
