/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steer.h - an action written into NCCL's cost table, as far as the release allows.
 *
 * Invariants, whatever the action and the table (test/plugin/check_steer.c tries a million):
 *   - an entry that NCCL marked unavailable (negative) is never touched;
 *   - nothing <= 0 is ever written: from 2.31 on a negative entry wins; +infinity always forbids;
 *   - at least one entry stays selectable when one was;
 *   - SYMTUNER_LEAVE without forbid and channels changes no bit.
 * Pure. Units: microseconds. Threads: any.
 */
#ifndef ST_STEER_H_
#define ST_STEER_H_

#include "rules/match.h"
#include "nccl/release.h"

/* What became of a call; the ledger counts them. X(id, word) */
#define ST_VERDICT_MAP(X)                                                                          \
    X(NO_RULE, "no-rule")           /* no rule covers the call                            */       \
    X(UNTOUCHED, "untouched")       /* a rule covers it, but changed nothing              */       \
    X(SYMMETRIC, "symmetric")       /* the table was changed to keep a symmetric kernel   */       \
    X(GENERAL, "general")           /* an algorithm or protocol was made the cheapest     */       \
    X(LIMITED, "limited")           /* only channels or forbidden entries changed         */       \
    X(UNAVAILABLE, "unavailable")   /* the rule's entry is not available for this call    */       \
    X(PROBE, "probe")               /* NCCL >= 2.31 asked with no entry to choose from    */
#define ST_VERDICT_ID(id, word) ST_VERDICT_##id,
enum st_verdict { ST_VERDICT_MAP(ST_VERDICT_ID) ST_VERDICTS };
#undef ST_VERDICT_ID

extern const char *const st_verdict_word[ST_VERDICTS];

struct st_table {
    float *cost; /* algos * protos, flat: cost[algo * protos + proto] */
    int algos, protos;
};

/* ${mixed}: NCCL_ENQUEUE_REARCH_ENABLE=1, so that the entries compete with symmetric kernels. */
enum st_verdict st_steer(const struct st_era *era, const struct st_action *action, int coll,
                         int pipe_ops, bool mixed, struct st_table table, int *channels);

/* Is this a probe, which NCCL 2.31 and later send besides calls? Probes have pipe_ops 0. */
static inline bool st_is_probe(const struct st_era *era, int pipe_ops)
{
    return pipe_ops == 0 && era->ll == ST_LL_ASK_VOID;
}

/* The bytes of the whole call, which rules count, from NCCL's nBytes: for a probe NCCL gives those
 * of one rank. */
static inline uint64_t st_whole_bytes(const struct st_era *era, int coll, uint64_t bytes, int ranks,
                                      int pipe_ops)
{
    return st_is_probe(era, pipe_ops) ? bytes * st_coll_parts(coll, ranks) : bytes;
}

/* Is any entry live, that is, offered by NCCL? */
bool st_table_live(struct st_table table);

#endif
