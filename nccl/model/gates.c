/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gates.c - checks NCCL's conditions for a symmetric kernel, and predicts what NCCL runs.
 *
 * A gate is one condition. A gate function looks at the call and returns pass, fail, unknown or
 * idle. Idle means that the condition does not concern this release or call. All gates are
 * evaluated, so that a report can show all that fail. The first failing gate in NCCL's order
 * decides what NCCL runs.
 */
#include <string.h>

#include "nccl/model/setting_list.h"
#include "nccl/model/symmetric_cost.h"
#include "symtuner_why.h"

#define PASS SYMTUNER_GATE_PASS
#define FAIL SYMTUNER_GATE_FAIL
#define IDLE SYMTUNER_GATE_IDLE

/* What the functions of all gates read. It is filled in once per call. */
struct look {
    const struct symtuner_call *call;
    const struct st_era *era;
    struct st_sym_query query;
    enum st_sym_kernel_env env;
    bool has_pick;
    struct st_sym_pick pick;
    int algo, proto; /* the entry of the cost table that NCCL chooses; -1: none, or no table   */
    bool nothing;    /* there is a cost table, but NCCL can choose none of its entries         */
};

static const struct {
    const char *name, *text, *cure;
} gate_text[] = {
#define X(id, name, text, cure) {name, text, cure},
    SYMTUNER_GATE_MAP(X)
#undef X
};

static bool is_fp8(const struct symtuner_call *call)
{
    return call->dtype == SYMTUNER_FLOAT8E4M3 || call->dtype == SYMTUNER_FLOAT8E5M2;
}

static bool is_reduction(const struct symtuner_call *call)
{
    return call->coll != SYMTUNER_ALLGATHER && call->coll != SYMTUNER_BROADCAST;
}

/* Can symmetric kernels and multicast loads sum the call's type? */
static bool is_small_float(const struct symtuner_call *call)
{
    return call->dtype == SYMTUNER_FLOAT32 || call->dtype == SYMTUNER_FLOAT16 ||
           call->dtype == SYMTUNER_BFLOAT16 || is_fp8(call);
}

static bool both_windows(const struct symtuner_call *call)
{
    return call->send == SYMTUNER_REG_SYMMETRIC && call->recv == SYMTUNER_REG_SYMMETRIC;
}

static bool no_window(const struct symtuner_call *call)
{
    return call->send != SYMTUNER_REG_SYMMETRIC && call->recv != SYMTUNER_REG_SYMMETRIC;
}

static bool several_gpus(const struct symtuner_call *call)
{
    return call->one_process && call->ranks > 1 && !call->proc_reg;
}

static struct st_sym_query query_of(const struct symtuner_call *call)
{
    const struct st_era *era = st_era_of(call->nccl);
    bool mc = call->multicast && call->ranks >= era->multicast_ranks &&
              !(era->multicast_lazy && call->first && no_window(call));
    struct st_sym_query query = {
        .version = call->nccl,
        .coll = call->coll,
        .bytes = call->count * (uint64_t)symtuner_dtype_size(call->dtype),
        .works = call->group,
        .ranks = call->ranks,
        .arch = call->arch,
        .store_mc = mc,
        .load_mc = mc && is_small_float(call) && (!is_fp8(call) || call->arch >= 100),
        .send_window = call->send == SYMTUNER_REG_SYMMETRIC,
        .recv_window = call->recv == SYMTUNER_REG_SYMMETRIC,
        .tma = call->arch >= 100 && era->tma != ST_TMA_NONE &&
               (call->sym_tma < 0 ? era->tma == ST_TMA_ON : call->sym_tma),
        .min_ctas = call->min_ctas,
        .max_ctas = call->max_ctas,
        .sym_ctas = call->sym_ctas,
        .allowed = ~0u,
        .forced = call->sym_kernel != NULL,
    };

    return query;
}

static enum symtuner_gate_state gate_release(const struct look *look)
{
    return look->era->symmetric ? PASS : FAIL;
}

static enum symtuner_gate_state gate_fp8(const struct look *look)
{
    if (!is_fp8(look->call) || (!is_reduction(look->call) && !look->era->fp8_needs_sm90))
        return IDLE;
    return look->call->arch >= 90 ? PASS : FAIL;
}

static enum symtuner_gate_state gate_ranks(const struct look *look)
{
    return look->call->ranks > 1 ? PASS : FAIL;
}

static enum symtuner_gate_state gate_nodes(const struct look *look)
{
    return look->call->nodes == 1 ? PASS : FAIL;
}

static enum symtuner_gate_state gate_windows(const struct look *look)
{
    return look->call->win_enable && look->call->cumem_enable ? PASS : FAIL;
}

static enum symtuner_gate_state gate_peer(const struct look *look)
{
    bool peer = look->era->peer == ST_PEER_RAW ? look->call->peer_raw : look->call->peer_nccl;

