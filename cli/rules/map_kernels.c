/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_kernels.c - the part of a decision map for libsymtuner_ar.so: what the rules in [kernels]
 * decide for calls of one type and operator, with plain or registered buffers. Where no rule
 * applies, the library's own table decides; the map does not show what that table says.
 */
#include <string.h>

#include "cli/rules/map.h"
#include "cli/text.h"
#include "nccl/names.h"
#include "symtuner_why.h"

struct asker {
    const symtuner_rules *rules;
    struct symtuner_kernel_query query;
};

static struct symtuner_kernel_decision ask(struct asker *asker, uint64_t bytes, int registered)
{
    struct symtuner_kernel_decision decision = {.struct_size = sizeof decision, .rule = -1};

    asker->query.bytes = bytes;
    asker->query.registered = registered;
    symtuner_kernel_decide(asker->rules, &asker->query, &decision);
    return decision;
}

bool st_map_kernels_alike(const struct symtuner_kernel_decision *a,
                          const struct symtuner_kernel_decision *b)
{
    if (a->rule < 0 || b->rule < 0)
        return a->rule < 0 && b->rule < 0;
    return a->ctas == b->ctas && a->threads == b->threads && a->beside == b->beside &&
           strcmp(a->kernel ? a->kernel : "", b->kernel ? b->kernel : "") == 0;
}

static bool alike(void *with, uint64_t a, uint64_t b)
{
    for (int registered = 0; registered < 2; registered++) {
        struct symtuner_kernel_decision one = ask(with, a, registered),
                                        other = ask(with, b, registered);

        if (one.rule != other.rule)
            return false;
    }
    return true;
}

/* Append the runs of ${coll} to map->kernel, unless no rule applies to any of them. ${number} is
 * the index of ${coll} in st_kernel_coll_words. */
static void add_runs(const struct st_map_request *request, const symtuner_rules *rules,
                     enum symtuner_coll coll, int number, struct st_map *map)
{
    const int before = map->kernels;
    bool any = false;

    for (int r = 0; r < request->n_ranks && map->kernels < ST_MAP_KERNELS; r++) {
        struct asker asker = {rules,
                              {.struct_size = sizeof asker.query,
                               .nccl = request->nccl,
                               .ranks = request->ranks[r],
                               .dtype = request->dtype,
                               .op = request->op,
                               .beside = request->beside,
                               .machine = request->machine,
                               .coll = number}};
        uint64_t at = request->lo;

        do {
            struct st_kernel_run *run = &map->kernel[map->kernels++];

            *run = (struct st_kernel_run){
                .coll = coll, .ranks = request->ranks[r], .lo = at, .hi = UINT64_MAX};
            for (int registered = 0; registered < 2; registered++)
                run->decision[registered] = ask(&asker, at, registered);
            any |= run->decision[0].rule >= 0 || run->decision[1].rule >= 0;
            at = st_map_edge(at, request->hi, alike, &asker);
            if (at)
                run->hi = at - 1;
        } while (at && map->kernels < ST_MAP_KERNELS);
    }
    if (!any)
        map->kernels = before;
}

void st_map_kernels(const struct st_map_request *request, const symtuner_rules *rules,
                    struct st_map *map)
{
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--) {
        const char *word = symtuner_coll_name(c);
        int number = st_word_find(&st_kernel_coll_words, word, strlen(word));

        if (request->colls >> c & 1 && number >= 0)
            add_runs(request, rules, (enum symtuner_coll)c, number, map);
    }
}

const char *st_map_kernel(const struct symtuner_kernel_decision *decision, char *text, size_t size)
{
    size_t at = st_text_add(text, size, 0, "%s",
                            decision->rule < 0 || decision->beside >= 0 ? "own table"
                            : decision->kernel                          ? decision->kernel
                                                                        : "own kernel");

    if (decision->rule < 0)
        return text;
    if (decision->beside >= 0)
        at = st_text_add(text, size, at, ", beside %s", st_beside_words.word[decision->beside]);
    if (decision->ctas)
        at = st_text_add(text, size, at, ", %d CTAs", decision->ctas);
    if (decision->threads)
        st_text_add(text, size, at, "%s%d threads", decision->ctas ? " of " : ", ",
                    decision->threads);
    return text;
}

/* Can print_run print both runs on one line, for buffers of the kind ${registered}? The runs must
 * have the same collective, the same sizes, the same rule and the same decision. Also, print_run
 * must print the kind of buffers for both runs or for neither. It prints the kind for a run in
 * which plain and registered buffers have different rules. */
