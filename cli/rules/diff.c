/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c - symtuner diff A B: what another rules file would change, and nothing else. */
#include <inttypes.h>

#include "cli/commands.h"
#include "cli/rules/map.h"
#include "cli/text.h"
#include "cli/values.h"

struct report {
    bool json;
    int changes;
    FILE *out;
};

static void detail(const struct symtuner_decision *d, char *text, size_t size)
{
    char cell[ST_MAP_CELL], entries[320];
    size_t at = st_text_add(text, size, 0, "%s",
                            d->rule < 0 ? "no rule" : st_map_cell(d, cell));

    if (d->channels)
        at = st_text_add(text, size, at, " %d channels", d->channels);
    if (d->forbid)
        st_text_add(text, size, at, " without %s",
                    st_map_entries(d->forbid, entries, sizeof entries));
}

static void change(struct report *report, const struct st_column *column, uint64_t lo, uint64_t hi,
                   const struct symtuner_decision *old, const struct symtuner_decision *new)
{
    char range[64], before[480], after[480], line[1200];

    detail(old, before, sizeof before);
    detail(new, after, sizeof after);
    if (report->json) {
        fprintf(report->out, "%s\n {\"coll\": \"%s\", \"ranks\": %d, \"registered\": %s, "
                "\"low\": %" PRIu64, report->changes ? "," : "",
                symtuner_coll_name((int)column->coll), column->ranks,
                column->registered ? "true" : "false", lo);
        if (hi != UINT64_MAX)
            fprintf(report->out, ", \"high\": %" PRIu64, hi);
        st_json_field(report->out, false, "old", before);
        st_json_field(report->out, false, "new", after);
        fputs("}", report->out);
    } else {
        fprintf(report->out, "%-13s %2d rank%s %-10s %-21s ",
                symtuner_coll_name((int)column->coll), column->ranks,
                column->ranks == 1 ? " " : "s", column->registered ? "registered" : "plain",
                st_map_range(lo, hi, range, sizeof range));
        snprintf(line, sizeof line, "%s -> %s", before, after);
        st_text_wrap(report->out, 56, line);
    }
    report->changes++;
}

/* Walk both columns side by side; ranges that change alike are one line. */
static void compare(struct report *report, const struct st_column *a, const struct st_column *b)
{
    const struct st_run *x = a->run, *y = b->run, *last = a->run + a->runs;
    const struct symtuner_decision *old = NULL, *new = NULL;
    uint64_t from = 0, lo = x->lo;

    while (x < last) {
        uint64_t hi = x->hi < y->hi ? x->hi : y->hi;
        bool differ = !st_map_alike(&x->decision, &y->decision);

        if (old && (!differ || !st_map_alike(old, &x->decision) ||
                    !st_map_alike(new, &y->decision))) {
            change(report, a, from, lo - 1, old, new);
            old = NULL;
        }
        if (differ && !old) {
            from = lo;
            old = &x->decision;
            new = &y->decision;
        }
        if (hi == UINT64_MAX)
            break;
        x += x->hi == hi;
        y += y->hi == hi;
        lo = hi + 1;
    }
    if (old)
        change(report, a, from, UINT64_MAX, old, new);
}

static void kernel_change(void *with, const struct st_kernel_run *range, int registered,
                          const struct symtuner_kernel_decision *old,
                          const struct symtuner_kernel_decision *new)
{
    struct report *report = with;
    char sizes[64], before[80], after[80], line[240];

    st_map_kernel(old, before, sizeof before);
    st_map_kernel(new, after, sizeof after);
    if (report->json) {
        fprintf(report->out, "%s\n {\"kernels\": true, \"ranks\": %d, \"registered\": %s, \"low\": "
                "%" PRIu64, report->changes ? "," : "", range->ranks, registered ? "true" : "false",
                range->lo);
        if (range->hi != UINT64_MAX)
            fprintf(report->out, ", \"high\": %" PRIu64, range->hi);
        st_json_field(report->out, false, "old", before);
        st_json_field(report->out, false, "new", after);
        fputs("}", report->out);
    } else {
        fprintf(report->out, "%-13s %2d rank%s %-10s %-21s ", "kernels", range->ranks,
                range->ranks == 1 ? " " : "s", registered ? "registered" : "plain",
                st_map_range(range->lo, range->hi, sizes, sizeof sizes));
        snprintf(line, sizeof line, "%s -> %s", before, after);
        st_text_wrap(report->out, 56, line);
    }
    report->changes++;
}

static int started(void *self)
{
    return st_map_started("diff", self);
}

static const struct st_command_line line = {
    .command = "diff",
    .usage = "OLD NEW [options]\n",
    .about = "Sizes and ranks that two rules files decide differently.\n",
    .after =
        ST_TYPES_HELP "Exit 0: no decision differs. 1: some do. 2: a file cannot be read.\n"
                      "example: symtuner diff old.rules new.rules --ranks 8 --machine h200x8\n",
    .row = st_map_options,
    .rows = ST_MAP_OPTIONS - 2,
    .word = st_map_word,
    .least_words = 2,
    .most_words = 2,
    .started = started};

int st_cmd_diff(int argc, char **argv)
{
    static struct st_map one, other; /* large */
    struct st_map_request request;
    struct report report = {.out = stdout};
    int status = st_map_read(&line, argc, argv, &request);

    if (status >= 0)
        return status;
    if (!request.colls)
        request.colls = (1u << SYMTUNER_COLLS) - 1;
    if (!st_map_make(&request, request.file[0], &one))
        return ST_EXIT_USAGE;
    if (!st_map_make(&request, request.file[1], &other)) {
        st_map_free(&one);
        return ST_EXIT_USAGE;
    }
    report.json = request.json;
    if (report.json)
        fputs("{\"changes\": [", stdout);
    for (int c = 0; c < one.columns; c++)
        compare(&report, &one.column[c], &other.column[c]);
    if (request.colls >> SYMTUNER_ALLREDUCE & 1)
        st_map_kernels_diff(&one, &other, kernel_change, &report);
    if (report.json) {
        printf("],\n \"process_ctas\": {\"old\": %d, \"new\": %d}}\n", one.process_ctas,
               other.process_ctas);
    } else {
        if (one.process_ctas != other.process_ctas)
            printf("process: CTAs of symmetric kernels %d -> %d (0: as NCCL chooses)\n",
                   one.process_ctas, other.process_ctas);
        if (!report.changes && one.process_ctas == other.process_ctas)
            printf("no decision differs\n");
    }
    report.changes += one.process_ctas != other.process_ctas;
    st_map_free(&one);
    st_map_free(&other);
    return report.changes ? ST_EXIT_FINDINGS : ST_EXIT_FINE;
}
