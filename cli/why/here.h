/* SPDX-License-Identifier: Apache-2.0 */
/*
 * here.h - what NCCL does with the call when symtuner is loaded: which rules and built-in CTA
 * counts reach NCCL, and what keeps the other rules and counts from NCCL.
 */
#ifndef ST_WHY_HERE_H_
#define ST_WHY_HERE_H_

#include <stdbool.h>

#include "cli/why/question.h"
#include "symtuner_why.h"

enum { ST_HERE_WAYS = 6 };

struct st_here {
    bool applies;                      /* false: symtuner cannot decide for this release        */
    struct symtuner_decision decision; /* what the rules say; counts that do not reach NCCL: 0  */
    bool missing;                      /* NCCL would not load symtuner in this environment      */
    char missing_cure[700];            /* what to do if ${missing}                              */
    char plugin[600];                  /* the name or path by which NCCL can load symtuner      */
    char way[ST_HERE_WAYS][700];       /* [i]: a sentence: what does not reach NCCL, and why    */
    int ways;
    char text[2048];                   /* what symtuner_explain says                            */
    /* a sentence: whether libsymtuner_ar.so runs the call box by box (docs/nodes.md), and why; "":
     * the call is no all-reduce over several boxes, or nobody asked for this way */
    char boxes[200];
    /* into how many pieces the library cuts the message; 0: NCCL runs the call; -1: only known at
     * run time */
    int network_pieces;
    struct symtuner_call call;         /* the call as symtuner changes it                       */
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS]; /* what call.table points to                 */
    struct symtuner_verdict verdict;   /* what NCCL does with ${call}                           */
    bool changes;                      /* ${verdict} differs from the one without symtuner      */
};

/* Fill ${here}. ${now} is the verdict without symtuner. Returns 0, or the exit status if the rules
 * of --rules cannot be read, with the reason on stderr. */
int st_why_here(const struct st_why *why, const struct symtuner_verdict *now, struct st_here *here);

#endif
