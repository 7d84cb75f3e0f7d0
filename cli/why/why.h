/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what the files of `symtuner why` share: the answer, its cures, and printing it.
 */
#ifndef ST_WHY_H_
#define ST_WHY_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/why/here.h"
#include "cli/why/question.h"
#include "symtuner_why.h"

enum { ST_WHY_CURES = 8 };

/* The verdict, the cures and what they lead to, and the same call with symtuner. */
struct st_answer {
    struct symtuner_verdict now;
    enum symtuner_gate cure[ST_WHY_CURES]; /* in the order in which they must be applied      */
    int cures;
    bool cured;                            /* they lead to a symmetric kernel                 */
    struct symtuner_verdict after;
    struct st_here here;                   /* with symtuner loaded                            */
};

/* Follow the cures from gate to gate until a symmetric kernel runs or nothing more can be done. */
void st_why_cure(const struct symtuner_call *call, struct st_answer *answer);

void st_why_print(const struct st_why *why, const struct st_answer *answer, FILE *out);
void st_why_print_json(const struct st_why *why, const struct st_answer *answer, FILE *out);

#endif
