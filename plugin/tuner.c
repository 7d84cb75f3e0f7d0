/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/tuner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugin/agree.h"
#include "plugin/ledger.h"
#include "plugin/log.h"

struct st_tuner {
    const struct st_process *process;
    const struct st_era *era; /* of the release                              */
    bool mixed;               /* of the process                              */
    _Atomic(struct st_index *) index; /* in force; NULL: no rule               */
    struct st_index *wished;  /* in force once all ranks are known to agree  */
    struct st_agree *agree;
    struct st_ledger *ledger; /* NULL: out of memory, nothing is counted     */
    uint64_t comm_id;
    int ranks;
    bool write;               /* steering, not only observing                */
    bool pick;                /* a ledger is wanted: also count what NCCL takes */
    atomic_bool slow;         /* pick, or the roll call was not read yet     */
    bool settled;             /* it was; under the lock                      */
};

nccl_abi_result st_tuner_open(int abi, uint64_t comm_id, size_t ranks, size_t nodes,
                              nccl_abi_logger logger, void **ctx_out)
{
    const struct st_process *process = st_process_start(logger, abi);
    struct st_group group = {process->nccl, (int)ranks, (int)nodes, process->machine};
    int rules = process->rules ? process->rules->count : 0;
    struct st_tuner *tuner;
    bool told = process->min_ctas || (process->sym_ctas && process->env_interface);
    char release[16], ctas[16];

    *ctx_out = NULL;
    if (process->rules_wrong && process->options.strict)
        return NCCL_ABI_INVALID_USAGE;
    if (!(tuner = calloc(1, sizeof *tuner)))
        return NCCL_ABI_SUCCESS;
    tuner->process = process;
    tuner->era = process->era;
    tuner->mixed = process->mixed;
    tuner->comm_id = comm_id;
    tuner->ranks = (int)ranks;
    tuner->write = process->options.mode == ST_MODE_STEER;
    tuner->pick = process->options.ledger[0] != '\0';
    tuner->agree = st_agree_open(process, comm_id, (int)ranks, (int)nodes);
    *ctx_out = tuner;
    if (process->options.mode == ST_MODE_OFF)
        return NCCL_ABI_SUCCESS; /* it answers the roll call, and that is all */
    if (rules)
        tuner->wished = st_index_build(process->rules, &group);
    if (!tuner->agree)
        tuner->index = tuner->wished;
    tuner->settled = !tuner->agree;
    tuner->slow = tuner->pick || !tuner->settled;
    tuner->ledger = st_ledger_open(comm_id, (int)ranks, (int)nodes);
    st_ledger_listen(&process->options);
    if (!st_ledger_tuner_opens(tuner->ledger))
        return NCCL_ABI_SUCCESS;
    snprintf(ctas, sizeof ctas, "%d", process->sym_ctas ? process->sym_ctas : process->min_ctas);
    st_info("%s on NCCL %s, comm 0x%llx, %zu rank%s, tuner v%d: %d rule%s (0x%016llx), %s%s "
            "symmetric CTAs%s (%s)",
            SYMTUNER_VERSION, st_release_print(process->nccl, release, sizeof release),
            (unsigned long long)comm_id, ranks, ranks == 1 ? "" : "s", abi, rules,
            rules == 1 ? "" : "s",
            (unsigned long long)process->rules_hash,
            told && !process->sym_ctas ? "at least " : "", told ? ctas : "NCCL's",
            process->options.mode == ST_MODE_OBSERVE ? ", observing only" : "",
            process->ctas_from);
    return NCCL_ABI_SUCCESS;
}

static void count_pick(struct st_tuner *tuner, int coll, int bucket, struct st_table table)
{
    int algo, proto;

    if (st_table_pick(tuner->era, table.cost, NULL, table.algos, table.protos, &algo,
                      &proto) &&
        algo < SYMTUNER_ALGOS && proto < SYMTUNER_PROTOS)
        st_ledger_add(tuner->ledger,
                      &tuner->ledger->picked[coll][bucket][algo * SYMTUNER_PROTOS + proto]);
}

/* Find the rule, apply it, count. The counter's place is known before the answer is. */
static inline __attribute__((always_inline)) void decide(struct st_tuner *tuner,
                                                         struct st_call call,
                                                         struct st_table table, int *n_channels,
                                                         bool empty_probe, bool pick)
{
    enum st_verdict verdict = empty_probe ? ST_VERDICT_PROBE : ST_VERDICT_NO_RULE;
    struct st_ledger *ledger = tuner->ledger;
    int bucket = st_ledger_bucket(call.bytes);

    const struct st_index *index = atomic_load_explicit(&tuner->index, memory_order_relaxed);

    if (index && !empty_probe) {
        const struct st_rule *rule = st_index_find(index, &call);

        if (rule && tuner->write)
            verdict = st_steer(tuner->era, &rule->act, call.coll, call.pipe_ops, tuner->mixed,
                               table, n_channels);
        else if (rule)
            verdict = ST_VERDICT_LEFT;
    }
    if (!ledger)
        return;
    st_ledger_add(ledger, &ledger->asked[call.coll][bucket][call.registered][verdict]);
    if (pick)
        count_pick(tuner, call.coll, bucket, table);
}

/* NCCL's barrier lies between the tuner inits and the first call: all ranks that will ever answer
 * the roll call have done so. */
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

/* First calls, probes and wanted ledgers: kept out of the way of everyone else's calls. */
static __attribute__((noinline)) void decide_slowly(struct st_tuner *tuner, struct st_call call,
                                                    struct st_table table, int *n_channels)
{
    bool probe = st_is_probe(tuner->era, call.pipe_ops);

    if (atomic_load_explicit(&tuner->slow, memory_order_relaxed))
        settle(tuner);
    call.bytes = st_whole_bytes(tuner->era, call.coll, call.bytes, tuner->ranks, call.pipe_ops);
    /* NCCL >= 2.31 asks once with nothing to choose from, and does not use the answer */
    decide(tuner, call, table, n_channels, probe && !st_table_live(table), tuner->pick && !probe);
}

nccl_abi_result st_tuner_decide(void *ctx, int func, size_t bytes, int pipe_ops, float **costs,
                                int n_algo, int n_proto, int reg_buff, int *n_channels)
{
    struct st_tuner *tuner = ctx;
    struct st_table table = {(float *)costs, n_algo, n_proto};
    struct st_call call = {func, bytes, pipe_ops, reg_buff != 0};

    if (!tuner || func < 0 || func >= SYMTUNER_COLLS || !costs || !n_channels)
        return NCCL_ABI_SUCCESS;
    if (pipe_ops == 0 || atomic_load_explicit(&tuner->slow, memory_order_relaxed))
        decide_slowly(tuner, call, table, n_channels);
    else
        decide(tuner, call, table, n_channels, false, false);
    return NCCL_ABI_SUCCESS;
}

nccl_abi_result st_tuner_chunk(void *ctx, int func, size_t bytes, int algo, int proto,
                               int n_channels, size_t *chunk_size)
{
    /* ${bytes} are those of one channel: no rule could know the call by them */
    (void)ctx, (void)func, (void)bytes, (void)algo, (void)proto, (void)n_channels;
    (void)chunk_size;
    return NCCL_ABI_SUCCESS;
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
    st_ledger_close(tuner->ledger);
    st_agree_close(tuner->agree);
    free(tuner->wished);
    free(tuner);
    return NCCL_ABI_SUCCESS;
}