    return peer ? PASS : FAIL;
}

static enum symtuner_gate_state gate_ce(const struct look *look)
{
    const struct symtuner_call *call = look->call;
    bool recv = call->recv == SYMTUNER_REG_SYMMETRIC;
    bool mc = look->query.store_mc, tma = look->query.tma;
    uint64_t limit = call->ce_threshold >= 0 ? (uint64_t)call->ce_threshold : 8u << 20;

    if (call->coll != SYMTUNER_ALLGATHER || look->era->ce == ST_CE_NEVER)
        return IDLE;
    if (look->era->ce == ST_CE_POLICY_BOTH)
        return call->cta_policy == 2 && both_windows(call) ? FAIL : PASS;
    if (call->ce_threshold < 0 && look->era->tma == ST_TMA_ON && tma && !mc)
        limit *= 4;
    if (recv && call->cta_policy & 2)
        return FAIL;
    return recv && call->arch >= 100 && call->nvlink && call->count > limit ? FAIL : PASS;
}

static enum symtuner_gate_state gate_nvlink(const struct look *look)
{
    if (!look->era->needs_nvlink)
        return IDLE;
    return look->call->nvlink ? PASS : FAIL;
}

static enum symtuner_gate_state gate_coll(const struct look *look)
{
    enum symtuner_coll coll = look->call->coll;

    return coll == SYMTUNER_ALLREDUCE || coll == SYMTUNER_ALLGATHER ||
                   coll == SYMTUNER_REDUCESCATTER
               ? PASS
               : FAIL;
}

static enum symtuner_gate_state gate_type(const struct look *look)
{
    const struct symtuner_call *call = look->call;

    if (!is_reduction(call))
        return IDLE;
    if (call->op != SYMTUNER_SUM && !(call->op == SYMTUNER_AVG && look->era->symmetric_avg))
        return FAIL;
    return is_small_float(call) ? PASS : FAIL;
}

static enum st_says says(const struct look *look, const char *list, const char *word)
{
    return st_list_says(list, symtuner_coll_name((int)look->call->coll), word);
}

/* From 2.31 on NCCL_ALGO also excludes symmetric kernels. If NCCL_ALGO names collectives, it does
 * so only for these collectives. NCCL_SYM_KERNEL can allow some of the excluded kernels again. */
static enum symtuner_gate_state gate_algo_env(const struct look *look)
{
    if (!look->era->algo_env_excludes)
        return IDLE;
    if (says(look, look->call->algo, "") == ST_SAYS_NOTHING)
        return PASS;
    return look->env == ST_ENV_LIMITS ? PASS : FAIL;
}

static enum symtuner_gate_state gate_kernel_env(const struct look *look)
{
    struct st_sym_query any_size = look->query;

    if (look->env == ST_ENV_UNSET || gate_coll(look) == FAIL)
        return IDLE;
    any_size.bytes = 1;
    return look->env == ST_ENV_LIMITS && st_sym_mask(&any_size) ? PASS : FAIL;
}

static enum symtuner_gate_state gate_size(const struct look *look)
{
    struct st_sym_query any_kernel = look->query;

    if (gate_coll(look) == FAIL)
        return IDLE;
    if (gate_kernel_env(look) == FAIL)
        any_kernel.allowed = ~0u;
    return st_sym_mask(&any_kernel) ? PASS : FAIL;
}

static enum symtuner_gate_state gate_registered(const struct look *look)
{
    struct st_sym_query alone = look->query;

    if (gate_coll(look) == FAIL)
        return IDLE;
    if (look->era->symmetric_one_sided && no_window(look->call) && !look->call->sym_nowin &&
        (look->env == ST_ENV_UNSET || look->era->ll == ST_LL_ASK_VOID))
        return FAIL;
    alone.works = 1;
    return st_sym_mask_call(&alone) || !st_sym_mask(&alone) ? PASS : FAIL;
}

static enum symtuner_gate_state gate_group(const struct look *look)
{
    if (look->call->group == 1 || gate_coll(look) == FAIL)
        return IDLE;
    return look->has_pick ? PASS : FAIL;
}

/* Does NCCL use the symmetric kernel that it picked, whatever the cost table says? Up to 2.30 it
 * does so if NCCL_SYM_KERNEL is set and allows this kernel. */
static bool forced(const struct look *look)
{
    return look->env == ST_ENV_LIMITS && look->era->ll != ST_LL_ASK_VOID;
}

static bool picked_ll(const struct look *look)
{
    return look->has_pick && st_kernel_flags(look->pick.kernel) & ST_KERNEL_LL;
}

static enum symtuner_gate_state gate_process(const struct look *look)
{
    bool none = no_window(look->call);

