/* SPDX-License-Identifier: Apache-2.0 */
/*
 * here.h - what NCCL does with the call when symtuner is loaded: which rules and built-in counts
 * reach NCCL, and what holds the others back.
 */
#ifndef ST_WHY_HERE_H_
#define ST_WHY_HERE_H_

#include <stdbool.h>

#include "cli/why/question.h"
#include "symtuner_why.h"

enum { ST_HERE_WAYS = 6 };

struct st_here {
    bool applies;                      /* false: the release has no interface for us            */
    struct symtuner_decision decision; /* of the rules, and the counts that reach NCCL          */
    bool missing;                      /* NCCL would load no plugin of ours here, and the cure  */
    const char *missing_cure;
    char way[ST_HERE_WAYS][700];       /* what stands in the way, a sentence each               */
    int ways;
    char text[2048];                   /* symtuner_explain                                      */
    struct symtuner_call call;         /* as NCCL then sees it                                  */
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS]; /* what call.table points to                 */
    struct symtuner_verdict verdict;
    bool changes;                      /* the verdict, or its CTAs                              */
};

/* 0, or the exit status if the rules of --rules cannot be read; the reason is then on stderr. */
int st_why_here(const struct st_why *why, const struct symtuner_verdict *now, struct st_here *here);

#endif
