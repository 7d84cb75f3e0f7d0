/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print.c - prints the answer of symtuner why, for a person (at most 100 columns) or as JSON. The
 * answer consists of verdicts: a verdict says what NCCL does with a call (struct symtuner_verdict).
 */
#include <string.h>

#include "nccl/model/general_cost.h"
#include "cli/json.h"
#include "cli/text.h"
#include "cli/why/why.h"
#include "nccl/names.h"
#include "nccl/release.h"

static const char *const coll_title[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                         "AllReduce"};
static const char *const state_word[] = {"pass", "FAIL", "-", "?"};
static const char *const state_json[] = {"pass", "fail", "not asked", "unknown"};

static void print_question(const struct st_why *why, FILE *out)
{
    const struct symtuner_call *call = &why->call;
    bool reduces = call->coll != SYMTUNER_ALLGATHER && call->coll != SYMTUNER_BROADCAST;
    bool per_rank = call->coll == SYMTUNER_ALLGATHER || call->coll == SYMTUNER_REDUCESCATTER;
    char bytes[ST_TEXT_SIZE], release[16];

    st_text_size(call->count * (uint64_t)symtuner_dtype_size((int)call->dtype), bytes);
    fprintf(out, "%s%s%s of %llu %s (%s%s), %d rank%s%s, buffers %s/%s", coll_title[call->coll],
            reduces ? " " : "", reduces ? symtuner_op_name((int)call->op) : "",
            (unsigned long long)call->count, symtuner_dtype_name((int)call->dtype), bytes,
            per_rank ? " a rank" : "", call->ranks, call->ranks == 1 ? "" : "s",
            call->one_process ? " in one process" : "",
            st_reg_words.word[call->send], st_reg_words.word[call->recv]);
    if (call->group > 1)
        fprintf(out, ", %d in a group", call->group);
    fprintf(out, "%s%s%s\nNCCL %s%s on ", call->inplace ? ", in place" : "",
            call->graph ? ", captured" : "",
            call->first ? ", first of its communicator" : "",
            st_release_print(call->nccl, release, sizeof release),
            why->release_assumed ? " (assumed: no libnccl.so.2 here; --nccl)" : "");
    fprintf(out, "%s%s, sm_%d, %s, %smulticast", why->machine,
            why->machine_assumed ? " (assumed: no GPU here; --machine)" : "", call->arch,
            call->nvlink ? "NVLink" : "no NVLink", call->multicast ? "" : "no ");
    for (int i = 0; i < why->sets; i++)
        fprintf(out, "%s%s", i ? " " : "\nwith ", why->set[i]);
    fputs(why->brief ? "\n" : "\n\n", out);
}

/* Return how many microseconds NCCL's cost table predicts for the verdict's general kernel, or a
 * negative number if that is not known. */
static double general_cost(const struct st_why *why, const struct symtuner_verdict *verdict)
{
    if (!why->table_computed || verdict->algo < 0)
        return -1;
    return (double)why->table[verdict->algo * SYMTUNER_PROTOS + verdict->proto];
}

/* Return how many channels NCCL itself chooses for the verdict's general kernel. Returns 0 if that
 * is not known, if the rules set the count, or if the verdict is no general kernel. ${here} is NULL
 * if the verdict is about the call without symtuner. */
static int general_channels(const struct st_why *why, const struct symtuner_verdict *verdict,
                            const struct st_here *here)
{
    if (verdict->kind != SYMTUNER_KIND_GENERAL || (here && here->decision.channels))
        return 0;
    return st_general_channels(here ? &here->call : &why->call, why->family, verdict->algo,
                               verdict->proto);
}

/* Does NCCL refuse the call because NCCL_ALGO and NCCL_PROTO leave no general kernel for it? */
static bool no_general_left(const struct st_why *why, const struct symtuner_verdict *verdict)
{
    bool left = !why->table_computed;

    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS; i++)
        left |= why->table[i] >= 0;
    return !left && verdict->gate != SYMTUNER_GATE_FP8;
}

