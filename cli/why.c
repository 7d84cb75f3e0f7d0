/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.c - symtuner why: what NCCL does with one call, and the first thing that stands between it
 * and a symmetric kernel.
 */
#include "cli/why.h"

#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "rules/sources.h"

/* What can be undone without changing the meaning of the program. False: nothing we know of. */
static bool undo(struct symtuner_call *call, enum symtuner_gate gate)
{
    switch (gate) {
    case SYMTUNER_GATE_RELEASE:
        call->nccl = 22809;
        return true;
    case SYMTUNER_GATE_WINDOWS:
        call->win_enable = call->cumem_enable = 1;
        return true;
    case SYMTUNER_GATE_CE:
        call->cta_policy = 0;
        call->ce_threshold = INT64_MAX;
        return true;
    case SYMTUNER_GATE_ALGO_ENV:
        call->algo = NULL;
        return true;
    case SYMTUNER_GATE_KERNEL_ENV:
        call->sym_kernel = NULL;
        return true;
    case SYMTUNER_GATE_REGISTERED:
        call->send = call->recv = SYMTUNER_REG_SYMMETRIC;
        return true;
    case SYMTUNER_GATE_GROUP:
        call->group = 1;
        return true;
    case SYMTUNER_GATE_PROCESS:
        call->proc_reg = 1;
        return true;
    case SYMTUNER_GATE_LL_ASKED:
        call->send = call->recv = SYMTUNER_REG_SYMMETRIC;
        call->tuner_ll = 1;
        return true;
    default:
        return false;
    }
}

void st_why_cure(const struct symtuner_call *call, struct st_answer *answer)
{
    struct symtuner_call better = *call;
    enum symtuner_gate gate = answer->now.gate;

    answer->after = answer->now;
    answer->cures = 0;
    if (answer->now.kind == SYMTUNER_KIND_OPEN)
        gate = SYMTUNER_GATE_LL_ASKED;
    while (gate != SYMTUNER_GATE_NONE && answer->cures < ST_WHY_CURES) {
        answer->cure[answer->cures++] = gate;
        if (!undo(&better, gate))
            break;
        symtuner_predict(&better, &answer->after);
        gate = answer->after.kind == SYMTUNER_KIND_OPEN ? SYMTUNER_GATE_LL_ASKED
                                                        : answer->after.gate;
    }
    answer->cured = answer->cures > 0 && answer->after.kind == SYMTUNER_KIND_SYMMETRIC;
}

/* NCCL's nBytes: of all ranks together for AllGather and ReduceScatter. */
static uint64_t tuner_bytes(const struct symtuner_call *call)
{
    uint64_t bytes = call->count * (uint64_t)symtuner_dtype_size((int)call->dtype);
    bool all = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_REDUCESCATTER;

    return all ? bytes * (uint64_t)call->ranks : bytes;
}

int st_why_rules(const struct st_why *why, struct st_answer *answer)
{
    const struct symtuner_call *call = &why->call;
    struct symtuner_call ruled = *call;
    struct symtuner_query query = {
        .struct_size = sizeof query, .nccl = call->nccl, .coll = call->coll,
        .bytes = tuner_bytes(call), .ranks = call->ranks, .nodes = call->nodes, .pipe_ops = 1,
        .registered = (call->send && call->recv) || call->graph,
        .machine = {.arch = call->arch, .nvlink = call->nvlink, .multicast = call->multicast},
    };
    struct symtuner_decision decision = {.struct_size = sizeof decision};
    float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS];
    symtuner_rules *rules = NULL;
    int channels = 0;

    if (!why->rules)
        return ST_EXIT_FINE;
    if (st_rules_load_any(why->rules, &rules, answer->rules_text, sizeof answer->rules_text) !=
        SYMTUNER_OK) {
        fprintf(stderr, "%s\n", answer->rules_text);
        return ST_EXIT_FINDINGS;
    }
    answer->ruled = answer->now;
    if (symtuner_decide(rules, &query, &decision) == SYMTUNER_OK) {
        symtuner_explain(rules, &query, &decision, answer->rules_text, sizeof answer->rules_text);
        answer->has_rules = true;
        if (decision.process_ctas)
            ruled.sym_ctas = decision.process_ctas;
        ruled.tuner_ll = decision.prefer == SYMTUNER_SYMMETRIC;
        if (call->table) {
            memcpy(table, call->table, sizeof table);
            symtuner_table_apply(&decision, &query, table, SYMTUNER_ALGOS, SYMTUNER_PROTOS,
                                 &channels);
            ruled.table = table;
        }
        symtuner_predict(&ruled, &answer->ruled);
    }
    symtuner_rules_free(rules);
    return ST_EXIT_FINE;
}

int st_cmd_why(int argc, char **argv)
{
    static struct st_why why; /* large, and filled once in a process */
    static struct st_answer answer;
    int status = st_why_read(argc, argv, &why);

    if (status >= 0)
        return status;
    if (why.corpus)
        return st_why_corpus(why.corpus, why.show, why.json, stdout);
    answer.now.struct_size = answer.after.struct_size = answer.ruled.struct_size =
        sizeof answer.now;
    if (symtuner_predict(&why.call, &answer.now) != SYMTUNER_OK) {
        fprintf(stderr, "symtuner why: a value is out of range; see symtuner why --help\n");
        return ST_EXIT_USAGE;
    }
    st_why_cure(&why.call, &answer);
    status = st_why_rules(&why, &answer);
    if (status != ST_EXIT_FINE)
        return status;
    (why.json ? st_why_print_json : st_why_print)(&why, &answer, stdout);
    return ST_EXIT_FINE;
}
