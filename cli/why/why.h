/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what the files of `symtuner why` share: the question, and the answers to it.
 */
#ifndef ST_WHY_H_
#define ST_WHY_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/values.h"
#include "cli/why/here.h"
#include "symtuner_why.h"

enum { ST_WHY_CURES = 8 };

/* The question, as the command line put it. Texts are borrowed from argv and the environment. */
struct st_why {
    struct symtuner_call call;
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS]; /* what call.table points to, if anything */
    const char *machine;                           /* words for a person                     */
    const char *family;                            /* for st_general_table, or NULL          */
    int links;                                     /* call.nvlink before any setting         */
    int gpus;                                      /* of a node; 0: not known                */
    bool table_computed;                           /* the table is ours, not the user's      */
    bool machine_assumed, release_assumed;
    const char *set[32];                           /* NCCL settings that apply, NAME=VALUE    */
    int sets;
    char set_text[32][160];                        /* those of the environment                */
    struct symtuner_machine box;                   /* as rules see it                         */
    const char *machine_name;                      /* --machine                               */
    const char *rules, *corpus;
    const char *size_text;
    struct st_size size;
    int release, show;
    int min_ctas, max_ctas; /* of the communicator's config; 0 unsaid */
    bool json, no_env;
    bool graph, in_place, first, one_process;
    bool all, brief; /* also what is not asked; only verdict and cure */
};

/* The answer, what would come of the cures, and what comes of symtuner. */
struct st_answer {
    struct symtuner_verdict now;
    enum symtuner_gate cure[ST_WHY_CURES]; /* in the order in which they must be applied      */
    int cures;
    bool cured;                            /* they lead to a symmetric kernel                 */
    struct symtuner_verdict after;
    struct st_here here;                   /* with symtuner loaded                            */
};

/* Read the command line. 0, or an exit status with everything said on stderr. */
int st_why_read(int argc, char **argv, struct st_why *why);

/* A variable as the question has it: --set, else the environment, unless that is left out. */
const char *st_why_get(const void *why, const char *name);

/* Follow the cures from gate to gate until a symmetric kernel runs or nothing more can be done. */
void st_why_cure(const struct symtuner_call *call, struct st_answer *answer);

void st_why_print(const struct st_why *why, const struct st_answer *answer, FILE *out);
void st_why_print_json(const struct st_why *why, const struct st_answer *answer, FILE *out);

/* Predict every row of a recorded corpus and print the comparison. Exit status: 0 no mismatch,
 * 1 mismatches, 2 the file cannot be used. ${show} is how many mismatches are listed. */
int st_why_corpus(const char *path, int show, bool json, FILE *out);

#endif