static void print_outcome(const struct st_why *why, const struct symtuner_verdict *verdict,
                          const struct st_here *here, FILE *out)
{
    const char *algo = symtuner_algo_name(verdict->algo);
    double cost = general_cost(why, verdict);
    int channels = general_channels(why, verdict, here);

    switch (verdict->kind) {
    case SYMTUNER_KIND_SYMMETRIC:
        fprintf(out, "symmetric kernel %s on %d CTA%s; NCCL predicts %.4g us\n", verdict->kernel,
                verdict->ctas, verdict->ctas == 1 ? "" : "s", (double)verdict->time_us);
        break;
    case SYMTUNER_KIND_OPEN:
        fprintf(out, "symmetric kernel %s on %d CTA%s if NCCL's cost table favours protocol LL,\n"
                     "  a general kernel otherwise; --general or --table says which\n",
                verdict->kernel, verdict->ctas, verdict->ctas == 1 ? "" : "s");
        break;
    case SYMTUNER_KIND_CE:
        fputs("copy engine, no kernel\n", out);
        break;
    case SYMTUNER_KIND_ERROR:
        fprintf(out, "NCCL refuses the call%s\n", no_general_left(why, verdict)
                ? ": NCCL_ALGO and NCCL_PROTO leave no general kernel for it" : "");
        break;
    default:
        fprintf(out, "general kernel%s%s%s%s", algo ? ", " : "", algo ? algo : "",
                algo ? "/" : "", algo ? symtuner_proto_name(verdict->proto) : "");
        if (channels > 0)
            fprintf(out, " on %d channel%s", channels, channels == 1 ? "" : "s");
        if (cost >= 0)
            fprintf(out, "; NCCL predicts %.4g us", cost);
        fputc('\n', out);
    }
    if (verdict->broken)
        fputs("  NCCL has no such kernel for avg, so the call fails\n", out);
}

/* Print why the verdict may be wrong: the release is newer than those that symtuner knows, or we
 * could not read how the release computes the cost of a call like this. */
static void print_doubts(const struct st_why *why, const struct symtuner_verdict *verdict,
                         FILE *out)
{
    char release[16];

    if (why->call.nccl > st_release_newest())
        fprintf(out, "  not sure: newer than the newest release known here, %s, whose rules are "
                     "used\n",
                st_release_print(st_release_newest(), release, sizeof release));
    else if (verdict->unsure)
        fputs("  not sure: we could not read how this release computes the cost of such calls\n",
              out);
}

/* Print the symmetric kernels among which NCCL chooses for the call. If a gate (a condition of
 * NCCL) keeps the call from symmetric kernels, print those for the call with all cures. */
static void print_candidates(const struct st_answer *answer, FILE *out)
{
    bool cured = answer->now.gate != SYMTUNER_GATE_NONE && answer->cured;
    const struct symtuner_verdict *verdict = cured ? &answer->after : &answer->now;

    if (verdict->gate != SYMTUNER_GATE_NONE)
        return;
    fprintf(out, "candidates%s (the least cost wins: time, 2.5 %% dearer for each CTA)\n",
            cured ? " after the cure" : "");
    for (int i = 0; i < verdict->candidates; i++)
        if (verdict->candidate[i].usable)
            fprintf(out, "  %-28s %3d CTAs  %10.2f us  cost %10.2f\n", verdict->candidate[i].name,
                    verdict->candidate[i].ctas, (double)verdict->candidate[i].time_us,
                    (double)verdict->candidate[i].cost);
}

/* Return the rest of a sentence that begins with "rules" and says what rules can do about this
 * verdict. */
static const char *lever(const struct st_why *why, const struct symtuner_verdict *verdict)
{
    static const char ll_lever[] = "with prefer = symmetric make an LL entry the cheapest when "
                                   "NCCL asks: the kernel is kept";

    if (verdict->broken)
        return "can do nothing: the tuner is not asked. Use sum and scale, or set "
               "NCCL_WIN_ENABLE=0";
    switch (verdict->kind) {
    case SYMTUNER_KIND_SYMMETRIC:
        return "have no say in it but for its CTA count ([process] sym-ctas, NCCL_SYM_CTAS)";
    case SYMTUNER_KIND_OPEN:
        return ll_lever;
    case SYMTUNER_KIND_GENERAL:
        if (verdict->gate == SYMTUNER_GATE_LL_ASKED)
            return ll_lever;
        if (st_era_of(why->call.nccl)->tuner_abi < 4)
            return "can do nothing: symtuner needs NCCL 2.24 or newer";
        return "choose among the general kernels (prefer = general:ring/simple, channels, forbid); "
               "none reaches a symmetric kernel past this gate";
    case SYMTUNER_KIND_CE:
        return "can do nothing: the copy engine is chosen before the tuner is asked";
    default:
        return "can do nothing: the call fails before the tuner is asked";
    }
}

static void print_cures(const struct st_why *why, const struct st_answer *answer, FILE *out)
{
    if (answer->cures == 0)
        return;
    fputs("cure\n", out);
    for (int i = 0; i < answer->cures; i++) {
        const char *name = symtuner_gate_name(answer->cure[i]);

        fprintf(out, "  %-12s", name);
        st_text_wrap(out, 14, symtuner_gate_cure(answer->cure[i]));
    }
    if (answer->cured) {
        fputs("  then        ", out);
        print_outcome(why, &answer->after, NULL, out);
    }
}

