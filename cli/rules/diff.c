/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c - symtuner diff A B: prints the sizes for which two rules files decide differently. */
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/rules/map.h"
#include "cli/text.h"
#include "cli/values.h"

/* Two decision maps (cli/rules/map.h), and the part of them that is compared now: one column, or
 * what [kernels] rules decide for one collective, one number of ranks and one kind of buffers. */
struct report {
    const struct st_map *map[2]; /* [0] of the old rules, [1] of the new rules          */
    int column;                  /* index of the column in both maps; -1: [kernels]     */
    enum symtuner_coll coll;
    int ranks, registered;
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

/* Return what map[${side}] says about ${bytes}: a struct symtuner_decision or, for the kernels, a
 * struct symtuner_kernel_decision. ${hi_out} becomes the largest size with this decision. */
static const void *decision_at(const struct report *report, int side, uint64_t bytes,
                               uint64_t *hi_out)
{
    static const struct symtuner_kernel_decision none = {.rule = -1};
    const struct st_map *map = report->map[side];

    if (report->column >= 0) {
        const struct st_run *run = st_map_at(&map->column[report->column], bytes);

        *hi_out = run->hi;
        return &run->decision;
    } else {
        const struct st_kernel_run *run =
            st_map_kernels_at(map, report->coll, report->ranks, bytes);

        *hi_out = run ? run->hi : UINT64_MAX;
        return run ? &run->decision[report->registered] : &none;
    }
}

static bool alike(const struct report *report, const void *a, const void *b)
{
    return report->column < 0 ? st_map_kernels_alike(a, b) : st_map_alike(a, b);
}

static void put_into_words(const struct report *report, const void *decision, char *text,
                           size_t size)
{
    if (report->column < 0)
        st_map_kernel(decision, text, size);
    else
        detail(decision, text, size);
}

/* Print a range of sizes for which the decisions differ. */
static void tell(struct report *report, uint64_t lo, uint64_t hi, const void *old, const void *new)
{
    const char *coll = symtuner_coll_name((int)report->coll);
    const bool kernels = report->column < 0;
    const bool names_coll = kernels && report->coll != SYMTUNER_ALLREDUCE;
    char range[64], before[480], after[480], line[1200];
    struct st_json *json = &report->json;

    report->changes++;
    put_into_words(report, old, before, sizeof before);
    put_into_words(report, new, after, sizeof after);
    if (report->as_json) {
        st_json_open(json, NULL, "\n {");
        if (kernels)
            st_json_bool(json, "kernels", true);
        st_json_text(json, "coll", coll);
        st_json_int(json, "ranks", report->ranks);
        st_json_bool(json, "registered", report->registered);
        st_map_json_range(json, lo, hi);
        st_json_text(json, "old", before);
        st_json_text(json, "new", after);
        st_json_close(json);
        return;
    }
    printf("%-13s %2d rank%s %-10s %-21s ", kernels ? "kernels" : coll, report->ranks,
           report->ranks == 1 ? " " : "s", report->registered ? "registered" : "plain",
           st_map_range(lo, hi, range, sizeof range));
    snprintf(line, sizeof line, "%s%s%s -> %s", names_coll ? coll : "",
             names_coll ? ": " : "", before, after);
    st_text_wrap(stdout, 56, line);
}

/* Compare the decisions of both maps at all sizes from ${lo} on. Neighbouring ranges that change in
 * the same way are printed on one line. */
static void compare(struct report *report, uint64_t lo)
{
    const void *old = NULL, *new = NULL; /* the change that began at ${from}, if any */
    uint64_t from = lo, hi, end;

    for (;; lo = hi + 1) {
        const void *x = decision_at(report, 0, lo, &hi), *y = decision_at(report, 1, lo, &end);

        hi = end < hi ? end : hi;
        if (old && (!alike(report, old, x) || !alike(report, new, y))) {
            tell(report, from, lo - 1, old, new);
            old = NULL;
        }
        if (!old && !alike(report, x, y)) {
            from = lo;
            old = x;
            new = y;
        }
        if (hi == UINT64_MAX)
            break;
    }
    if (old)
        tell(report, from, UINT64_MAX, old, new);
}

static const struct st_command_line line = {
    .command = "diff",
    .usage = "OLD NEW [options]\n",
    .about = "Sizes and ranks that two rules files decide differently.\n",
    .after =
        ST_TYPES_HELP "Exit 0: no decision differs. 1: some do. 2: a file cannot be read.\n"
                      "example: symtuner diff old.rules new.rules --ranks 8 --machine h200x8\n",
    .row = st_map_options,
    .rows = ST_MAP_OPTIONS - ST_MAP_PAGE_OPTIONS,
    .least_words = 2,
    .most_words = 2,
    .started = st_map_started};

int st_cmd_diff(int argc, char **argv)
{
    static struct st_map one, other; /* static, because a map is large */
    struct st_map_request request;
    struct report report = {.map = {&one, &other}, .json.out = stdout};
    struct st_json *json = &report.json;
    int status = st_map_read(&line, argc, argv, &request);

    if (status >= 0)
        return status;
    if (!request.colls)
        request.colls = (1u << SYMTUNER_COLLS) - 1;
    if (st_map_make(&request, request.file[0], &one) != ST_EXIT_FINE)
        return ST_EXIT_USAGE;
    if (st_map_make(&request, request.file[1], &other) != ST_EXIT_FINE) {
        st_map_free(&one);
        return ST_EXIT_USAGE;
    }
    report.as_json = request.json;
    if (request.json) {
        st_json_open(json, NULL, "{");
        st_json_open(json, "changes", "[");
    }
    for (report.column = 0; report.column < one.columns; report.column++) {
        report.coll = one.column[report.column].coll;
        report.ranks = one.column[report.column].ranks;
        report.registered = one.column[report.column].registered;
        compare(&report, request.lo);
    }
    report.column = -1;
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        for (int r = 0; r < 2 * request.n_ranks; r++) {
            report.coll = (enum symtuner_coll)c;
            report.ranks = request.ranks[r / 2];
            report.registered = r % 2;
            compare(&report, request.lo);
        }
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
