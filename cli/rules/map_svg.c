/* SPDX-License-Identifier: Apache-2.0 */
/* map_svg.c - the decision map as one picture: sizes to the right, one bar per column of the map.
 */
#include <math.h>
#include <string.h>

#include "cli/rules/map.h"
#include "cli/own_file.h"
#include "cli/text.h"
#include "nccl/release.h"

enum { LEFT = 250, TOP = 64, BAR = 22, GAP = 5, WIDE = 760, LEGEND = 26, KINDS_MAX = 32 };

/* Colours that differ in lightness as well as in hue. */
static const char *const colour[] = {"#2a6f97", "#e07a3f", "#5b8c5a", "#8e5572", "#c9a227",
                                     "#4d4d9f", "#b23a48", "#61a5c2", "#7f6a4f", "#9a9a9a"};
enum { COLOURS = sizeof colour / sizeof *colour };

struct kinds {
    char cell[KINDS_MAX][ST_MAP_CELL];
    int count;
};

static const char *colour_of(struct kinds *kinds, const char *cell)
{
    int i;

    if (strcmp(cell, ".") == 0)
        return "#eceff1";
    if (strcmp(cell, "leave") == 0)
        return "#cfd8dc";
    for (i = 0; i < kinds->count && strcmp(kinds->cell[i], cell) != 0; i++)
        ;
    if (i == kinds->count && i < KINDS_MAX)
        strcpy(kinds->cell[kinds->count++], cell);
    return colour[i % COLOURS];
}

static double place(const struct st_map_request *request, uint64_t bytes)
{
    double lo = log2((double)request->lo), hi = log2((double)request->hi);
    double at = bytes >= request->hi ? hi : log2((double)(bytes ? bytes : 1));

    return LEFT + WIDE * (at - lo) / (hi - lo);
}

enum { PLAIN = 1, REGISTERED = 2 };

/* Columns come in pairs, plain and registered: for which of the two of ${pair} does ${c} stand? */
static int kind_of(const struct st_map *map, int c, int pair)
{
    return (st_map_same(&map->column[c], &map->column[pair]) ? PLAIN : 0) |
           (st_map_same(&map->column[c], &map->column[pair + 1]) ? REGISTERED : 0);
}

/* Is ${c} the first of all columns that say the same for the same kinds of buffers? */
static bool is_first(const struct st_map *map, int c)
{
    int kind = kind_of(map, c, c & ~1);

    if ((c & 1) && kind == (PLAIN | REGISTERED))
        return false;
    for (int pair = 0; pair < (c & ~1); pair += 2)
        if (kind_of(map, c, pair) == kind)
            return false;
    return true;
}

/* "allreduce, 2, 4, 8 ranks, plain" */
static void label(const struct st_map *map, int c, int y, FILE *out)
{
    static const char *const buffers[] = {"", ", plain", ", reg.", ""};
    int kind = kind_of(map, c, c & ~1), ranks = 0, last = 0;
    char text[64];
    size_t at =
        st_text_add(text, sizeof text, 0, "%s", symtuner_coll_name((int)map->column[c].coll));

    for (int pair = 0; pair < map->columns; pair += 2) {
        if (kind_of(map, c, pair) != kind)
            continue;
        last = map->column[pair].ranks;
        if (ranks++ < 4)
            at = st_text_add(text, sizeof text, at, ", %d", last);
    }
    if (ranks > 4)
        at = st_text_add(text, sizeof text, at, " ... %d", last);
    st_text_add(text, sizeof text, at, " rank%s%s", last == 1 ? "" : "s", buffers[kind]);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 15, text);
}

static void draw_column(const struct st_map_request *request, const struct st_column *column,
                        int y, struct kinds *kinds, FILE *out)
{
    char cell[ST_MAP_CELL], range[64];

    for (int r = 0; r < column->runs; r++) {
        const struct st_run *run = &column->run[r];
        double from = place(request, run->lo);
        double to = place(request, run->hi == UINT64_MAX ? request->hi : run->hi + 1);
        const char *fill = colour_of(kinds, st_map_cell(&run->decision, cell));

        fprintf(out,
                "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\">"
                "<title>",
                from, y, to - from, BAR, fill);
        st_xml_text(out, st_map_range(run->lo, run->hi, range, sizeof range));
        fprintf(out, ": %s", cell);
        if (run->decision.rule >= 0) {
            fprintf(out, ", line %d ", run->decision.line);
            st_xml_text(out, run->decision.name);
        }
        fputs("</title></rect>\n", out);
        if (to - from > 9.0 * (double)strlen(cell) && strcmp(cell, ".") != 0)
            fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"%s\">%s</text>\n",
                    (from + to) / 2, y + 15, strcmp(cell, "leave") == 0 ? "#37474f" : "#fff", cell);
    }
}

static void draw(const struct st_map_request *request, const struct st_map *map, FILE *out)
{
    int rows = 0, bottom, x = LEFT;
    struct kinds kinds = {.count = 0};
    char text[ST_TEXT_SIZE], release[16];

    for (int c = 0; c < map->columns; c++)
        rows += is_first(map, c);
    bottom = TOP + rows * (BAR + GAP);
    rows = 0;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#263238\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"600\">", LEFT + WIDE + 24,
            bottom + 30 + LEGEND, LEFT + WIDE + 24);
    st_xml_text(out, request->file[0]);
    fprintf(out, "</text>\n<text x=\"12\" y=\"44\">%d rule%s, hash 0x%016llx, NCCL %s%s",
            map->rules, map->rules == 1 ? "" : "s", (unsigned long long)map->hash,
            st_release_print(request->nccl, release, sizeof release),
            request->machine.gpu[0] ? ", " : "");
    st_xml_text(out, request->machine.gpu);
    if (map->process_ctas)
        fprintf(out, ", symmetric kernels get %d CTAs", map->process_ctas);
    fputs("</text>\n", out);
    for (int c = 0; c < map->columns; c++)
        if (is_first(map, c)) {
            int y = TOP + rows++ * (BAR + GAP);

            label(map, c, y, out);
            draw_column(request, &map->column[c], y, &kinds, out);
        }
    for (uint64_t bytes = 1; bytes && bytes <= request->hi; bytes *= 8) {
        if (bytes < request->lo)
            continue;
        fprintf(out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#90a4ae\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                place(request, bytes), place(request, bytes), bottom, bottom + 5,
                place(request, bytes), bottom + 18, st_text_size(bytes, text));
    }
    for (int i = 0; i < kinds.count; i++) {
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>"
                "<text x=\"%d\" y=\"%d\">%s</text>\n", x, bottom + 30, colour[i % COLOURS], x + 17,
                bottom + 40, kinds.cell[i]);
        x += 40 + 8 * (int)strlen(kinds.cell[i]);
    }
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"#eceff1\" "
            "stroke=\"#90a4ae\"/><text x=\"%d\" y=\"%d\">no rule</text>\n</svg>\n", x, bottom + 30,
            x + 17, bottom + 40);
}

struct picture {
    const struct st_map_request *request;
    const struct st_map *map;
};

static void write_picture(const void *self, FILE *out)
{
    const struct picture *picture = self;

    draw(picture->request, picture->map, out);
}

bool st_map_svg(const struct st_map_request *request, const struct st_map *map, const char *path)
{
    struct picture picture = {request, map};

    return st_own_file_write("table", path, true, write_picture, &picture);
}