static void print_sentence(const char *what, const char *text, FILE *out)
{
    char line[800];

    snprintf(line, sizeof line, "%s%s", what, text);
    fputs("  ", out);
    st_text_wrap(out, 2, line);
}

/* Print what NCCL does when symtuner is loaded; with --brief only if symtuner changes anything. */
static void print_here(const struct st_why *why, const struct st_answer *answer, FILE *out)
{
    const struct st_here *here = &answer->here;
    bool acts = here->decision.rule >= 0 || here->decision.process_ctas || here->decision.min_ctas;
    char text[800] = "symtuner";

    if (why->brief && !here->changes && !here->boxes[0])
        return;
    if (here->missing && here->applies)
        snprintf(text, sizeof text, "symtuner, not loaded in this environment (%s)",
                 here->missing_cure);
    st_text_wrap(out, 2, text);
    fputs("  ", out);
    if (here->text[0] && !why->brief) {
        st_text_wrap(out, 2, here->text);
        fputs("  ", out);
    }
    if (here->changes) {
        fputs("so: ", out);
        print_outcome(why, &here->verdict, here, out);
    } else {
        fputs("so: the same\n", out);
    }
    if (here->boxes[0])
        print_sentence("with libsymtuner_ar.so: ", here->boxes, out);
    for (int i = 0; i < here->ways; i++)
        print_sentence("in the way: ", here->way[i], out);
    if (!why->brief && !acts)
        print_sentence("rules ", lever(why, &answer->now), out);
}

