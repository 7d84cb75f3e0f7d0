/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/tuner.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/ranks/agree.h"
#include "plugin/ledger.h"
#include "plugin/log.h"

struct st_tuner {
    const struct st_process *process;
    const struct st_era *era;
    bool mixed;
    _Atomic(struct st_index *) index; /* finds the rule of a call; NULL: no rule applies    */
    struct st_index *wished;    /* becomes ${index} once all ranks agree                    */
    struct st_agree *agree;     /* compares the rules of the ranks; NULL: not compared      */
    struct st_next_tuner *next; /* the tuner behind ours (next/open.h); NULL: there is none */
    struct st_ledger *ledger;   /* NULL: nothing is counted, because memory ran out         */
    uint64_t comm_id;
    int ranks;
    bool write;                 /* may change the table; false: only observe                */
    bool pick;                  /* a ledger is wanted: also count what NCCL chooses         */
    atomic_bool slow;           /* calls go through decide_slowly()                         */
    bool settled;               /* settle() has compared the ranks; the lock in settle()
                                   guards this                                             */
};

nccl_abi_result st_tuner_open(const struct st_tuner_init *init, void **ctx_out)
{
    const struct st_process *process = st_process_start(init->logger, init->abi);
    size_t ranks = init->ranks, nodes = init->nodes;
    struct st_group group = {st_process_caller(init->logger), (int)ranks, (int)nodes,
                             process->machine};
    struct st_for_nccl here = st_process_for(group.nccl);
    int rules = here.rules ? here.rules->count : 0;
    struct st_tuner *tuner;
    bool told = here.min_ctas || (here.sym_ctas && here.asks);
    char release[16], ctas[16];

    *ctx_out = NULL;
    if (here.rules_wrong && process->options.strict)
        return NCCL_ABI_INVALID_USAGE;
    if (!(tuner = calloc(1, sizeof *tuner)))
        return NCCL_ABI_SUCCESS;
    tuner->process = process;
    tuner->era = here.era;
    tuner->mixed = process->mixed;
    tuner->comm_id = init->comm_id;
    tuner->ranks = (int)ranks;
    tuner->write = process->options.mode == ST_MODE_STEER;
    tuner->pick = process->options.ledger[0] != '\0';
    tuner->agree = st_agree_open(process, &here, init->comm_id, (int)ranks, (int)nodes);
    tuner->next = st_next_tuner_open(init, process->options.next_tuner,
                                     process->options.mode == ST_MODE_OFF);
    *ctx_out = tuner;
    if (process->options.mode == ST_MODE_OFF)
        return NCCL_ABI_SUCCESS; /* off: only compare the ranks, and run the tuner behind ours */
    if (rules)
        tuner->wished = st_index_build(here.rules, &group);
    if (!tuner->agree)
        tuner->index = tuner->wished;
    tuner->settled = !tuner->agree;
    tuner->slow = tuner->pick || !tuner->settled;
    tuner->ledger = st_ledger_open(init->comm_id, (int)ranks, (int)nodes, group.nccl);
    st_ledger_listen(&process->options);
    if (!st_ledger_tuner_opens(tuner->ledger))
        return NCCL_ABI_SUCCESS;
    snprintf(ctas, sizeof ctas, "%d", here.sym_ctas ? here.sym_ctas : here.min_ctas);
    st_info("%s on NCCL %s, comm 0x%llx, %zu rank%s, tuner v%d: %d rule%s (0x%016llx), %s%s "
            "symmetric CTAs%s (%s)",
            SYMTUNER_VERSION, st_release_print(group.nccl, release, sizeof release),
            (unsigned long long)init->comm_id, ranks, ranks == 1 ? "" : "s", init->abi, rules,
            rules == 1 ? "" : "s",
            (unsigned long long)here.rules_hash,
            told && !here.sym_ctas ? "at least " : "", told ? ctas : "NCCL's",
            process->options.mode == ST_MODE_OBSERVE ? ", observing only" : "",
            here.ctas_from);
    return NCCL_ABI_SUCCESS;
}

