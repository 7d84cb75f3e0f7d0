/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - says in words what symtuner decides for a call, and what this NCCL release does with
 * the decision. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugin/process.h"

struct page {
    char *text;
    size_t size;
    int used;
};

static void add(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct page *page, const char *format, ...)
{
    size_t room = (size_t)page->used < page->size ? page->size - (size_t)page->used : 0;
    va_list args;

    va_start(args, format);
    page->used += vsnprintf(room ? page->text + page->used : NULL, room, format, args);
    va_end(args);
}

static const char *or_any(const char *name)
{
    return name ? name : "*";
}

/* What a rule with prefer = symmetric can do in a release. The index is the release's enum
 * st_ll_rule. */
static const char *const symmetric_reach[] = {
    [ST_LL_KEEP] = ("NCCL runs one whenever both buffers are registered, and never otherwise, so "
                    "the table stays as it is"),
    [ST_LL_ASK_ALWAYS] = ("an LL entry is made the cheapest, so that NCCL keeps an LL symmetric "
                          "kernel if it picked one"),
    [ST_LL_ASK_PARTLY] = ("an LL entry is made the cheapest, so that NCCL keeps an LL symmetric "
                          "kernel if it picked one and one side is registered"),
    [ST_LL_ASK_VOID] = "only the LL probe is answered, unless NCCL_ENQUEUE_REARCH_ENABLE=1",
};

static void add_action(struct page *page, const struct st_era *era,
                       const struct symtuner_decision *d)
{
    switch (d->prefer) {
    case SYMTUNER_LEAVE:
        break;
    case SYMTUNER_SYMMETRIC:
        add(page, " prefers a symmetric kernel: %s.", symmetric_reach[era->ll]);
        break;
    case SYMTUNER_GENERAL:
        add(page, " makes %s/%s the cheapest entry where NCCL offers it.",
            or_any(symtuner_algo_name(d->algo)), or_any(symtuner_proto_name(d->proto)));
        break;
    }
    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS && d->forbid; i++)
        if (d->forbid >> i & 1)
            add(page, " Forbids %s/%s.", symtuner_algo_name(i / SYMTUNER_PROTOS),
                symtuner_proto_name(i % SYMTUNER_PROTOS));
    if (d->channels)
        add(page,
            era->channels_cap ? " Caps general kernels at %d channels."
                              : " Gives general kernels %d channels.",
            d->channels);
}

int symtuner_explain(const symtuner_rules *rules, const struct symtuner_query *query,
                     const struct symtuner_decision *d, char *text, size_t size)
{
    const struct st_era *era = st_era_of(query->nccl);
    struct page page = {text, size, 0};
    char release[16];

    st_release_print(query->nccl, release, sizeof release);
    if (d->rule < 0)
        add(&page, "No rule covers %s of %llu bytes on %d rank%s: NCCL %s decides.",
            symtuner_coll_name(query->coll), (unsigned long long)query->bytes, query->ranks,
            query->ranks == 1 ? "" : "s", release);
    else
        add(&page, "Rule \"%s\" (%s:%d) covers %s of %llu bytes on %d rank%s. On NCCL %s it%s",
            d->name, rules->source[rules->rule[d->rule].source], d->line,
            symtuner_coll_name(query->coll), (unsigned long long)query->bytes, query->ranks,
            query->ranks == 1 ? "" : "s", release,
            d->prefer == SYMTUNER_LEAVE ? " leaves algorithm and protocol alone." : "");
    if (d->rule >= 0)
        add_action(&page, era, d);
    if (d->process_ctas)
        add(&page, " Symmetric kernels of the process get %d CTAs.", d->process_ctas);
    else if (d->min_ctas)
        add(&page, " Symmetric kernels get at least %d CTAs (built-in).", d->min_ctas);
    else if (era->symmetric)
        add(&page, " Symmetric kernels get NCCL's own CTA count.");
    return page.used;
}
