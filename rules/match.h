/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - finds the rule for a call: by a scan, and by an index built once per communicator.
 *
 * Scan and index give the same answer for every call (test/rules/check_match.c compares them). The
 * scan defines the answer. The index is fast enough for getCollInfo, which NCCL calls for every
 * collective.
 * Pure: no I/O, no globals. Only st_index_build allocates memory.
 *
 * Units      bytes are NCCL's nBytes.
 * Ownership  an index points into the rules it was built from and must not outlive them.
 * Threads    any thread may use an index once it is built.
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

/* Return the first rule that covers the call; NULL if none does. Rules before index ${from} do not
 * count. */
const struct st_rule *st_match(const symtuner_rules *rules, int from, const struct st_group *group,
                               const struct st_call *call);

/* An index has two lanes per collective: one for calls with registered buffers, and one for other
 * calls. A lane divides the range of all sizes into spans. Within a span the first rule that
 * matches a size is the same for all sizes, if we ignore conditions on pipe_ops. */
enum { ST_LANES = SYMTUNER_COLLS * 2, ST_SIZE_KEYS = 496 };

struct st_lane {
    int spans;                   /* number of spans; 0: no rule matches any size         */
    uint64_t *start;             /* start[s]: least size of span s; start[0] is 0        */
    const struct st_rule **rule; /* rule[s]: first matching rule for span s, or NULL     */
    /* first[key]: the last span that begins at a size with a smaller key; 0 if there is none. A
     * size with this key lies in one of the spans first[key] to first[key + 1]. */
    uint16_t first[ST_SIZE_KEYS + 1];
};

struct st_index {
    const symtuner_rules *rules;
    struct st_group group;
    struct st_lane lane[ST_LANES];
};

/* Return the key of a size. A key consists of the position of the size's highest bit and of the
 * three bits below it. So a larger size never has a smaller key, and there are eight keys from each
 * power of two to the next. A size below 8 is its own key. The key of 2^64 - 1 is 495. */
static inline unsigned st_size_key(uint64_t bytes)
{
    unsigned shift = 60u - (unsigned)__builtin_clzll(bytes | 8);

    return shift * 8 + (unsigned)(bytes >> shift);
}

/* Build the index of ${rules} for one communicator. Returns NULL if memory runs out. The caller
 * frees the index with free(). */
struct st_index *st_index_build(const symtuner_rules *rules, const struct st_group *group);

/* Return the same rule as st_match with ${from} 0, but find it by the index. The function is
 * inline, because getCollInfo must be fast. */
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
    /* In rare cases the rule covers the size, but not the call's pipe_ops. Then try the next
     * rules. */
    return st_match(index->rules, (int)(rule - index->rules->rule) + 1, &index->group, call);
}

#endif
