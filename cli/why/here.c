/* SPDX-License-Identifier: Apache-2.0 */
/*
 * here.c - the last part of symtuner why: what NCCL would do with the call if symtuner were loaded
 * with the variables of this environment. symtuner_decide applies the rules as the plugin does.
 * Then the model of NCCL predicts the call again, with the CTA counts that symtuner gives to NCCL.
 */
#include "cli/why/here.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "nccl/model/general_cost.h"
#include "nccl/held.h"
#include "nccl/release.h"
#include "rules/sources.h"

static void in_the_way(struct st_here *here, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void in_the_way(struct st_here *here, const char *format, ...)
{
    va_list arguments;

    if (here->ways == ST_HERE_WAYS)
        return;
    va_start(arguments, format);
    vsnprintf(here->way[here->ways++], sizeof *here->way, format, arguments);
    va_end(arguments);
}

/* ---- is it loaded? --------------------------------------------------------------------------- */

/* Set here->missing if NCCL does not find symtuner in this environment. Set ${asks_out} to whether
 * NCCL asks symtuner's env plugin for the values of variables. Even if NCCL does not find symtuner,
 * ${asks_out} and the rest of the answer say what would happen if it did. */
static void look_for_plugin(const struct st_why *why, struct st_here *here, bool *asks_out)
{
    /* static, because it is too large for the stack */
    static struct st_doctor doctor = {.root = ""};
    const struct st_era *era = st_era_of(why->call.nccl);
    char path[ST_PATH];
    bool env, tuner;

    *asks_out = era->env_abi > 0;
    snprintf(here->plugin, sizeof here->plugin, "libsymtuner.so");
    if (why->no_env)
        return;
    doctor.nccl = why->call.nccl;
    st_doctor_settings(&doctor);
    st_doctor_dirs(&doctor);
    st_doctor_plugins(&doctor);
    env = doctor.env.found && doctor.env.symtuner;
    tuner = doctor.tuner.found && doctor.tuner.symtuner;
    here->missing = !env && !tuner;
    snprintf(here->plugin, sizeof here->plugin, "%s", st_doctor_symtuner(&doctor, path));
    if (doctor.env.asked || doctor.tuner.asked)
        snprintf(here->missing_cure, sizeof here->missing_cure, "symtuner doctor says why");
    else
        snprintf(here->missing_cure, sizeof here->missing_cure, "NCCL_%s_PLUGIN=%s loads it",
                 era->env_abi ? "ENV" : "TUNER", here->plugin);
    if (here->missing)
        return;
    *asks_out = env;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Load the rules as the plugin does: it uses no rules that have an error or that are for another
 * machine. Returns ST_EXIT_FINE, or another exit status if the file of --rules cannot be used. */
static int load(const struct st_why *why, struct st_here *here, symtuner_rules **rules)
{
    char error[SYMTUNER_ERROR_MAX];
    enum symtuner_status status;

    *rules = NULL;
    if (why->rules) {
        status = st_rules_load_any(why->rules, rules, error, sizeof error);
        if (status != SYMTUNER_OK)
            return st_fail(st_exit_of(status), "%s\n", error);
    } else if (st_rules_sources(st_why_get(why, "SYMTUNER_RULE"), st_why_get(why, "SYMTUNER_RULES"),
                                st_why_get(why, "NCCL_TUNER_CONFIG_FILE"), rules, error,
                                sizeof error) != SYMTUNER_OK) {
        in_the_way(here, "%s; no rule is applied", error);
        return ST_EXIT_FINE;
    }
    if (*rules && symtuner_rules_fit(*rules, why->call.nccl, &why->box, error, sizeof error) !=
                      SYMTUNER_OK) {
        in_the_way(here, "%s; no rule is applied", error);
        symtuner_rules_free(*rules);
        *rules = NULL;
    }
    return ST_EXIT_FINE;
}

/* Return NCCL's nBytes: for AllGather and ReduceScatter the bytes of all ranks, and for a group the
 * bytes of all its calls. */
static uint64_t tuner_bytes(const struct symtuner_call *call)
{
    uint64_t bytes = call->count * (uint64_t)symtuner_dtype_size((int)call->dtype);
    bool all = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_REDUCESCATTER;
    uint64_t times = (uint64_t)(all ? call->ranks : 1) * (uint64_t)call->group;

    return bytes > UINT64_MAX / times ? UINT64_MAX : bytes * times;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

/* Drop the CTA count of the rules (key sym-ctas in [process]) from the decision if something keeps
 * it from NCCL, and say why. symtuner gives the count to NCCL as NCCL_SYM_CTAS, for the whole life
 * of the process. */
static void hold_sym_ctas(const struct st_why *why, bool asks, struct st_here *here)
{
    const struct symtuner_call *call = &why->call;
    const char *user = st_held_by_user(st_why_get, why);
    int count = here->decision.process_ctas;

    if (count == 0)
        return;
    here->decision.process_ctas = 0;
    if (user)
        in_the_way(here, "%s is set, so [process] sym-ctas = %d is not given", user, count);
    else if (!asks)
        in_the_way(here,
                   "NCCL does not ask symtuner for variables here, so [process] sym-ctas = %d is "
                   "not given; set NCCL_ENV_PLUGIN=%s, with NCCL 2.28.7 or later",
                   count, here->plugin);
    else if (call->nodes > 1)
        in_the_way(here, "[process] sym-ctas = %d is not given to communicators of several nodes",
                   count);
    else if (call->ranks != why->box.gpus)
        in_the_way(here, "[process] sym-ctas = %d is given only if the first communicator of every "
                         "process spans all GPUs of the box; this one has %d rank%s on %d GPU%s",
                   count, call->ranks, plural(call->ranks), why->box.gpus, plural(why->box.gpus));
    else
        here->decision.process_ctas = count;
}

/* Drop symtuner's built-in CTA count from the decision if something keeps it from NCCL, and say
 * why. symtuner gives this count to NCCL as NCCL_MIN_CTAS. */
static void hold_min_ctas(const struct st_why *why, bool asks, struct st_here *here)
{
    const char *held = st_held_default(st_why_get, why);
    int count = here->decision.min_ctas;

    if (count == 0 || (asks && !held))
        return;
    here->decision.min_ctas = 0;
    if (held)
        in_the_way(here, "%s holds NCCL_MIN_CTAS=%d (built-in) back", held, count);
    else
        in_the_way(here, "NCCL does not ask symtuner for variables here, so NCCL_MIN_CTAS=%d "
                         "(built-in) is not given; set NCCL_ENV_PLUGIN=%s",
                   count, here->plugin);
}

static bool steers(const struct st_why *why, struct st_here *here)
{
    const char *mode = st_why_get(why, "SYMTUNER_MODE");

    if (!mode || (strcmp(mode, "observe") != 0 && strcmp(mode, "off") != 0))
        return true;
    in_the_way(here, "SYMTUNER_MODE=%s: nothing is changed", mode);
    return false;
}

/* ---- the call -------------------------------------------------------------------------------- */

static void ask(const struct st_why *why, const symtuner_rules *rules, bool steer, bool asks,
                struct st_here *here)
{
    const struct symtuner_call *call = &why->call;
    const char *defaults = st_why_get(why, "SYMTUNER_DEFAULTS");
    struct symtuner_query query = {
        .struct_size = sizeof query, .nccl = call->nccl, .coll = call->coll,
        .bytes = tuner_bytes(call), .ranks = call->ranks, .nodes = call->nodes, .pipe_ops = 1,
        .registered = st_general_registered(call),
        .machine = why->box,
        .no_defaults = defaults && strcmp(defaults, "0") == 0,
    };
    int channels = 0;

    here->decision = (struct symtuner_decision){.struct_size = sizeof here->decision, .rule = -1};
    here->applies = symtuner_decide(rules, &query, &here->decision) == SYMTUNER_OK;
    here->call = *call;
    if (!here->applies || !steer) {
        here->decision.rule = -1;
        here->decision.process_ctas = here->decision.min_ctas = 0;
        return;
    }
    hold_sym_ctas(why, asks, here);
    hold_min_ctas(why, asks, here);
    symtuner_explain(rules, &query, &here->decision, here->text, sizeof here->text);
    if (here->decision.process_ctas)
        here->call.sym_ctas = here->decision.process_ctas;
    /* NCCL never runs more CTAs than the communicator's maximum. */
    if (here->decision.min_ctas)
        here->call.min_ctas = here->decision.min_ctas < call->max_ctas ? here->decision.min_ctas
                                                                       : call->max_ctas;
    here->call.tuner_ll |= here->decision.prefer == SYMTUNER_SYMMETRIC;
    if (!call->table)
        return;
    memcpy(here->table, call->table, sizeof here->table);
    /* Compute the table again, because NCCL's costs depend on the CTA counts. */
    if (why->table_computed)
        st_general_table(&here->call, why->family, here->table);
    symtuner_table_apply(&here->decision, &query, here->table, SYMTUNER_ALGOS, SYMTUNER_PROTOS,
                         &channels);
    here->call.table = here->table;
}

/* ---- several boxes --------------------------------------------------------------------------- */

/* Return how many words of 16 bytes each rank of a box adds up. The message cannot be cut into more
 * pieces than that. */
static int words_of(const struct symtuner_call *call)
{
    uint64_t words = tuner_bytes(call) / 16 / (uint64_t)(call->ranks / call->nodes);

    return words < INT_MAX ? (int)words : INT_MAX;
}

/* Return why libsymtuner_ar.so cannot run the call box by box (with its own kernels inside each
 * box, and NCCL between the boxes; docs/nodes.md), and so leaves the call to NCCL. Returns NULL if
 * the library can run the call. */
static const char *never_by_boxes(const struct symtuner_call *call)
{
    int each = call->ranks / call->nodes;

    /* the conditions are those of kernels/nodes/boxes.c and call.c */
    return call->ranks % call->nodes ? "the boxes have unequal numbers of ranks"
           : each < 2                ? "the boxes have one rank each"
           : each > 16               ? "the boxes have more than 16 ranks each"
           : words_of(call) == 0     ? "the message has less than 16 bytes per rank of a box"
           : call->op == SYMTUNER_PREMULSUM ? "operators of your own are NCCL's"
           : call->op == SYMTUNER_AVG && call->dtype < SYMTUNER_FLOAT16
               ? "averages of integers are NCCL's"
               : NULL;
}

/* Set here->boxes and here->network_pieces. */
static void ask_boxes(const struct st_why *why, const symtuner_rules *rules, struct st_here *here)
{
    const struct symtuner_call *call = &why->call;
    const struct symtuner_kernel_query query = {
        .struct_size = sizeof query, .nccl = call->nccl, .bytes = tuner_bytes(call),
        .ranks = call->ranks, .dtype = (int)call->dtype,
        .op = call->op == SYMTUNER_PREMULSUM ? 0 : (int)call->op,
        .machine = why->box, .boxes = call->nodes,
    };
    struct symtuner_kernel_decision decision = {.struct_size = sizeof decision};
    const char *asked = st_why_get(why, "SYMTUNER_AR_NODES"), *never = never_by_boxes(call);
    bool measures = asked && strcmp(asked, "1") == 0;

    here->network_pieces = 0;
    if (call->nodes < 2 || call->coll != SYMTUNER_ALLREDUCE ||
        symtuner_kernel_decide(rules, &query, &decision) != SYMTUNER_OK ||
        (decision.network_pieces < 0 && !measures))
        return;
    here->network_pieces = never ? 0 : decision.network_pieces;
    if (here->network_pieces > words_of(call))
        here->network_pieces = words_of(call);
    if (never)
        snprintf(here->boxes, sizeof here->boxes, "NCCL alone, since %s", never);
    else if (decision.network_pieces < 0)
        snprintf(here->boxes, sizeof here->boxes,
                 "box by box or NCCL alone, by times that are measured when the handle is made; "
                 "symtuner_ar_query tells");
    else if (decision.network_pieces == 0)
        snprintf(here->boxes, sizeof here->boxes, "NCCL alone, by rule \"%s\" (line %d)",
                 decision.name, decision.line);
    else
        snprintf(here->boxes, sizeof here->boxes,
                 "box by box in %d piece%s, by rule \"%s\" (line %d)", here->network_pieces,
                 plural(here->network_pieces), decision.name, decision.line);
}

int st_why_here(const struct st_why *why, const struct symtuner_verdict *now, struct st_here *here)
{
    const struct symtuner_verdict *with = &here->verdict;
    symtuner_rules *rules;
    bool asks, steer = steers(why, here);
    int status = load(why, here, &rules);

    if (status != ST_EXIT_FINE)
        return status;
    look_for_plugin(why, here, &asks);
    ask(why, rules, steer, asks, here);
    ask_boxes(why, rules, here);
    symtuner_rules_free(rules);
    here->verdict.struct_size = sizeof here->verdict;
    symtuner_predict(&here->call, &here->verdict);
    here->changes = now->kind != with->kind || now->kernel != with->kernel ||
                    now->ctas != with->ctas || now->algo != with->algo || now->proto != with->proto;
    return ST_EXIT_FINE;
}