    if (look->era->ll == ST_LL_KEEP || !picked_ll(look))
        return IDLE;
    if (look->era->ll == ST_LL_ASK_ALWAYS)
        return several_gpus(look->call) && (none || !forced(look)) ? FAIL : PASS;
    return several_gpus(look->call) && none ? FAIL : PASS;
}

static enum symtuner_gate_state gate_ll_asked(const struct look *look)
{
    if (look->era->ll == ST_LL_KEEP || !picked_ll(look) || forced(look))
        return IDLE;
    if (look->era->ll != ST_LL_ASK_ALWAYS && both_windows(look->call))
        return IDLE;
    if (look->call->tuner_ll)
        return PASS;
    if (look->nothing)
        return FAIL;
    if (look->era->ll == ST_LL_ASK_VOID) /* LL wins only if NCCL_PROTO excludes LL128 and Simple */
        return says(look, look->call->proto, "ll") == ST_SAYS_YES &&
                       says(look, look->call->proto, "ll128") == ST_SAYS_NO &&
                       says(look, look->call->proto, "simple") == ST_SAYS_NO
                   ? PASS
                   : FAIL;
    if (look->proto < 0)
        return SYMTUNER_GATE_UNKNOWN;
    return look->proto == SYMTUNER_LL ? PASS : FAIL;
}

/* One function per gate, in the order of SYMTUNER_GATE_MAP. */
static enum symtuner_gate_state (*const gates[SYMTUNER_GATES])(const struct look *) = {
    gate_release, gate_fp8,      gate_ranks,      gate_nodes, gate_windows,    gate_peer,
    gate_ce,      gate_nvlink,   gate_coll,       gate_type,  gate_algo_env,   gate_kernel_env,
    gate_size,    gate_registered, gate_group,    gate_process, gate_ll_asked,
};

/* Return what NCCL does with a call whose first failing gate is ${gate}. */
static enum symtuner_kind kind_behind(const struct look *look, enum symtuner_gate gate)
{
    const struct st_era *era = look->era;
    bool list = era->sym_kernel == ST_SYM_KERNEL_LIST;

    if (gate == SYMTUNER_GATE_CE)
        return SYMTUNER_KIND_CE;
    if (gate == SYMTUNER_GATE_FP8)
        return SYMTUNER_KIND_ERROR;
    if (list && look->env == ST_ENV_FATAL)
        return SYMTUNER_KIND_ERROR; /* the communicator cannot be created */
    if (list && look->env == ST_ENV_LIMITS && !look->call->algo && gate != SYMTUNER_GATE_RANKS)
        return SYMTUNER_KIND_ERROR; /* NCCL_SYM_KERNEL excludes general kernels, too */
    /* NCCL 2.28 first removes the call from the queue of general kernels, and then finds that no
     * symmetric kernel can run the call either. So nothing runs. */
    if (gate == SYMTUNER_GATE_GROUP && era->symmetric_groups && !era->symmetric_one_sided)
        return SYMTUNER_KIND_ERROR;
    if (look->nothing && gate != SYMTUNER_GATE_RANKS)
        return SYMTUNER_KIND_ERROR; /* NCCL can choose no entry: NVLS has no LL, for example */
    return SYMTUNER_KIND_GENERAL;
}

static void list_candidates(const struct look *look, struct symtuner_verdict *out)
{
    uint32_t usable = st_sym_mask_call(&look->query);

    out->candidates = 0;
    for (int k = 0; k < ST_KERNELS; k++) {
        struct symtuner_candidate *candidate = &out->candidate[out->candidates];
        struct st_sym_price price;

        if (st_kernel_coll((enum st_kernel)k) != look->call->coll)
            continue;
        candidate->name = st_kernel_name((enum st_kernel)k);
        candidate->usable = st_sym_price(&look->query, (enum st_kernel)k, &price) &&
                            (usable >> k & 1);
        candidate->ctas = candidate->usable ? price.ctas : 0;
        candidate->time_us = candidate->usable ? price.time_us : 0;
        candidate->cost = candidate->usable ? price.cost : 0;
        out->candidates++;
    }
}

static bool unsure_pick(const struct look *look)
{
    const struct symtuner_call *call = look->call;

    switch (look->era->unsure) {
    case ST_UNSURE_GATHER:
        return call->coll == SYMTUNER_ALLGATHER && call->group == 1 &&
               (call->arch == 100 || call->arch == 103);
    case ST_UNSURE_MORE:
        return call->arch >= 100 || look->query.store_mc;
    default:
        return false;
    }
}