void st_why_print(const struct st_why *why, const struct st_answer *answer, FILE *out)
{
    const struct symtuner_verdict *now = &answer->now;

    print_question(why, out);
    for (int g = 0; g < SYMTUNER_GATES && !why->brief; g++) {
        if (now->state[g] == SYMTUNER_GATE_IDLE && !why->all)
            continue;
        fprintf(out, "  %-5s%-12s", state_word[now->state[g]],
                symtuner_gate_name((enum symtuner_gate)g));
        st_text_wrap(out, 19, symtuner_gate_text((enum symtuner_gate)g));
    }
    if (!why->brief)
        fputc('\n', out);
    if (why->brief && now->gate != SYMTUNER_GATE_NONE) {
        fprintf(out, "  %-5s%-12s", state_word[SYMTUNER_GATE_FAIL], symtuner_gate_name(now->gate));
        st_text_wrap(out, 19, symtuner_gate_text(now->gate));
    }
    print_outcome(why, now, NULL, out);
    print_doubts(why, now, out);
    print_cures(why, answer, out);
    if (!why->brief)
        print_candidates(answer, out);
    print_here(why, answer, out);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_verdict(struct st_json *json, const char *key, const struct st_why *why,
                         const struct symtuner_verdict *verdict, const struct st_here *here)
{
    int channels = general_channels(why, verdict, here);
    double cost = general_cost(why, verdict);

    st_json_open(json, key, here ? "\n  {" : "\n {");
    st_json_text(json, "kind", symtuner_kind_name(verdict->kind));
    st_json_text(json, "gate", symtuner_gate_name(verdict->gate));
    st_json_text(json, "kernel", verdict->kernel);
    if (verdict->kernel) {
        st_json_int(json, "ctas", verdict->ctas);
        st_json_format(json, "predicted_us", "%.6g", (double)verdict->time_us);
    }
    st_json_text(json, "algorithm", symtuner_algo_name(verdict->algo));
    st_json_text(json, "protocol", symtuner_proto_name(verdict->proto));
    if (channels > 0)
        st_json_int(json, "channels", channels);
    if (cost >= 0)
        st_json_format(json, "predicted_us", "%.6g", cost);
    if (verdict->tuner_calls >= 0)
        st_json_int(json, "tuner_calls", verdict->tuner_calls);
    else
        st_json_text(json, "tuner_calls", NULL);
    st_json_bool(json, "missing_kernel", verdict->broken);
    st_json_bool(json, "unsure", verdict->unsure);
    st_json_bool(json, "newer_than_known", why->call.nccl > st_release_newest());
    st_json_close(json);
}

static void json_here(struct st_json *json, const struct st_why *why, const struct st_here *here)
{
    const struct symtuner_decision *decision = &here->decision;

    st_json_open(json, "with_symtuner", "\n {");
    st_json_bool(json, "loaded", !here->missing);
    st_json_text(json, "rule", decision->rule < 0 ? NULL : decision->name);
    st_json_int(json, "process_ctas", decision->process_ctas);
    st_json_int(json, "min_ctas", decision->min_ctas);
    st_json_int(json, "channels", decision->channels);
    st_json_text(json, "text", here->text[0] ? here->text : NULL);
    if (here->boxes[0]) {
        st_json_text(json, "boxes", here->boxes);
        st_json_int(json, "network_pieces", here->network_pieces);
    }
    st_json_open(json, "in_the_way", "\n  [");
    for (int i = 0; i < here->ways; i++)
        st_json_text(json, NULL, here->way[i]);
    st_json_close(json);
    json_verdict(json, "verdict", why, &here->verdict, here);
    st_json_close(json);
}

static void json_call(struct st_json *json, const struct symtuner_call *call)
{
    st_json_open(json, "call", "{");
    st_json_text(json, "coll", symtuner_coll_name((int)call->coll));
    st_json_text(json, "dtype", symtuner_dtype_name((int)call->dtype));
    st_json_text(json, "op", symtuner_op_name((int)call->op));
    st_json_format(json, "count", "%llu", (unsigned long long)call->count);
    st_json_text(json, "send", st_reg_words.word[call->send]);
    st_json_text(json, "recv", st_reg_words.word[call->recv]);
    st_json_int(json, "group", call->group);
    st_json_bool(json, "graph", call->graph);
    st_json_bool(json, "first", call->first);
    st_json_close(json);
}

static void json_machine(struct st_json *json, const struct st_why *why)
{
    const struct symtuner_call *call = &why->call;

    st_json_open(json, "machine", "\n {");
    st_json_int(json, "ranks", call->ranks);
    st_json_int(json, "nodes", call->nodes);
    st_json_int(json, "arch", call->arch);
    st_json_bool(json, "nvlink", call->nvlink);
    st_json_bool(json, "peer", call->peer_raw);
    st_json_bool(json, "multicast", call->multicast);
    st_json_bool(json, "one_process", call->one_process);
    st_json_bool(json, "assumed", why->machine_assumed);
    st_json_int(json, "gpus", why->box.gpus);
    st_json_text(json, "gpu", why->box.gpu[0] ? why->box.gpu : NULL);
    st_json_close(json);
}

void st_why_print_json(const struct st_why *why, const struct st_answer *answer, FILE *out)
{
    struct st_json json = {.out = out};
    const struct symtuner_verdict *now = &answer->now;
    char release[16];

    st_json_open(&json, NULL, "{");
    st_json_text(&json, "nccl", st_release_print(why->call.nccl, release, sizeof release));
    json_call(&json, &why->call);
    json_machine(&json, why);
    st_json_open(&json, "settings", "\n [");
    for (int i = 0; i < why->sets; i++)
        st_json_text(&json, NULL, why->set[i]);
    st_json_close(&json);
    st_json_open(&json, "gates", "\n [");
    for (int g = 0; g < SYMTUNER_GATES; g++) {
        st_json_open(&json, NULL, "{");
        st_json_text(&json, "gate", symtuner_gate_name((enum symtuner_gate)g));
        st_json_text(&json, "state", state_json[now->state[g]]);
        st_json_close(&json);
    }
    st_json_close(&json);
    json_verdict(&json, "verdict", why, now, NULL);
    st_json_open(&json, "candidates", "\n [");
    for (int i = 0; i < now->candidates; i++) {
        st_json_open(&json, NULL, "{");
        st_json_text(&json, "kernel", now->candidate[i].name);
        st_json_bool(&json, "usable", now->candidate[i].usable);
        st_json_int(&json, "ctas", now->candidate[i].ctas);
        st_json_format(&json, "predicted_us", "%.6g", (double)now->candidate[i].time_us);
        st_json_format(&json, "cost", "%.6g", (double)now->candidate[i].cost);
        st_json_close(&json);
    }
    st_json_close(&json);
    st_json_open(&json, "cures", "\n [");
    for (int i = 0; i < answer->cures; i++) {
        st_json_open(&json, NULL, "{");
        st_json_text(&json, "gate", symtuner_gate_name(answer->cure[i]));
        st_json_text(&json, "cure", symtuner_gate_cure(answer->cure[i]));
        st_json_close(&json);
    }
    st_json_close(&json);
    if (answer->cured) {
        json_verdict(&json, "after_cures", why, &answer->after, NULL);
    } else {
        st_json_gap(&json, "\n ");
        st_json_text(&json, "after_cures", NULL);
    }
    json_here(&json, why, &answer->here);
    st_json_close(&json);
}
