/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - works out which variables `symtuner run` sets, from its options, libraries and
 * environment.
 *
 * The result depends on nothing else, for example not on the GPUs or on NCCL's release. So ranks
 * that are started with the same options and environment get the same variables, even on several
 * boxes. A program that has no use for a variable ignores it.
 *
 * Units      none. Ownership  the plan holds copies. Threads: any.
 * Errors     a variable that cannot be set is left out, and st_run_plan::said says so.
 */
#ifndef ST_RUN_PLAN_H_
#define ST_RUN_PLAN_H_

#include <stdbool.h>
#include <stddef.h>

enum { ST_RUN_SETTINGS = 12, ST_RUN_VALUE = 4096 };

/* The parts of --only. */
enum st_run_part { ST_RUN_PLUGIN, ST_RUN_DROPIN, ST_RUN_JAX, ST_RUN_PARTS };
extern const char *const st_run_part_word[ST_RUN_PARTS];

struct st_run_ask {
    bool named; /* --only names parts; if not, SYMTUNER_RUN_ONLY of an outer run may name some */
    bool part[ST_RUN_PARTS];
    char colls[120]; /* collectives of the drop-in, "allreduce,allgather"; "": not given */
    bool off;
    int verify, max_ctas; /* the values of --verify and --max-ctas; 0: not given */
};

/* The paths of our libraries; NULL: the library is not beside the command. */
struct st_run_libraries {
    const char *plugin, *dropin, *kernels;
};

struct st_run_setting {
    const char *name;
    char value[ST_RUN_VALUE];
};

struct st_run_plan {
    struct st_run_setting set[ST_RUN_SETTINGS]; /* only what differs from the environment */
    int sets;
    bool counts;   /* the drop-in or the JAX route counts calls */
    bool preloads; /* the drop-in is loaded */
    /* one line for the user: "plugin, drop-in, JAX route; kept: NCCL_ENV_PLUGIN=libx.so" */
    char said[1200];
};

/* Return the value that a program started now would see, or NULL if the variable is not set. */
typedef const char *st_run_getter(const void *from, const char *name);

/* Fill ${plan_out}. ${from} is passed to ${get}. */
void st_run_plan(const struct st_run_ask *ask, const struct st_run_libraries *libraries,
                 st_run_getter *get, const void *from, struct st_run_plan *plan_out);

/* Write ${value} into ${text} as a word for sh. Returns false if it does not fit. */
bool st_run_quote(const char *value, char *text, size_t size);

#endif