static void count_pick(struct st_tuner *tuner, int coll, int bucket, struct st_table table,
                       const float *shown)
{
    int algo, proto;

    if (st_table_pick(tuner->era, table.cost, shown, table.algos, table.protos, &algo,
                      &proto) &&
        algo < SYMTUNER_ALGOS && proto < SYMTUNER_PROTOS)
        st_ledger_add(tuner->ledger,
                      &tuner->ledger->picked[coll][bucket][algo * SYMTUNER_PROTOS + proto]);
}

/* Forbid the entries that the tuner behind ours has made negative. By a negative value it may mean
 * "do not use". But from 2.31 on NCCL prefers a negative entry to all others, which would override
 * our rule. */
static void forbid_negatives(const struct st_era *era, const float *shown, struct st_table table)
{
    for (int i = 0; era->negative_wins && i < table.algos * table.protos; i++)
        if (shown[i] >= 0.0f && !(table.cost[i] >= 0.0f))
            table.cost[i] = INFINITY;
}

/* Find the rule for ${call}, apply the rule to ${table} and ${*n_channels}, and count the call. If
 * a tuner is behind ours, ${shown} is a copy of the table that NCCL gave to that tuner; otherwise
 * it is NULL. ${empty_probe}: this is a probe (st_is_probe) whose table has no live entry, so no
 * rule is applied. ${pick}: also count which entry NCCL will take. */
static inline __attribute__((always_inline)) void decide(struct st_tuner *tuner,
                                                         struct st_call call,
                                                         struct st_table table, int *n_channels,
                                                         const float *shown, bool empty_probe,
                                                         bool pick)
{
    enum st_verdict verdict = empty_probe ? ST_VERDICT_PROBE : ST_VERDICT_NO_RULE;
    struct st_ledger *ledger = tuner->ledger;
    int bucket = st_ledger_bucket(call.bytes);

    const struct st_index *index = atomic_load_explicit(&tuner->index, memory_order_relaxed);

    if (index && !empty_probe) {
        const struct st_rule *rule = st_index_find(index, &call);

        if (rule && tuner->write && shown)
            forbid_negatives(tuner->era, shown, table);
        if (rule && tuner->write)
            verdict = st_steer(tuner->era, &rule->act, call.coll, call.pipe_ops, tuner->mixed,
                               table, n_channels);
        else if (rule)
            verdict = ST_VERDICT_UNTOUCHED;
    }
    if (!ledger)
        return;
    st_ledger_add(ledger, &ledger->asked[call.coll][bucket][call.registered][verdict]);
    if (pick)
        count_pick(tuner, call.coll, bucket, table, shown);
}

/* Called at a communicator's first call: put the rules in force if all ranks agree. Each rank has
 * written into shared memory what its decisions depend on (plugin/ranks/rollcall.h). By now every
 * rank with symtuner has done so, because NCCL has a barrier between the tuner inits and the first
 * call. */
static void settle(struct st_tuner *tuner)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    if (!tuner->settled) {
        if (st_agree_rules(tuner->agree))
            atomic_store_explicit(&tuner->index, tuner->wished, memory_order_release);
        tuner->settled = true;
        atomic_store(&tuner->slow, tuner->pick);
    }
    pthread_mutex_unlock(&lock);
}

/* Decide on the slow path: for a communicator's first calls, for probes, and for every call if a
 * ledger is wanted or a tuner is behind ours. Not inlined, so that other calls stay fast. */
static __attribute__((noinline)) void decide_slowly(struct st_tuner *tuner, struct st_call call,
                                                    struct st_table table, int *n_channels,
                                                    const float *shown)
{
    struct st_table given = {(float *)(uintptr_t)shown, table.algos, table.protos};
    bool probe = st_is_probe(tuner->era, call.pipe_ops);

    if (atomic_load_explicit(&tuner->slow, memory_order_relaxed))
        settle(tuner);
    call.bytes = st_whole_bytes(tuner->era, call.coll, call.bytes, tuner->ranks, call.pipe_ops);
    /* NCCL 2.31 and later also sends probes whose table has no live entry, but does not use our
     * answer to them. */
    decide(tuner, call, table, n_channels, shown,
           probe && !st_table_live(shown ? given : table), tuner->pick && !probe);
}

