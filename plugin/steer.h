/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steer.h - writes into NCCL's cost table what a rule asks for, as far as the NCCL release allows.
 *
 * Invariants, whatever the action and the table (test/plugin/check_steer.c tries a million):
 *   - an entry that NCCL marked unavailable (negative) is never touched;
 *   - every value written is above 0, because from 2.31 on NCCL prefers a negative entry to all
 *     others; +infinity forbids an entry in every release;
 *   - if an entry was selectable before, at least one is selectable afterwards;
 *   - an action with SYMTUNER_LEAVE, no forbidden entry and no channels changes no bit.
 * Pure. Units: microseconds. Threads: any.
 */
#ifndef ST_STEER_H_
#define ST_STEER_H_

#include "rules/match.h"
#include "nccl/release.h"

/* What a decision did to the cost table. The ledger counts calls per verdict. X(id, word) */
#define ST_VERDICT_MAP(X)                                                                          \
    X(NO_RULE, "no-rule")           /* no rule covers the call                            */       \
    X(UNTOUCHED, "untouched")       /* a rule covers the call, but changed nothing        */       \
    X(SYMMETRIC, "symmetric")       /* the table was changed to keep a symmetric kernel   */       \
    X(GENERAL, "general")           /* an algorithm or protocol was made the cheapest     */       \
    X(LIMITED, "limited")           /* only channels or forbidden entries changed         */       \
    X(UNAVAILABLE, "unavailable")   /* the rule's entry is not available for this call    */       \
    X(PROBE, "probe")               /* a probe (st_is_probe) whose table has no live entry */
#define ST_VERDICT_ID(id, word) ST_VERDICT_##id,
enum st_verdict { ST_VERDICT_MAP(ST_VERDICT_ID) ST_VERDICTS };
#undef ST_VERDICT_ID

extern const char *const st_verdict_word[ST_VERDICTS];

struct st_table {
    float *cost; /* algos * protos prices: cost[algo * protos + proto] */
    int algos, protos;
};

/* Apply ${action} to ${table} and ${*channels}, as far as the release of ${era} allows, and return
 * what changed. ${pipe_ops} is NCCL's number of operations in the group; it is 0 for a probe.
 * ${mixed}: NCCL_ENQUEUE_REARCH_ENABLE=1 is set, so NCCL compares the entries of the table with the
 * predicted times of symmetric kernels. */
enum st_verdict st_steer(const struct st_era *era, const struct st_action *action, int coll,
                         int pipe_ops, bool mixed, struct st_table table, int *channels);

/* Is this a probe? NCCL 2.31 and later asks the tuner about calls, and also sends probes, in which
 * it asks only whether protocol LL would be the cheapest. In a probe pipe_ops is 0. */
static inline bool st_is_probe(const struct st_era *era, int pipe_ops)
{
    return pipe_ops == 0 && era->ll == ST_LL_ASK_VOID;
}

/* Return the bytes of the whole call, because rules give the sizes of whole calls. ${bytes} is
 * NCCL's nBytes. For a call, nBytes is the size of the whole call. For a probe, nBytes is the size
 * of one rank's part. */
static inline uint64_t st_whole_bytes(const struct st_era *era, int coll, uint64_t bytes, int ranks,
                                      int pipe_ops)
{
    return st_is_probe(era, pipe_ops) ? bytes * st_coll_parts(coll, ranks) : bytes;
}

/* Does the table have a live entry, that is, an entry that is at least 0 and below FLT_MAX? */
bool st_table_live(struct st_table table);

#endif
