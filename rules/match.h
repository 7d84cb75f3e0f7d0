/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - finds the rule for a call: by a scan, and by an index built once per communicator.
 *
 * Both give the same answer for every call (test/rules/check_match.c compares them). The scan
 * defines the answer; the index is fast enough for getCollInfo, which NCCL calls for every
 * collective.
 * Pure: no I/O, no globals; only st_index_build allocates.
 *
 * Units      bytes are NCCL's nBytes.
 * Ownership  an index points into the rules it was built from and must not outlive them.
 * Threads    any, once built.
 * Errors     none; NULL means that no rule covers the call.
 */
#ifndef ST_MATCH_H_
#define ST_MATCH_H_

#include "rules/rules.h"

struct st_call {
    int coll;
    uint64_t bytes;
    int pipe_ops;
    bool registered;
};

/* What all calls of one communicator share. */
struct st_group {
    int nccl, ranks, nodes;
    struct symtuner_machine machine;
};

/* Return the first rule, from index ${from} on, that covers the call; NULL if none does. */
const struct st_rule *st_match(const symtuner_rules *rules, int from, const struct st_group *group,
                               const struct st_call *call);

/* A lane is for one collective, with registered buffers or without. It cuts the range of all sizes
 * into spans. All sizes of a span have the same first matching rule, if conditions on pipe_ops are
 * ignored. */
enum { ST_LANES = SYMTUNER_COLLS * 2, ST_SIZE_KEYS = 496 };

struct st_lane {
    int spans;                   /* 0: no rule at all                       */
    uint64_t *start;             /* [s]: least size of span s; start[0] is 0 */
    const struct st_rule **rule; /* [s]: first rule for span s, or NULL     */
    uint16_t first[ST_SIZE_KEYS + 1]; /* [key]: span of the least size that has this key */
};

struct st_index {
    const symtuner_rules *rules;
    struct st_group group;
    struct st_lane lane[ST_LANES];
};

/* Return the key of a size, made of the position of its highest bit and the three bits below that.
 * So keys ascend with the sizes, eight keys to each power of two. A size below 8 is its own key;
 * the key of 2^64 - 1 is 495. */
static inline unsigned st_size_key(uint64_t bytes)
{
    unsigned shift = 60u - (unsigned)__builtin_clzll(bytes | 8);

    return shift * 8 + (unsigned)(bytes >> shift);
}

/* Build the index of ${rules} for one communicator; NULL if out of memory. Free it with free(). */
struct st_index *st_index_build(const symtuner_rules *rules, const struct st_group *group);

/* Return the rule that st_match returns for ${from} 0, but find it by the index. Inline, because
 * getCollInfo must be fast. */
static inline const struct st_rule *st_index_find(const struct st_index *index,
                                                  const struct st_call *call)
{
    const struct st_lane *lane = &index->lane[call->coll * 2 + call->registered];
    const struct st_rule *rule;
    unsigned key, lo, hi;

    if (lane->spans == 0)
        return NULL;
    key = st_size_key(call->bytes);
    lo = lane->first[key];
    hi = lane->first[key + 1];
    while (lo < hi) {
        unsigned middle = (lo + hi + 1) / 2;

        if (lane->start[middle] <= call->bytes)
            lo = middle;
        else
            hi = middle - 1;
    }
    rule = lane->rule[lo];
    if (!rule || (rule->pipe_ops.lo <= (uint64_t)call->pipe_ops &&
                  (uint64_t)call->pipe_ops <= rule->pipe_ops.hi))
        return rule;
    /* rare: the first rule for this size wants another pipe_ops */
    return st_match(index->rules, (int)(rule - index->rules->rule) + 1, &index->group, call);
}

#endif