/* Ask the tuner behind ours, then apply our rules to the table that it wrote. If that tuner fails,
 * return its error to NCCL (plugin/next/tuner.h says why). */
static __attribute__((noinline)) nccl_abi_result
decide_behind(struct st_tuner *tuner, int func, size_t bytes, int pipe_ops, float **costs,
              int n_algo, int n_proto, int reg_buff, int *n_channels)
{
    enum { CELLS = 64 }; /* NCCL's table has 21 entries */
    struct st_table table = {(float *)costs, n_algo, n_proto};
    struct st_call call = {func, bytes, pipe_ops, reg_buff != 0};
    int cells = n_algo * n_proto;
    bool ours = tuner->process->options.mode != ST_MODE_OFF && func >= 0 &&
                func < SYMTUNER_COLLS && costs && n_channels && cells > 0 && cells <= CELLS;
    float shown[CELLS];
    nccl_abi_result result;

    if (ours)
        memcpy(shown, costs, (size_t)cells * sizeof *shown);
    result = st_next_tuner_ask(tuner->next, func, bytes, pipe_ops, costs, n_algo, n_proto,
                               reg_buff, n_channels);
    if (ours && result == NCCL_ABI_SUCCESS)
        decide_slowly(tuner, call, table, n_channels, shown);
    return result;
}

nccl_abi_result st_tuner_decide(void *ctx, int func, size_t bytes, int pipe_ops, float **costs,
                                int n_algo, int n_proto, int reg_buff, int *n_channels)
{
    struct st_tuner *tuner = ctx;
    struct st_table table = {(float *)costs, n_algo, n_proto};
    struct st_call call = {func, bytes, pipe_ops, reg_buff != 0};

    if (tuner && __builtin_expect(tuner->next != NULL, 0))
        return decide_behind(tuner, func, bytes, pipe_ops, costs, n_algo, n_proto, reg_buff,
                             n_channels);
    if (!tuner || func < 0 || func >= SYMTUNER_COLLS || !costs || !n_channels)
        return NCCL_ABI_SUCCESS;
    if (pipe_ops == 0 || atomic_load_explicit(&tuner->slow, memory_order_relaxed))
        decide_slowly(tuner, call, table, n_channels, NULL);
    else
        decide(tuner, call, table, n_channels, NULL, false, false);
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_tuner_chunk(void *ctx, int func, size_t bytes, int algo, int proto,
                               int n_channels, size_t *chunk_size)
{
    struct st_tuner *tuner = ctx;

    /* ${bytes} is the size of one channel's part of the call. We cannot tell from it which rule
     * covers the call, so we only ask the tuner behind ours. */
    return tuner && tuner->next ? st_next_tuner_chunk(tuner->next, func, bytes, algo, proto,
                                                      n_channels, chunk_size)
                                : NCCL_ABI_SUCCESS;
}

nccl_abi_result st_tuner_close(void *ctx)
{
    struct st_tuner *tuner = ctx;
    uint64_t asked = 0, steered = 0;

    if (!tuner)
        return NCCL_ABI_SUCCESS;
    if (tuner->ledger)
        st_ledger_sums(tuner->ledger, &asked, &steered);
    if (tuner->process->options.mode != ST_MODE_OFF && st_ledger_tuner_closes(tuner->ledger))
        st_info("comm 0x%llx done: asked %llu times, rules decided %llu",
                (unsigned long long)tuner->comm_id, (unsigned long long)asked,
                (unsigned long long)steered);
    st_next_tuner_close(tuner->next);
    st_ledger_close(tuner->ledger);
    st_agree_close(tuner->agree);
    free(tuner->wished);
    free(tuner);
    return NCCL_ABI_SUCCESS;
}
