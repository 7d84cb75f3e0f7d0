/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/release.h"

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

static bool gpu_fits(const struct st_rule *rule, const struct symtuner_machine *machine)
{
    return !rule->gpu[0] || fnmatch(rule->gpu, machine->gpu, 0) == 0;
}

static bool gpus_fit(const struct st_rule *rule, const struct symtuner_machine *machine)
{
    return (rule->gpus.lo == 0 && rule->gpus.hi == UINT64_MAX) ||
           (machine->gpus > 0 && st_span_has(rule->gpus, (uint64_t)machine->gpus));
}

bool st_rule_fits(const struct st_rule *rule, int nccl, const struct symtuner_machine *machine)
{
    return st_span_has(rule->nccl, (uint64_t)nccl) && gpu_fits(rule, machine) &&
           gpus_fit(rule, machine) && (rule->links < 0 || rule->links == machine->nvlink) &&
           (rule->multicast < 0 || rule->multicast == machine->multicast);
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

/* ---- why rules do not fit -------------------------------------------------------------------- */

enum { MACHINE = 1, RELEASE = 2 };

/* What [provenance] and this box do not have in common. */
struct misfit {
    unsigned other, unknown; /* MACHINE, RELEASE: differs; is not known here */
    char text[SYMTUNER_ERROR_MAX];
    size_t at;
};

/* Add a key that does not fit. ${is} is the value here; "": not known. */
static void add(struct misfit *misfit, unsigned what, const char *key, const char *wanted,
                const char *is)
{
    int n =
        snprintf(misfit->text + misfit->at, sizeof misfit->text - misfit->at, "%s%s = %s (here %s)",
                 misfit->at ? ", " : "", key, wanted, is[0] ? is : "not known");

    *(is[0] ? &misfit->other : &misfit->unknown) |= what;
    misfit->at += n > 0 ? (size_t)n : 0;
    if (misfit->at >= sizeof misfit->text)
        misfit->at = sizeof misfit->text - 1;
}

/* Write one end of a span of releases, as in a rules file: without the patch number if the end
 * stands for all patches. */
static void print_release(uint64_t release, uint64_t patch_of_all, char *text, size_t size)
{
    st_release_print((int)release, text, size);
    if (release % 100 == patch_of_all)
        *strrchr(text, '.') = '\0';
}

/* Write the span ${wanted} as "LO..HI", with "" for an end that is no limit, or as "LO" if both
 * ends are the same. */
static void print_span(struct st_span wanted, bool releases, char *text, size_t size)
{
    char lo[24] = "", hi[24] = "";

    if (wanted.lo > 0 && releases)
        print_release(wanted.lo, 0, lo, sizeof lo);
    else if (wanted.lo > 0)
        snprintf(lo, sizeof lo, "%llu", (unsigned long long)wanted.lo);
    if (wanted.hi < UINT64_MAX && releases)
        print_release(wanted.hi, 99, hi, sizeof hi);
    else if (wanted.hi < UINT64_MAX)
        snprintf(hi, sizeof hi, "%llu", (unsigned long long)wanted.hi);
    if (strcmp(lo, hi) == 0)
        snprintf(text, size, "%s", lo);
    else
        snprintf(text, size, "%s..%s", lo, hi);
}

/* Fill ${misfit} with the keys of ${made}, a section [provenance], that do not fit. */
static void compare(const struct st_rule *made, int nccl, const struct symtuner_machine *machine,
                    struct misfit *misfit)
{
    static const char *const links[] = {"pcie", "nvlink"}, *const yes[] = {"no", "yes"};
    char wanted[64], is[24] = "";

    if (!st_span_has(made->nccl, (uint64_t)nccl)) {
        print_span(made->nccl, true, wanted, sizeof wanted);
        add(misfit, RELEASE, "nccl", wanted, nccl > 0 ? st_release_print(nccl, is, sizeof is) : "");
    }
    if (!gpu_fits(made, machine))
        add(misfit, MACHINE, "gpu", made->gpu, machine->gpu);
    if (!gpus_fit(made, machine)) {
        print_span(made->gpus, false, wanted, sizeof wanted);
        is[0] = '\0';
        if (machine->gpus > 0)
            snprintf(is, sizeof is, "%d", machine->gpus);
        add(misfit, MACHINE, "gpus", wanted, is);
    }
    if (made->links >= 0 && made->links != machine->nvlink)
        add(misfit, MACHINE, "links", links[made->links],
            machine->nvlink < 0 ? "" : links[machine->nvlink > 0]);
    if (made->multicast >= 0 && made->multicast != machine->multicast)
        add(misfit, MACHINE, "multicast", yes[made->multicast],
            machine->multicast < 0 ? "" : yes[machine->multicast > 0]);
}

enum symtuner_status symtuner_rules_fit(const symtuner_rules *rules, int nccl,
                                        const struct symtuner_machine *machine, char *error,
                                        size_t error_size)
{
    static const char *const what[] = {"", "machine", "release", "machine and release"};
    struct misfit misfit = {.at = 0};
    const struct st_rule *made;
    unsigned open;

    if (!machine) {
        snprintf(error, error ? error_size : 0, "machine is NULL");
        return SYMTUNER_EINVAL;
    }
    if (!rules || !rules->has_provenance || st_rule_fits(&rules->provenance, nccl, machine))
        return SYMTUNER_OK;
    made = &rules->provenance;
    compare(made, nccl, machine, &misfit);
    open = misfit.unknown & ~misfit.other;
    snprintf(error, error ? error_size : 0,
             "%s:%d:1: these rules were measured on %s%s%s: %s%s%s%s; tune again, or remove "
             "[provenance] to use them all the same",
             rules->source[made->source], made->line, misfit.other ? "another " : "a ",
             what[misfit.other ? misfit.other : open],
             misfit.other ? "" : " that could not be compared with this one", misfit.text,
             misfit.other && open ? "; the " : "", misfit.other ? what[open] : "",
             misfit.other && open ? " could not be compared" : "");
    return SYMTUNER_EMISMATCH;
}
