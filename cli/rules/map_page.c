/* SPDX-License-Identifier: Apache-2.0 */
/* map_page.c - writes the decision map as a page for a browser; cli/report/report.html draws it. */
#include <inttypes.h>

#include "cli/report/report.h"
#include "cli/rules/map.h"
#include "nccl/release.h"

struct picture {
    const struct st_map_request *request;
    const struct st_map *map;
};

static void json_column(struct st_json *json, const struct st_column *column, const char *label)
{
    char cell[ST_MAP_CELL], range[64];

    st_json_open(json, NULL, "\n  {");
    st_json_text(json, "label", label);
    st_json_open(json, "runs", "[");
    for (int r = 0; r < column->runs; r++) {
        const struct st_run *run = &column->run[r];

        st_json_open(json, NULL, "\n   {");
        st_map_json_range(json, run->lo, run->hi);
        st_json_text(json, "range", st_map_range(run->lo, run->hi, range, sizeof range));
        st_json_text(json, "cell", st_map_cell(&run->decision, cell));
        st_json_int(json, "line", run->decision.line);
        st_json_text(json, "rule", run->decision.rule < 0 ? NULL : run->decision.name);
        st_json_close(json);
    }
    st_json_close(json);
    st_json_close(json);
}

static void page(const void *self, struct st_json *json)
{
    static const char *const kind[] = {", plain", ", registered"};
    const struct picture *picture = self;
    const struct st_map_request *request = picture->request;
    const struct st_map *map = picture->map;
    char release[16], ranks[64], label[128];

    st_json_open(json, NULL, "{");
    st_json_text(json, "page", "table");
    st_json_text(json, "rules", request->file[0]);
    st_json_int(json, "count", map->rules);
    st_json_format(json, "hash", "\"0x%016" PRIx64 "\"", map->hash);
    st_json_text(json, "nccl", st_release_print(request->nccl, release, sizeof release));
    st_json_text(json, "gpu", request->machine.gpu);
    st_json_int(json, "process_ctas", map->process_ctas);
    st_map_json_range(json, request->lo, request->hi);
    st_json_open(json, "rows", "[");
    for (int pair = 0; pair < map->columns; pair += 2) {
        const struct st_column *column = &map->column[pair];
        bool same = st_map_same(column, column + 1);

        for (int c = 0; c < (same ? 1 : 2) && st_map_first(map, pair); c++) {
            snprintf(label, sizeof label, "%s, %s%s", symtuner_coll_name((int)column->coll),
                     st_map_ranks(map, pair, ranks), same ? "" : kind[c]);
            json_column(json, column + c, label);
        }
    }
    st_json_close(json);
    st_json_close(json);
}

bool st_map_write_page(const struct st_map_request *request, const struct st_map *map)
{
    struct picture picture = {request, map};

    return st_report_write("table", request->html, request->force, page, &picture);
}
