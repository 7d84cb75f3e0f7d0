/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what the files of `symtuner why` share: the answer, and the functions that print it. A
 * verdict says what NCCL does with a call. A gate is a condition that NCCL checks before it chooses
 * a symmetric kernel (symtuner_why.h).
 */
#ifndef ST_WHY_H_
#define ST_WHY_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/why/here.h"
#include "cli/why/question.h"
#include "symtuner_why.h"

enum { ST_WHY_CURES = 8 };

/* The answer to one question. */
struct st_answer {
    struct symtuner_verdict now;           /* the verdict on the call as it is                */
    enum symtuner_gate cure[ST_WHY_CURES]; /* the gates to cure, in this order                */
    int cures;
    bool cured;                            /* the cures lead to a symmetric kernel            */
    struct symtuner_verdict after;         /* the verdict on the call with all cures          */
    struct st_here here;                   /* what happens with symtuner loaded               */
};

void st_why_print(const struct st_why *why, const struct st_answer *answer, FILE *out);
void st_why_print_json(const struct st_why *why, const struct st_answer *answer, FILE *out);

#endif
