/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match.h"

#include <stdlib.h>

/* Are all conditions of ${rule} true? Ignores the conditions on bytes and pipe_ops. */
static bool concerns(const struct st_rule *rule, const struct st_group *group, int coll, bool reg)
{
    return !rule->process && !rule->kernels && rule->colls >> coll & 1 &&
           rule->reg & (reg ? ST_REG_YES : ST_REG_NO) &&
           st_span_has(rule->ranks, (uint64_t)group->ranks) &&
           st_span_has(rule->nodes, (uint64_t)group->nodes) &&
           st_rule_fits(rule, group->nccl, &group->machine);
}

const struct st_rule *st_match(const symtuner_rules *rules, int from, const struct st_group *group,
                               const struct st_call *call)
{
    for (int i = from; rules && i < rules->count; i++) {
        const struct st_rule *rule = &rules->rule[i];

        if (st_span_has(rule->pipe_ops, (uint64_t)call->pipe_ops) &&
            concerns(rule, group, call->coll, call->registered) &&
            st_span_has(st_rule_total_bytes(rule, call->coll, group->ranks), call->bytes))
            return rule;
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Fill the lane for calls of collective ${coll}: if ${reg}, for those with registered buffers,
 * otherwise for the others. Its arrays ${start} and ${rule} have room for 2 * rules->count + 1
 * spans. */
static void cut(const struct st_index *index, struct st_lane *lane, int coll, bool reg)
{
    const symtuner_rules *rules = index->rules;
    struct st_span span[SYMTUNER_RULES_MAX];
    int edges = 0, spans = 0;

    lane->start[edges++] = 0;
    for (int i = 0; i < rules->count; i++) {
        span[i] = (struct st_span){1, 0}; /* an empty span, which covers no size */
        if (concerns(&rules->rule[i], &index->group, coll, reg))
            span[i] = st_rule_total_bytes(&rules->rule[i], coll, index->group.ranks);
        lane->start[edges++] = span[i].lo;
        if (span[i].hi < UINT64_MAX)
            lane->start[edges++] = span[i].hi + 1;
    }
    qsort(lane->start, (size_t)edges, sizeof *lane->start, ascending);
    for (int e = 0; e < edges; e++) {
        const struct st_rule *rule = NULL;

        if (spans && lane->start[e] == lane->start[spans - 1])
            continue;
        for (int i = 0; i < rules->count && !rule; i++)
            if (st_span_has(span[i], lane->start[e]))
                rule = &rules->rule[i];
        if (spans && rule == lane->rule[spans - 1])
            continue;
        lane->start[spans] = lane->start[e];
        lane->rule[spans++] = rule;
    }
    lane->spans = spans == 1 && !lane->rule[0] ? 0 : spans;
    for (int key = 0, s = 0; key <= ST_SIZE_KEYS; key++) {
        while (s + 1 < spans && st_size_key(lane->start[s + 1]) < (unsigned)key)
            s++;
        lane->first[key] = (uint16_t)s;
    }
}

struct st_index *st_index_build(const symtuner_rules *rules, const struct st_group *group)
{
    size_t room = 2 * (size_t)rules->count + 1;
    struct st_index *index =
        calloc(1, sizeof *index + ST_LANES * room * (sizeof(uint64_t) + sizeof(void *)));
    uint64_t *start;

    if (!index)
        return NULL;
    index->rules = rules;
    index->group = *group;
    start = (uint64_t *)(index + 1);
    for (int l = 0; l < ST_LANES; l++) {
        index->lane[l].start = start + (size_t)l * room;
        index->lane[l].rule = (const struct st_rule **)(start + ST_LANES * room) + (size_t)l * room;
        cut(index, &index->lane[l], l / 2, l % 2);
    }
    return index;
}
