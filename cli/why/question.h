/* SPDX-License-Identifier: Apache-2.0 */
/*
 * question.h - what `symtuner why` was asked: the call, the machine, the release, the settings.
 *
 * Ownership: texts are borrowed from argv and the environment. Threads: one.
 */
#ifndef ST_WHY_QUESTION_H_
#define ST_WHY_QUESTION_H_

#include <stdbool.h>

#include "cli/values.h"
#include "symtuner_why.h"

struct st_why {
    struct symtuner_call call;
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS]; /* what call.table points to, if anything      */
    const char *machine;                           /* the machine in words                        */
    const char *family;                            /* for st_general_table, or NULL               */
    int links;                                     /* call.nvlink before any setting changed it   */
    int gpus;                                      /* of a node; 0: not known                     */
    bool table_computed;                           /* by us, rather than given with --table       */
    bool machine_assumed, release_assumed;         /* not given and not found here                */
    const char *set[32];                           /* NCCL settings that apply, NAME=VALUE        */
    int sets;
    char set_text[32][160];                        /* room for those of the environment           */
    struct symtuner_machine box;                   /* the machine as rules see it                 */
    const char *machine_name;                      /* --machine                                   */
    const char *rules;
    const char *size_text;
    struct st_size size;
    int release;
    int min_ctas, max_ctas; /* of the communicator's config; 0: not given */
    bool json, no_env;
    bool graph, in_place, first, one_process;
    bool all;   /* also print the conditions that do not apply */
    bool brief; /* print only the verdict and the cure         */
};

/* Read the command line. -1: go on; else the exit status, with the reason on stderr. */
int st_why_read(int argc, char **argv, struct st_why *why);

/* The value of a variable: that of --set, else that of the environment unless --no-env. ${why} is a
 * struct st_why. */
const char *st_why_get(const void *why, const char *name);

#endif
