/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c - symtuner diff A B: prints the sizes for which two rules files decide differently. */
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/rules/map.h"
#include "cli/text.h"
#include "cli/values.h"

struct report {
    bool as_json;
    struct st_json json;
    int changes;
};

static void detail(const struct symtuner_decision *d, char *text, size_t size)
{
    char cell[ST_MAP_CELL], entries[320];
    size_t at = st_text_add(text, size, 0, "%s", d->rule < 0 ? "no rule" : st_map_cell(d, cell));

    if (d->channels)
        at = st_text_add(text, size, at, " %d channels", d->channels);
    if (d->forbid)
        st_text_add(text, size, at, " without %s",
                    st_map_entries(d->forbid, entries, sizeof entries));
}

/* Print a range of sizes for which the decisions differ. ${coll} is the collective; NULL: the
 * decisions are for libsymtuner_ar.so. */
static void tell(struct report *report, const char *coll, int ranks, int registered, uint64_t lo,
                 uint64_t hi, const char *before, const char *after)
{
    char range[64], line[1200];
    struct st_json *json = &report->json;

    report->changes++;
    if (report->as_json) {
        st_json_open(json, NULL, "\n {");
        if (coll)
            st_json_text(json, "coll", coll);
        else
            st_json_bool(json, "kernels", true);
        st_json_int(json, "ranks", ranks);
        st_json_bool(json, "registered", registered);
        st_map_json_range(json, lo, hi);
        st_json_text(json, "old", before);
        st_json_text(json, "new", after);
        st_json_close(json);
        return;
    }
    printf("%-13s %2d rank%s %-10s %-21s ", coll ? coll : "kernels", ranks, ranks == 1 ? " " : "s",
           registered ? "registered" : "plain", st_map_range(lo, hi, range, sizeof range));
    snprintf(line, sizeof line, "%s -> %s", before, after);
    st_text_wrap(stdout, 56, line);
}

static void change(struct report *report, const struct st_column *column, uint64_t lo, uint64_t hi,
                   const struct symtuner_decision *old, const struct symtuner_decision *new)
{
    char before[480], after[480];

    detail(old, before, sizeof before);
    detail(new, after, sizeof after);
    tell(report, symtuner_coll_name((int)column->coll), column->ranks, column->registered, lo, hi,
         before, after);
}

/* Compare two columns run by run; print neighbouring ranges with the same change on one line. */
static void compare(struct report *report, const struct st_column *a, const struct st_column *b)
{
    const struct st_run *x = a->run, *y = b->run, *last = a->run + a->runs;
    const struct symtuner_decision *old = NULL, *new = NULL;
    uint64_t from = 0, lo = x->lo;

    while (x < last) {
        uint64_t hi = x->hi < y->hi ? x->hi : y->hi;
        bool differ = !st_map_alike(&x->decision, &y->decision);

        if (old &&
            (!differ || !st_map_alike(old, &x->decision) || !st_map_alike(new, &y->decision))) {
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
    char before[80], after[80];

    st_map_kernel(old, before, sizeof before);
    st_map_kernel(new, after, sizeof after);
    tell(with, NULL, range->ranks, registered, range->lo, range->hi, before, after);
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
    .least_words = 2,
    .most_words = 2,
    .started = st_map_started};

int st_cmd_diff(int argc, char **argv)
{
    static struct st_map one, other; /* static because it is large */
    struct st_map_request request;
    struct report report = {.json.out = stdout};
    struct st_json *json = &report.json;
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
    report.as_json = request.json;
    if (request.json) {
        st_json_open(json, NULL, "{");
        st_json_open(json, "changes", "[");
    }
    for (int c = 0; c < one.columns; c++)
        compare(&report, &one.column[c], &other.column[c]);
    if (request.colls >> SYMTUNER_ALLREDUCE & 1)
        st_map_kernels_diff(&one, &other, kernel_change, &report);
    if (request.json) {
        st_json_close(json);
        st_json_open(json, "process_ctas", "\n {");
        st_json_int(json, "old", one.process_ctas);
        st_json_int(json, "new", other.process_ctas);
        st_json_close(json);
        st_json_close(json);
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
