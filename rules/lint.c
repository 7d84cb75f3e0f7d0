/* SPDX-License-Identifier: Apache-2.0 */
/* lint.c - finds rules that are legal but cannot do what they say, or that lead calls into a fault
 * of NCCL. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nccl/hazards.h"
#include "nccl/release.h"
#include "rules/rules.h"

static bool covers(struct st_span outer, struct st_span inner)
{
    return outer.lo <= inner.lo && inner.hi <= outer.hi;
}

/* Are both rules of the same kind? The kinds are: rules for calls, [process] rules, [kernels] rules
 * for calls within a box, and [kernels] rules for calls over several boxes. */
static bool alike(const struct st_rule *a, const struct st_rule *b)
{
    return a->process == b->process && a->kernels == b->kernels &&
           (a->launch.network_pieces < 0) == (b->launch.network_pieces < 0);
}

/* Does ${first} cover every call that ${later} could cover? */
static bool hides(const struct st_rule *first, const struct st_rule *later)
{
    return alike(first, later) &&
           (later->colls & ~first->colls) == 0 &&
           (st_kernels_colls(later) & ~st_kernels_colls(first)) == 0 &&
           (later->dtypes & ~first->dtypes) == 0 &&
           (later->ops & ~first->ops) == 0 && (later->reg & ~first->reg) == 0 &&
           (later->besides & ~first->besides) == 0 &&
           first->per_rank == later->per_rank &&
           covers(first->bytes, later->bytes) && covers(first->ranks, later->ranks) &&
           covers(first->nodes, later->nodes) && covers(first->pipe_ops, later->pipe_ops) &&
           covers(first->nccl, later->nccl) && covers(first->gpus, later->gpus) && !first->gpu[0] &&
           first->links < 0 && first->multicast < 0;
}

static bool meet(struct st_span a, struct st_span b)
{
    return a.lo <= b.hi && b.lo <= a.hi;
}

/* Do two rules share some sizes, and does each cover sizes that the other does not? An example
 * is "..64KiB" before "64KiB..". Such rules are often a mistake: the earlier rule decides for the
 * shared sizes, although the later rule names them, too. */
static bool overlaps(const struct st_rule *first, const struct st_rule *later)
{
    return !first->process && alike(first, later) &&
           (first->dtypes & later->dtypes) && (first->ops & later->ops) &&
           (first->besides & later->besides) &&
           first->per_rank == later->per_rank && (first->colls & later->colls) &&
           (st_kernels_colls(first) & st_kernels_colls(later)) &&
           (first->reg & later->reg) &&
           meet(first->bytes, later->bytes) && !covers(first->bytes, later->bytes) &&
           !covers(later->bytes, first->bytes) && meet(first->ranks, later->ranks) &&
           meet(first->nodes, later->nodes) && meet(first->pipe_ops, later->pipe_ops) &&
           meet(first->nccl, later->nccl) && (first->links < 0 || later->links < 0 ||
           first->links == later->links) && (first->multicast < 0 || later->multicast < 0 ||
           first->multicast == later->multicast) && strcmp(first->gpu, later->gpu) == 0 &&
           (memcmp(&first->act, &later->act, sizeof first->act) != 0 ||
            memcmp(&first->launch, &later->launch, sizeof first->launch) != 0);
    /* memcmp is safe: all members have four bytes, so there is no padding */
    _Static_assert(sizeof first->act == 24, "struct st_action has grown: compare its members");
    _Static_assert(sizeof first->launch == 20, "struct st_launch has grown: compare its members");
}

/* Does a condition of this rule contradict [provenance]? Rules are used only where [provenance] is
 * true, so such a condition is never true. */
static bool never_here(const symtuner_rules *rules, const struct st_rule *rule)
{
    const struct st_rule *box = &rules->provenance;

    return rules->has_provenance &&
           (!meet(box->nccl, rule->nccl) || !meet(box->gpus, rule->gpus) ||
            (box->links >= 0 && rule->links >= 0 && box->links != rule->links) ||
            (box->multicast >= 0 && rule->multicast >= 0 && box->multicast != rule->multicast));
}

/* Does the rule make NCCL take PAT for ReduceScatters in a release where PAT computes some averages
 * wrong? */
static bool meets_pat_avg(const symtuner_rules *rules, const struct st_rule *rule)
{
    static const struct st_span wrong = {ST_PAT_AVG_FIRST, UINT64_MAX};

    return rule->act.prefer == SYMTUNER_GENERAL && rule->act.algo == SYMTUNER_PAT &&
           rule->colls >> SYMTUNER_REDUCESCATTER & 1 && meet(rule->nccl, wrong) &&
           (!rules->has_provenance || meet(rules->provenance.nccl, wrong));
}