/* Return how often NCCL asks the tuner before it launches the call; -1: not known. */
static int count_tuner_calls(const struct look *look, const struct symtuner_verdict *out)
{
    bool general = out->kind == SYMTUNER_KIND_GENERAL;
    bool asked = look->era->ll == ST_LL_ASK_ALWAYS ? picked_ll(look)
                                                   : out->state[SYMTUNER_GATE_LL_ASKED] != IDLE &&
                                                         out->state[SYMTUNER_GATE_PROCESS] != FAIL;

    if (out->kind == SYMTUNER_KIND_OPEN || look->era->ll == ST_LL_ASK_VOID)
        return -1;
    if (out->gate < SYMTUNER_GATE_REGISTERED ||
        (out->gate == SYMTUNER_GATE_REGISTERED && look->era->ll == ST_LL_ASK_PARTLY))
        asked = false;
    return general + asked;
}

static bool in_range(const struct symtuner_call *call)
{
    return call && call->struct_size >= sizeof *call && (unsigned)call->coll < SYMTUNER_COLLS &&
           (unsigned)call->dtype < SYMTUNER_DTYPES && (unsigned)call->op < SYMTUNER_OPS &&
           (unsigned)call->send < SYMTUNER_REGS && (unsigned)call->recv < SYMTUNER_REGS &&
           call->count > 0 && call->count <= 1ull << 48 && call->group >= 1 &&
           call->group <= 1 << 20 && call->ranks >= 1 && call->ranks <= 1 << 20 &&
           call->nodes >= 1 && call->nodes <= call->ranks && call->arch > 0 &&
           call->min_ctas >= 1 && call->max_ctas >= 1 && call->nccl >= 20000;
}

enum symtuner_status symtuner_predict(const struct symtuner_call *call,
                                      struct symtuner_verdict *out)
{
    struct look look = {.call = call, .algo = -1, .proto = -1};

    if (!in_range(call) || !out || out->struct_size < sizeof *out)
        return SYMTUNER_EINVAL;
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    look.era = st_era_of(call->nccl);
    look.query = query_of(call);
    look.env = st_sym_kernel_env(look.era, call->sym_kernel, call->coll, &look.query.allowed);
    look.has_pick = st_sym_pick(&look.query, st_sym_mask_call(&look.query), &look.pick);
    look.nothing = call->table && !st_table_pick(look.era, call->table, NULL, SYMTUNER_ALGOS,
                                                 SYMTUNER_PROTOS, &look.algo, &look.proto);

    out->gate = SYMTUNER_GATE_NONE;
    for (int g = SYMTUNER_GATES - 1; g >= 0; g--) {
        out->state[g] = gates[g](&look);
        if (out->state[g] == FAIL)
            out->gate = (enum symtuner_gate)g;
    }
    if (out->gate != SYMTUNER_GATE_NONE)
        out->kind = kind_behind(&look, out->gate);
    else if (out->state[SYMTUNER_GATE_LL_ASKED] == SYMTUNER_GATE_UNKNOWN)
        out->kind = SYMTUNER_KIND_OPEN;
    else
        out->kind = SYMTUNER_KIND_SYMMETRIC;

    out->algo = out->kind == SYMTUNER_KIND_GENERAL ? look.algo : -1;
    out->proto = out->kind == SYMTUNER_KIND_GENERAL ? look.proto : -1;
    if (out->kind == SYMTUNER_KIND_SYMMETRIC || out->kind == SYMTUNER_KIND_OPEN) {
        out->kernel = st_kernel_name(look.pick.kernel);
        out->ctas = look.pick.launched;
        out->time_us = look.pick.price.time_us;
        out->broken = call->op == SYMTUNER_AVG && call->coll == SYMTUNER_ALLREDUCE;
    }
    out->tuner_calls = count_tuner_calls(&look, out);
    out->unsure = call->nccl > st_release_newest() || (out->kernel && unsure_pick(&look));
    list_candidates(&look, out);
    return SYMTUNER_OK;
}

void symtuner_call_init(struct symtuner_call *call, int nccl)
{
    *call = (struct symtuner_call){
        .struct_size = sizeof *call, .nccl = nccl, .coll = SYMTUNER_ALLREDUCE,
        .dtype = SYMTUNER_FLOAT32, .count = 1, .group = 1, .ranks = 8, .nodes = 1, .arch = 90,
        .nvlink = 1, .peer_raw = 1, .peer_nccl = 1, .win_enable = 1, .cumem_enable = 1,
        .min_ctas = 1, .max_ctas = ST_CTAS_MAX, .sym_tma = -1, .ce_threshold = -1,
    };
}

const char *symtuner_gate_name(enum symtuner_gate gate)
{
    return (unsigned)gate < SYMTUNER_GATES ? gate_text[gate].name : NULL;
}

const char *symtuner_gate_text(enum symtuner_gate gate)
{
    return (unsigned)gate < SYMTUNER_GATES ? gate_text[gate].text : NULL;
}

const char *symtuner_gate_cure(enum symtuner_gate gate)
{
    return (unsigned)gate < SYMTUNER_GATES ? gate_text[gate].cure : NULL;
}
