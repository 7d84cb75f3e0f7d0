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
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS]; /* the cost table, if call.table is not NULL   */
    const char *machine;                           /* the machine in words                        */
    const char *family;                            /* machine family (st_general_family), or NULL */
    int links;                                     /* call.nvlink before any setting changed it   */
    int gpus;                                      /* GPUs of a node; 0: not known                */
    bool table_computed;                           /* ${table} is computed, not from --table      */
    bool machine_assumed, release_assumed;         /* a guess: none was given, and none was found */
    bool this_box;                                 /* the machine is this box, with its GPUs      */
    const char *set[32];                           /* NCCL settings that apply, NAME=VALUE        */
    int sets;
    char set_text[32][160];                        /* set[] points into this copy, or to argv     */
    struct symtuner_machine box;                   /* the machine as rules see it                 */
    const char *machine_name;                      /* value of --machine; NULL: not given         */
    const char *rules;                             /* value of --rules; NULL: not given           */
    const char *size_text;                         /* SIZE as the user wrote it                   */
    struct st_size size;
    int release;                                   /* value of --nccl; 0: not given               */
    int min_ctas, max_ctas; /* minCTAs, maxCTAs of ncclConfig_t; 0: not set */
    bool json, no_env;
    bool graph, in_place, first, one_process;
    bool all;   /* also print the conditions that do not apply */
    bool brief; /* print only the verdict and the cure         */
};

/* Read the command line into ${why}. Returns -1 if the command continues, else the exit status,
 * with the reason on stderr. */
int st_why_read(int argc, char **argv, struct st_why *why);

/* Return the value that --set gives the variable ${name}. If no --set names the variable, return
 * its value in the environment, except with --no-env. Returns NULL if the variable is not set.
 * ${why} points to a struct st_why. */
const char *st_why_get(const void *why, const char *name);

#endif
