/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct st_span everything = {0, UINT64_MAX};

void st_rule_clear(struct st_rule *rule)
{
    memset(rule, 0, sizeof *rule);
    rule->colls = (1u << SYMTUNER_COLLS) - 1;
    rule->bytes = rule->ranks = rule->nodes = rule->pipe_ops = rule->nccl = everything;
    rule->gpus = everything;
    rule->reg = ST_REG_ANY;
    rule->links = rule->multicast = -1;
    rule->act.algo = rule->act.proto = -1;
    rule->launch.kernel = rule->launch.beside = rule->launch.network_pieces = -1;
    rule->dtypes = rule->ops = rule->besides = ~0u;
}

bool st_rule_fits(const struct st_rule *rule, int nccl, const struct symtuner_machine *machine)
{
    if (!st_span_has(rule->nccl, (uint64_t)nccl))
        return false;
    if (rule->gpu[0] && fnmatch(rule->gpu, machine->gpu, 0) != 0)
        return false;
    if ((rule->gpus.lo != 0 || rule->gpus.hi != UINT64_MAX) &&
        (machine->gpus <= 0 || !st_span_has(rule->gpus, (uint64_t)machine->gpus)))
        return false;
    if (rule->links >= 0 && rule->links != machine->nvlink)
        return false;
    return rule->multicast < 0 || rule->multicast == machine->multicast;
}

struct st_span st_rule_total_bytes(const struct st_rule *rule, int coll, int ranks)
{
    struct st_span span = rule->bytes;
    uint64_t factor = st_coll_parts(coll, ranks);

    if (!rule->per_rank || factor == 1)
        return span;
    if (__builtin_mul_overflow(span.lo, factor, &span.lo))
        return (struct st_span){1, 0};
    /* The new upper end is the largest size of a whole call that, divided by the number of ranks
     * and rounded down, is the old upper end. */
    if (__builtin_mul_overflow(span.hi, factor, &span.hi) ||
        __builtin_add_overflow(span.hi, factor - 1, &span.hi))
        span.hi = UINT64_MAX;
    return span;
}

bool st_rules_append(symtuner_rules *rules, const symtuner_rules *more)
{
    if (rules->count + more->count > SYMTUNER_RULES_MAX ||
        rules->sources + more->sources > ST_SOURCES_MAX)
        return false;
    for (int i = 0; i < more->count; i++) {
        rules->rule[rules->count] = more->rule[i];
        rules->rule[rules->count++].source += rules->sources;
    }
    for (int i = 0; i < more->sources; i++)
        strcpy(rules->source[rules->sources++], more->source[i]);
    if (more->has_provenance) {
        rules->has_provenance = true;
        rules->provenance = more->provenance;
        rules->provenance.source += rules->sources - more->sources;
    }
    return true;
}

const struct st_rule *st_rules_process(const symtuner_rules *rules, int nccl,
                                       const struct symtuner_machine *machine)
{
    for (int i = 0; rules && i < rules->count; i++)
        if (rules->rule[i].process && st_rule_fits(&rules->rule[i], nccl, machine))
            return &rules->rule[i];
    return NULL;
}

void symtuner_rules_free(symtuner_rules *rules)
{
    free(rules);
}

int symtuner_rules_count(const symtuner_rules *rules)
{
    return rules ? rules->count : 0;
}

enum symtuner_status symtuner_rules_fit(const symtuner_rules *rules, int nccl,
                                        const struct symtuner_machine *machine, char *error,
                                        size_t error_size)
{
    const struct st_rule *made;

    if (!machine) {
        snprintf(error, error ? error_size : 0, "machine is NULL");
        return SYMTUNER_EINVAL;
    }
    if (!rules || !rules->has_provenance || st_rule_fits(&rules->provenance, nccl, machine))
        return SYMTUNER_OK;
    made = &rules->provenance;
    snprintf(error, error ? error_size : 0,
             "%s:%d:1: these rules were measured on another machine or release than NCCL "
             "%d.%d.%d on \"%s\"; tune again, or remove [provenance] to use them all the same",
             rules->source[made->source], made->line, nccl / 10000, nccl / 100 % 100, nccl % 100,
             machine->gpu[0] ? machine->gpu : "an unknown GPU");
    return SYMTUNER_EMISMATCH;
}
