/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - symtuner table RULES: prints the decision map as text or as JSON. */
#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/rules/map.h"
#include "cli/own_file.h"
#include "cli/text.h"
#include "cli/values.h"
#include "nccl/release.h"

enum { LABEL = 22, CELL = 12, ACROSS = (ST_TEXT_WIDTH - LABEL) / (CELL + 1) };

/* Return the smallest size above ${at} at which a run of one of the ${n} columns begins, or 0 if
 * there is none. */
static uint64_t next_edge(const struct st_map *map, const int *column, int n, uint64_t at)
{
    uint64_t next = UINT64_MAX;

    for (int i = 0; i < n; i++) {
        const struct st_column *one = &map->column[column[i]];

        for (int r = 0; r < one->runs; r++)
            if (one->run[r].lo > at && one->run[r].lo < next)
                next = one->run[r].lo;
    }
    return next == UINT64_MAX ? 0 : next;
}

/* Print ${text} in a field of ${width} characters; width 0 ends the line. Blanks are held back
 * until the next text, so that no line ends with blanks. */
static void put(FILE *out, const char *text, int width)
{
    static int pending;

    if (width == 0) {
        fputc('\n', out);
        pending = 0;
    } else if (*text == '\0') {
        pending += width;
    } else {
        fprintf(out, "%*s%s", pending, "", text);
        pending = width > (int)strlen(text) ? width - (int)strlen(text) : 1;
    }
}

/* Print one grid: ${n} columns of one collective. */
static void print_columns(const struct st_map *map, const int *column, int n, FILE *out)
{
    uint64_t at = map->column[column[0]].run[0].lo, next; /* all columns begin at this size */
    char text[64], cell[ST_MAP_CELL];

    put(out, "", 0);
    put(out, symtuner_coll_name((int)map->column[column[0]].coll), LABEL);
    for (int i = 0; i < n; i += 2)
        put(out, st_map_ranks(map, column[i], text), 2 * (CELL + 1));
    put(out, "", 0);
    put(out, "", LABEL);
    for (int i = 0; i < n; i++)
        put(out, map->column[column[i]].registered ? "registered" : "plain", CELL + 1);
    put(out, "", 0);
    do {
        next = next_edge(map, column, n, at);
        put(out, st_map_range(at, next ? next - 1 : UINT64_MAX, text, sizeof text), LABEL);
        for (int i = 0; i < n; i++)
            put(out, st_map_cell(&st_map_at(&map->column[column[i]], at)->decision, cell),
                CELL + 1);
        put(out, "", 0);
        at = next;
    } while (at);
}

/* Print the columns of each collective as a grid, or as several grids if one would be too wide.
 * Columns come in pairs (plain, registered). Of several pairs with the same decisions only the
 * first is printed. */
static void print_grids(const struct st_map *map, FILE *out)
{
    enum { MOST = ACROSS - ACROSS % 2 }; /* an even number, so that a pair stays in one grid */
    int column[MOST], n = 0;

    for (int pair = 0; pair < map->columns; pair += 2) {
        if (!st_map_first(map, pair))
            continue;
        if (n == MOST || (n && map->column[column[0]].coll != map->column[pair].coll)) {
            print_columns(map, column, n, out);
            n = 0;
        }
        column[n++] = pair;
        column[n++] = pair + 1;
    }
    if (n)
        print_columns(map, column, n, out);
}

/* Print the rules that decide something in the map, in the order of their lines. */
static void print_legend(const struct st_map *map, FILE *out)
{
    char text[320];
    int last = 0;

    fputs("\nrules seen:\n", out);
    for (;;) {
        const struct symtuner_decision *next = NULL;

        for (int c = 0; c < map->columns; c++)
            for (int r = 0; r < map->column[c].runs; r++) {
                const struct symtuner_decision *d = &map->column[c].run[r].decision;

                if (d->rule >= 0 && d->line > last && (!next || d->line < next->line))
                    next = d;
            }
        if (!next)
            break;
        fprintf(out, "  line %-4d %s", next->line, next->name);
        if (next->channels)
            fprintf(out, ", %d channels", next->channels);
        if (next->forbid)
            fprintf(out, ", without %s", st_map_entries(next->forbid, text, sizeof text));
        fputc('\n', out);
        last = next->line;
    }
    if (!last)
        fputs("  none: NCCL decides everything that is shown\n", out);
    fputs("a dot: no rule, NCCL decides. leave: a rule lets NCCL decide. +: limits as listed above."
          "\nregistered: what NCCL tells a tuner, which is not the same as symmetric windows.\n",
          out);
}