/* Write finding number ${n} (from 0) about rule ${r} to ${text}. Returns false if the rule has no
 * such finding. */
static bool finding(const symtuner_rules *rules, int r, int n, char *text, size_t size)
{
    const struct st_rule *rule = &rules->rule[r];
    const char *at = rules->source[rule->source];
    int hidden_by = -1;

    for (int i = 0; i < r && hidden_by < 0; i++)
        if (hides(&rules->rule[i], rule))
            hidden_by = i;
    if (hidden_by >= 0 && n-- == 0) {
        snprintf(text, size,
                 "%s:%d: rule \"%s\" never applies: \"%s\" of line %d takes all its calls", at,
                 rule->line, rule->name, rules->rule[hidden_by].name, rules->rule[hidden_by].line);
        return true;
    }
    for (int i = 0; i < r && hidden_by < 0; i++)
        if (overlaps(&rules->rule[i], rule) && n-- == 0) {
            const struct st_rule *first = &rules->rule[i];

            snprintf(text, size,
                     "%s:%d: rule \"%s\" shares bytes %" PRIu64 "..%" PRIu64
                     " with \"%s\" of line %d, which takes them; bounds are inclusive",
                     at, rule->line, rule->name,
                     first->bytes.lo > rule->bytes.lo ? first->bytes.lo : rule->bytes.lo,
                     first->bytes.hi < rule->bytes.hi ? first->bytes.hi : rule->bytes.hi,
                     first->name, first->line);
            return true;
        }
    if (never_here(rules, rule) && n-- == 0) {
        snprintf(text, size,
                 "%s:%d: rule \"%s\" never applies: [provenance] excludes its release or "
                 "machine",
                 at, rule->line, rule->name);
        return true;
    }
    if (rule->act.prefer == SYMTUNER_GENERAL && rule->multicast == 0 &&
        (rule->act.algo == SYMTUNER_NVLS || rule->act.algo == SYMTUNER_NVLS_TREE) && n-- == 0) {
        snprintf(text, size,
                 "%s:%d: rule \"%s\" prefers %s where multicast is off, which NCCL does not "
                 "offer there",
                 at, rule->line, rule->name, symtuner_algo_name(rule->act.algo));
        return true;
    }
    if (rule->kernels) {
        const char *what = st_kernels_lint(rule, n);

        if (what)
            snprintf(text, size, "%s:%d: rule \"%s\" %s", at, rule->line, rule->name, what);
        return what != NULL;
    }
    if (rule->process && !rule->act.sym_ctas && n-- == 0) {
        snprintf(text, size, "%s:%d: [process] sets nothing; give it sym-ctas", at, rule->line);
        return true;
    }
    if (rule->act.prefer == SYMTUNER_GENERAL && rule->act.proto == SYMTUNER_LL128 &&
        rule->links == 0 && n-- == 0) {
        snprintf(text, size,
                 "%s:%d: rule \"%s\" prefers LL128 on PCIe, where NCCL offers it on few "
                 "machines only",
                 at, rule->line, rule->name);
        return true;
    }
    if (rule->act.prefer == SYMTUNER_GENERAL && rule->act.algo >= SYMTUNER_COLLNET_DIRECT &&
        rule->act.algo != SYMTUNER_PAT && rule->act.proto >= 0 &&
        rule->act.proto != SYMTUNER_SIMPLE && n-- == 0) {
        snprintf(text, size,
                 "%s:%d: rule \"%s\" prefers %s/%s, which no release has; write %s/simple", at,
                 rule->line, rule->name, symtuner_algo_name(rule->act.algo),
                 symtuner_proto_name(rule->act.proto), symtuner_algo_name(rule->act.algo));
        return true;
    }
    if (meets_pat_avg(rules, rule) && n-- == 0) {
        char first[16];

        snprintf(text, size,
                 "%s:%d: rule \"%s\" prefers pat for reducescatter: in NCCL %s and later pat "
                 "gives the sum of small floats where ncclAvg is asked for; prefer another "
                 "algorithm, or add nccl = ..2.30",
                 at, rule->line, rule->name,
                 st_release_print(ST_PAT_AVG_FIRST, first, sizeof first));
        return true;
    }
    return false;
}

int symtuner_rules_lint(const symtuner_rules *rules, int index, char *text, size_t size)
{
    for (int r = 0; rules && r < rules->count; r++)
        for (int n = 0; finding(rules, r, n, text, size); n++)
            if (index-- == 0)
                return 1;
    return 0;
}