static bool runs_alike(const struct st_kernel_run *a, const struct st_kernel_run *b, int registered)
{
    const struct symtuner_kernel_decision *x = &a->decision[registered],
                                          *y = &b->decision[registered];

    return a->coll == b->coll && a->lo == b->lo && a->hi == b->hi && x->rule == y->rule &&
           st_map_kernels_alike(x, y) &&
           (a->decision[0].rule == a->decision[1].rule) ==
               (b->decision[0].rule == b->decision[1].rule);
}

/* Print run ${i}, and on the same line the numbers of ranks of all later runs that are alike
 * (runs_alike). Print nothing if an earlier run is alike: its line has the ranks of run ${i}. */
static void print_run(const struct st_map *map, int i, int registered, FILE *out)
{
    const struct st_kernel_run *run = &map->kernel[i];
    bool both = run->decision[0].rule == run->decision[1].rule;
    char range[64], kernel[80], ranks[64];
    size_t at;

    for (int k = 0; k < i; k++)
        if (runs_alike(&map->kernel[k], run, registered))
            return;
    at = st_text_add(ranks, sizeof ranks, 0, "%2d", run->ranks);
    for (int k = i + 1; k < map->kernels; k++)
        if (runs_alike(&map->kernel[k], run, registered))
            at = st_text_add(ranks, sizeof ranks, at, ",%d", map->kernel[k].ranks);
    fprintf(out, "%s ranks %-10s %-21s %-36s line %-4d %s\n", ranks,
            both         ? ""
            : registered ? "registered"
                         : "plain",
            st_map_range(run->lo, run->hi, range, sizeof range),
            st_map_kernel(&run->decision[registered], kernel, sizeof kernel),
            run->decision[registered].line, run->decision[registered].name);
}

/* Print the line above the runs of ${coll}. It names no operator for an all-gather, which has
 * none. */
static void print_head(const struct st_map_request *request, enum symtuner_coll coll, FILE *out)
{
    fprintf(out, "\n%s of libsymtuner_ar.so, %s%s%s%s%s; elsewhere its own table decides:\n",
            coll == SYMTUNER_ALLREDUCE ? "kernels" : symtuner_coll_name((int)coll),
            symtuner_dtype_name(request->dtype), coll == SYMTUNER_ALLGATHER ? "" : " ",
            coll == SYMTUNER_ALLGATHER ? "" : symtuner_op_name(request->op),
            request->beside != 0 ? ", beside: " : "",
            request->beside != 0 ? st_beside_words.word[request->beside] : "");
}

void st_map_kernels_print(const struct st_map_request *request, const struct st_map *map, FILE *out)
{
    for (int i = 0; i < map->kernels; i++) {
        const struct st_kernel_run *run = &map->kernel[i];

        if (i == 0 || run->coll != run[-1].coll)
            print_head(request, run->coll, out);
        for (int registered = run->decision[0].rule == run->decision[1].rule; registered < 2;
             registered++)
            if (run->decision[registered].rule >= 0)
                print_run(map, i, registered, out);
    }
}

void st_map_kernels_json(const struct st_map *map, struct st_json *json)
{
    for (int i = 0; i < map->kernels; i++)
        for (int registered = 0; registered < 2; registered++) {
            const struct st_kernel_run *run = &map->kernel[i];
            const struct symtuner_kernel_decision *d = &run->decision[registered];

            if (d->rule < 0)
                continue;
            st_json_open(json, NULL, "\n {");
            st_json_text(json, "coll", symtuner_coll_name((int)run->coll));
            st_json_int(json, "ranks", run->ranks);
            st_json_bool(json, "registered", registered);
            st_map_json_range(json, run->lo, run->hi);
            st_json_text(json, "rule", d->name);
            st_json_int(json, "line", d->line);
            st_json_text(json, "kernel", d->kernel);
            st_json_int(json, "ctas", d->ctas);
            st_json_int(json, "threads", d->threads);
            if (d->beside >= 0)
                st_json_text(json, "beside", st_beside_words.word[d->beside]);
            st_json_close(json);
        }
}

const struct st_kernel_run *st_map_kernels_at(const struct st_map *map, enum symtuner_coll coll,
                                              int ranks, uint64_t bytes)
{
    for (int i = 0; i < map->kernels; i++)
        if (map->kernel[i].coll == coll && map->kernel[i].ranks == ranks &&
            map->kernel[i].lo <= bytes && bytes <= map->kernel[i].hi)
            return &map->kernel[i];
    return NULL;
}