static void print_text(const struct st_map_request *request, const struct st_map *map, FILE *out)
{
    char release[16];

    fprintf(out, "%s: %d rule%s, hash 0x%016" PRIx64 "\nNCCL %s, %s, %s, multicast %s, %d node%s\n",
            request->file[0], map->rules, map->rules == 1 ? "" : "s", map->hash,
            st_release_print(request->nccl, release, sizeof release),
            request->machine.gpu[0] ? request->machine.gpu : "any GPU",
            request->machine.nvlink < 0 ? "links unknown"
            : request->machine.nvlink   ? "NVLink"
                                        : "PCIe",
            request->machine.multicast < 0 ? "unknown"
            : request->machine.multicast   ? "yes"
                                           : "no",
            request->nodes, request->nodes == 1 ? "" : "s");
    if (map->process_ctas)
        fprintf(out, "process: symmetric kernels get %d CTAs\n", map->process_ctas);
    print_grids(map, out);
    print_legend(map, out);
    st_map_kernels_print(request, map, out);
}

static void json_run(struct st_json *json, const struct st_column *column, const struct st_run *run)
{
    const struct symtuner_decision *d = &run->decision;

    st_json_open(json, NULL, "\n {");
    st_json_text(json, "coll", symtuner_coll_name((int)column->coll));
    st_json_int(json, "ranks", column->ranks);
    st_json_bool(json, "registered", column->registered);
    st_map_json_range(json, run->lo, run->hi);
    st_json_text(json, "rule", d->rule < 0 ? NULL : d->name);
    st_json_int(json, "line", d->line);
    st_json_text(json, "prefer", st_map_prefer(d));
    if (d->prefer == SYMTUNER_GENERAL) {
        st_json_text(json, "algorithm", symtuner_algo_name(d->algo));
        st_json_text(json, "protocol", symtuner_proto_name(d->proto));
    }
    st_json_int(json, "forbid", d->forbid);
    st_json_int(json, "channels", d->channels);
    st_json_close(json);
}

static void print_json(const struct st_map_request *request, const struct st_map *map, FILE *out)
{
    struct st_json json = {.out = out};
    char release[16];

    st_json_open(&json, NULL, "{");
    st_json_text(&json, "rules", request->file[0]);
    st_json_format(&json, "hash", "\"0x%016" PRIx64 "\"", map->hash);
    st_json_text(&json, "nccl", st_release_print(request->nccl, release, sizeof release));
    st_json_int(&json, "process_ctas", map->process_ctas);
    st_json_open(&json, "runs", "\n[");
    for (int c = 0; c < map->columns; c++)
        for (int r = 0; r < map->column[c].runs; r++)
            json_run(&json, &map->column[c], &map->column[c].run[r]);
    st_json_close(&json);
    st_json_open(&json, "kernels", "\n[");
    st_map_kernels_json(map, &json);
    st_json_close(&json);
    st_json_close(&json);
}

static const struct st_command_line line = {
    .command = "table",
    .usage = "RULES [options]\n",
    .about = "What the rules decide, over sizes and ranks, for plain buffers and for registered "
             "ones.\n",
    .after = ST_TYPES_HELP
    "examples: symtuner table my.rules\n"
    "          symtuner table my.rules --coll all --ranks 8 --machine h200x8 --html map.html\n",
    .row = st_map_options,
    .rows = ST_MAP_OPTIONS,
    .least_words = 1,
    .most_words = 1,
    .started = st_map_started};

int st_cmd_table(int argc, char **argv)
{
    static struct st_map map; /* static, because it is large */
    struct st_map_request request;
    int status = st_map_read(&line, argc, argv, &request);

    if (status >= 0)
        return status;
    if (!request.colls)
        request.colls = 1u << SYMTUNER_ALLREDUCE;
    if (request.html && !(st_own_file_possible("table", request.html) &&
                          st_own_file_free("table", request.html, request.force)))
        return ST_EXIT_USAGE;
    status = st_map_make(&request, request.file[0], &map);
    if (status != ST_EXIT_FINE)
        return status;
    (request.json ? print_json : print_text)(&request, &map, stdout);
    status = !request.html || st_map_write_page(&request, &map) ? ST_EXIT_FINE : ST_EXIT_FINDINGS;
    st_map_free(&map);
    return status;
}
