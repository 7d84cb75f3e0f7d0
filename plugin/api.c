/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - symtuner_decide and symtuner_table_*. They call the same pure functions as our tuner does
 * when NCCL asks it about a call. */
#include <stdio.h>
#include <string.h>

#include "plugin/process.h"
#include "plugin/steer.h"

enum symtuner_status symtuner_decide(const symtuner_rules *rules,
                                     const struct symtuner_query *query,
                                     struct symtuner_decision *out)
{
    struct symtuner_query q = {0}; /* members that an older caller's struct lacks stay 0 */
    struct st_group group;
    struct st_call call;
    const struct st_rule *rule, *process;
    struct symtuner_decision d = {.struct_size = sizeof d, .rule = -1, .algo = -1, .proto = -1};

    if (!query || !out || query->struct_size > sizeof q || out->struct_size > sizeof d)
        return SYMTUNER_EINVAL;
    memcpy(&q, query, query->struct_size);
    if (q.ranks < 1 || q.nodes < 1 || q.nccl < 22700 || q.coll < 0 || q.coll >= SYMTUNER_COLLS ||
        q.pipe_ops < 0)
        return SYMTUNER_EINVAL;
    group = (struct st_group){q.nccl, q.ranks, q.nodes, q.machine};
    call = (struct st_call){
        q.coll, st_whole_bytes(st_era_of(q.nccl), q.coll, q.bytes, q.ranks, q.pipe_ops), q.pipe_ops,
        q.registered != 0};
    rule = st_match(rules, 0, &group, &call);
    process = st_rules_process(rules, q.nccl, &q.machine);
    d.process_ctas = process ? process->act.sym_ctas : 0;
    d.min_ctas = q.no_defaults ? 0 : st_default_ctas(q.nccl, &q.machine);
    if (rule) {
        d.rule = (int)(rule - rules->rule);
        d.line = rule->line;
        strcpy(d.name, rule->name);
        d.prefer = rule->act.prefer;
        d.algo = rule->act.algo;
        d.proto = rule->act.proto;
        d.forbid = rule->act.forbid;
        d.channels = rule->act.channels;
    }
    d.struct_size = out->struct_size;
    memcpy(out, &d, out->struct_size);
    return SYMTUNER_OK;
}

/* Return a hash of all bits of a table. Equal hashes mean equal tables. */
static uint64_t fingerprint(const float *table, int cells)
{
    uint64_t print = ST_HASH_START;

    for (int i = 0; i < cells; i++) {
        uint32_t bits;

        memcpy(&bits, &table[i], sizeof bits);
        print = st_hash_value(print, bits);
    }
    return print;
}

int symtuner_table_apply(const struct symtuner_decision *decision,
                         const struct symtuner_query *query, float *table, int n_algo, int n_proto,
                         int *channels)
{
    struct st_action action = {.prefer = decision->prefer,
                               .algo = decision->algo,
                               .proto = decision->proto,
                               .forbid = decision->forbid,
                               .channels = decision->channels};
    int before_channels = *channels;
    uint64_t before = fingerprint(table, n_algo * n_proto);

    if (decision->rule < 0)
        return 0;
    st_steer(st_era_of(query->nccl), &action, (int)query->coll, query->pipe_ops, false,
             (struct st_table){table, n_algo, n_proto}, channels);
    return *channels != before_channels || fingerprint(table, n_algo * n_proto) != before;
}

int symtuner_table_pick(int nccl, const float *table, int n_algo, int n_proto, int *algo_out,
                        int *proto_out)
{
    return st_table_pick(st_era_of(nccl), table, NULL, n_algo, n_proto, algo_out, proto_out);
}
