/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rules/map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "rules/sources.h"

bool st_map_alike(const struct symtuner_decision *a, const struct symtuner_decision *b)
{
    return a->prefer == b->prefer && a->forbid == b->forbid && a->channels == b->channels &&
           (a->prefer != SYMTUNER_GENERAL || (a->algo == b->algo && a->proto == b->proto));
}

static bool same(const struct symtuner_decision *a, const struct symtuner_decision *b)
{
    return a->rule == b->rule && st_map_alike(a, b);
}

bool st_map_same(const struct st_column *a, const struct st_column *b)
{
    bool same = a->coll == b->coll && a->runs == b->runs;

    for (int r = 0; r < a->runs && same; r++)
        same = a->run[r].lo == b->run[r].lo && a->run[r].hi == b->run[r].hi &&
               a->run[r].decision.line == b->run[r].decision.line &&
               st_map_alike(&a->run[r].decision, &b->run[r].decision);
    return same;
}

static bool pairs_alike(const struct st_map *map, int a, int b)
{
    return st_map_same(&map->column[a], &map->column[b]) &&
           st_map_same(&map->column[a + 1], &map->column[b + 1]);
}

bool st_map_first(const struct st_map *map, int pair)
{
    for (int p = 0; p < pair; p += 2)
        if (pairs_alike(map, p, pair))
            return false;
    return true;
}

const char *st_map_ranks(const struct st_map *map, int pair, char text[64])
{
    int last = map->column[pair].ranks;
    size_t at = st_text_add(text, 64, 0, "%d", last), shown = 1;

    for (int p = pair + 2; p < map->columns; p += 2)
        if (pairs_alike(map, pair, p)) {
            last = map->column[p].ranks;
            if (++shown <= 4)
                at = st_text_add(text, 64, at, ",%d", last);
        }
    if (shown > 4)
        at = st_text_add(text, 64, at, ",...,%d", last);
    st_text_add(text, 64, at, " rank%s", last == 1 ? "" : "s");
    return text;
}

const char *st_map_prefer(const struct symtuner_decision *decision)
{
    static const char *const word[] = {"leave", "symmetric", "general"};

    return decision->rule < 0 ? NULL : word[decision->prefer];
}

const char *st_map_cell(const struct symtuner_decision *decision, char text[ST_MAP_CELL])
{
    const char *more = decision->forbid || decision->channels ? "+" : "";

    if (decision->rule < 0)
        snprintf(text, ST_MAP_CELL, ".");
    else if (decision->prefer == SYMTUNER_SYMMETRIC)
        snprintf(text, ST_MAP_CELL, "symmetric%s", more);
    else if (decision->prefer == SYMTUNER_GENERAL)
        snprintf(text, ST_MAP_CELL, "%s/%s%s",
                 decision->algo < 0 ? "*" : symtuner_algo_name(decision->algo),
                 decision->proto < 0 ? "*" : symtuner_proto_name(decision->proto), more);
    else
        snprintf(text, ST_MAP_CELL, "%s", *more ? "limits" : "leave");
    return text;
}

/* The range includes ${lo} and ${hi}. If ${lo} is 65537 bytes, write ">64 KiB", which is shorter
 * than "65537 B". If ${hi} is 1048575 bytes, write "<1 MiB". */
const char *st_map_range(uint64_t lo, uint64_t hi, char *text, size_t size)
{
    char low[ST_TEXT_SIZE], below[ST_TEXT_SIZE], high[ST_TEXT_SIZE], above[ST_TEXT_SIZE];
    size_t at;

    st_text_size(lo, low);
    st_text_size(lo - 1, below);
    st_text_size(hi, high);
    st_text_size(hi + 1, above);
    at = lo && strlen(below) < strlen(low) ? st_text_add(text, size, 0, ">%s ..", below)
                                           : st_text_add(text, size, 0, "%s ..", low);
    if (hi == UINT64_MAX)
        return text;
    if (strlen(above) < strlen(high))
        st_text_add(text, size, at, " <%s", above);
    else
        st_text_add(text, size, at, " %s", high);
    return text;
}

const char *st_map_entries(uint32_t bits, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < SYMTUNER_ALGOS * SYMTUNER_PROTOS; i++)
        if (bits >> i & 1)
            at = st_text_add(text, size, at, "%s%s/%s", at ? " " : "",
                             symtuner_algo_name(i / SYMTUNER_PROTOS),
                             symtuner_proto_name(i % SYMTUNER_PROTOS));
    return text;
}

void st_map_json_range(struct st_json *json, uint64_t lo, uint64_t hi)
{
    st_json_format(json, "low", "%" PRIu64, lo);
    if (hi != UINT64_MAX)
        st_json_format(json, "high", "%" PRIu64, hi);
}

const struct st_run *st_map_at(const struct st_column *column, uint64_t bytes)
{
    for (int i = 0; i < column->runs; i++)
        if (bytes <= column->run[i].hi)
            return &column->run[i];
    return &column->run[column->runs - 1];
}

struct decider {
    const symtuner_rules *rules;
    struct symtuner_query query;
};

static struct symtuner_decision decide(struct decider *decider, uint64_t bytes)
{
    struct symtuner_decision decision = {.struct_size = sizeof decision, .rule = -1};

    decider->query.bytes = bytes;
    symtuner_decide(decider->rules, &decider->query, &decision);
    return decision;
}

static bool append(struct st_column *column, uint64_t lo, const struct symtuner_decision *decision)
{
    struct st_run *more = realloc(column->run, (size_t)(column->runs + 1) * sizeof *more);

    if (!more)
        return false;
    column->run = more;
    if (column->runs)
        more[column->runs - 1].hi = lo - 1;
    more[column->runs++] = (struct st_run){.lo = lo, .hi = UINT64_MAX, .decision = *decision};
    return true;
}

uint64_t st_map_edge(uint64_t at, uint64_t end, bool (*alike)(void *, uint64_t, uint64_t),
                     void *with)
{
    enum { STEPS = 16 };

    for (uint64_t lo = at; lo < end;) {
        uint64_t step = lo / STEPS ? lo / STEPS : 1, hi = end - lo > step ? lo + step : end;

        if (alike(with, at, hi)) {
            lo = hi;
            continue;
        }
        while (hi - lo > 1) {
            uint64_t middle = lo + (hi - lo) / 2;

            if (alike(with, at, middle))
                lo = middle;
            else
                hi = middle;
        }
        return hi;
    }
    return 0;
}

static bool alike(void *with, uint64_t a, uint64_t b)
{
    struct symtuner_decision one = decide(with, a), other = decide(with, b);

    return same(&one, &other);
}

static bool fill(struct decider *decider, const struct st_map_request *request,
                 struct st_column *column)
{
    uint64_t at = request->lo;

    do {
        struct symtuner_decision decision = decide(decider, at);

        if (!append(column, at, &decision))
            return false;
    } while ((at = st_map_edge(at, request->hi, alike, decider)));
    return true;
}

int st_map_make(const struct st_map_request *request, const char *file, struct st_map *map)
{
    char error[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules;
    enum symtuner_status status;
    struct decider decider = {.query = {.struct_size = sizeof decider.query,
                                        .nccl = request->nccl,
                                        .nodes = request->nodes,
                                        .pipe_ops = 1,
                                        .machine = request->machine}};

    *map = (struct st_map){0};
    status = st_rules_load_any(file, &rules, error, sizeof error);
    if (status != SYMTUNER_OK)
        return st_fail(st_exit_of(status), "%s\n", error);
    decider.rules = rules;
    map->rules = symtuner_rules_count(rules);
    map->hash = symtuner_rules_hash(rules);
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        for (int r = 0; r < request->n_ranks && request->colls >> c & 1; r++)
            for (int registered = 0; registered < 2; registered++) {
                struct st_column *column = &map->column[map->columns];

                if (map->columns == ST_MAP_COLUMNS * 2)
                    continue;
                *column = (struct st_column){.coll = (enum symtuner_coll)c,
                                             .ranks = request->ranks[r],
                                             .registered = registered};
                decider.query.coll = column->coll;
                decider.query.ranks = column->ranks;
                decider.query.registered = registered;
                map->columns++;
                if (!fill(&decider, request, column)) {
                    symtuner_rules_free(rules);
                    st_map_free(map);
                    return st_fail(ST_EXIT_FINDINGS, "symtuner: out of memory\n");
                }
                map->process_ctas = column->run[0].decision.process_ctas;
            }
    st_map_kernels(request, rules, map);
    symtuner_rules_free(rules);
    return ST_EXIT_FINE;
}

void st_map_free(struct st_map *map)
{
    for (int i = 0; i < map->columns; i++)
        free(map->column[i].run);
    map->columns = 0;
}
