/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html.c - the report of tune: one page that needs nothing but itself. Per collective two
 * plots against size (latency, bus bandwidth), the chosen kind of kernel shaded behind them, the
 * copy engine's floor dashed, and the numbers as a table.
 */
#include <math.h>
#include <string.h>

#include "cli/own_file.h"
#include "cli/text.h"
#include "cli/tune/tune.h"
#include "nccl/release.h"
#include "symtuner_why.h"

enum { WIDE = 900, HIGH = 380, LEFT = 64, RIGHT = 190, TOP = 14, BOTTOM = 40 };

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;max-width:72rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.5rem;margin:0}h2{margin:2.2rem 0 .4rem;font-size:1.2rem}"
    "h3{font-size:.95rem;font-weight:600;margin:1rem 0 .2rem}"
    "p{margin:.4rem 0}table{border-collapse:collapse;font-size:13px;margin:1rem 0;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}th,td{padding:.15rem "
    ".6rem;text-align:right;"
    "border-bottom:1px solid #e4e7eb}th{font-weight:600}td:first-child,th:first-child{text-align:"
    "left}td.best{background:#e3f2e6;font-weight:600}small,.facts{color:#52606d}"
    ".wide{overflow-x:auto}td.way{text-align:left}td.ruled{background:#fdf3d7}th[colspan]{text-"
    "align:left}"
    ".headline{font-size:1.15rem;margin:1rem 0 0}ul{margin:.1rem 0}"
    "b.plugin{color:#2b6cb0}b.library{color:#2f855a}pre{background:#f0f2f4;padding:.6rem;"
    "overflow-x:auto}"
    "svg{max-width:100%;height:auto;display:block}code{background:#f0f2f4;padding:0 .25rem}";

static const char *colour(const struct st_tune *tune, int candidate)
{
    static const char *const pale[] = {"#9fb3c8", "#d6b3b0", "#c9c58f", "#a5cdb8"};

    if (candidate == ST_GENERAL)
        return "#d9822b";
    if (candidate == ST_OWN)
        return "#2f855a";
    if (candidate == ST_SYMMETRIC)
        return "#8e5ea2";
    return candidate == ST_SYMMETRIC + tune->chosen ? "#2b6cb0" : pale[candidate % 4];
}

/* Kinds of kernel behind the curves. */
static const char *shade(int candidate)
{
    return candidate == ST_GENERAL ? "#fdf0e1" : candidate == ST_OWN ? "#e6f4ea" : "#e8f0fa";
}

struct plot {
    const struct st_tune *tune;
    int coll;
    bool bandwidth;
    double low, high; /* of the y axis */
    FILE *out;
};

static double x_of(const struct plot *plot, double size)
{
    int last = st_tune_sizes(plot->tune) - 1;

    return LEFT + (WIDE - LEFT - RIGHT) * (last ? size / last : 0.5);
}

static double y_of(const struct plot *plot, double value)
{
    double at = plot->bandwidth
                    ? (value - plot->low) / (plot->high - plot->low)
                    : (log10(value) - log10(plot->low)) / (log10(plot->high) - log10(plot->low));

    at = at < 0 ? 0 : at > 1 ? 1 : at;
    return TOP + (HIGH - TOP - BOTTOM) * (1 - at);
}

static double value_of(const struct plot *plot, int candidate, int size)
{
    const struct st_cell *cell = &plot->tune->cell[plot->coll][candidate][size];

    return plot->bandwidth ? st_tune_busbw(plot->tune, plot->coll, st_tune_bytes(plot->tune, size),
                                           cell->median)
                           : cell->median;
}

static void find_range(struct plot *plot)
{
    double low = 1e30, high = 0;

    for (int k = 0; k < st_tune_candidates(plot->tune); k++)
        for (int z = 0; z < st_tune_sizes(plot->tune); z++)
            if (plot->tune->cell[plot->coll][k][z].n) {
                double value = value_of(plot, k, z);

                low = value < low ? value : low;
                high = value > high ? value : high;
            }
    if (high <= 0)
        low = high = 1;
    if (plot->bandwidth && plot->tune->floor_gbps > high)
        high = plot->tune->floor_gbps;
    plot->low = plot->bandwidth ? 0 : pow(10, floor(log10(low)));
    plot->high = plot->bandwidth ? high * 1.06 : pow(10, ceil(log10(high * 1.01)));
}

static void draw_shades(const struct plot *plot)
{
    const int *policy = plot->tune->policy[plot->coll];
    int sizes = st_tune_sizes(plot->tune);

    for (int from = 0, to; from < sizes; from = to) {
        double x0, x1;

        for (to = from; to < sizes && policy[to] == policy[from]; to++)
            ;
        if (policy[from] < 0)
            continue;
        x0 = from ? x_of(plot, from - 0.5) : x_of(plot, 0);
        x1 = to < sizes ? x_of(plot, to - 0.5) : x_of(plot, sizes - 1);
        fprintf(plot->out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
                x0, TOP, x1 - x0, HIGH - TOP - BOTTOM, shade(policy[from]));
    }
}

static void draw_axes(const struct plot *plot)
{
    char text[ST_TEXT_SIZE];
    int sizes = st_tune_sizes(plot->tune), every = sizes > 12 ? 3 : sizes > 6 ? 2 : 1;
    double step = 1;

    for (int i = 0; plot->bandwidth && plot->high / step > 8; i++)
        step *= i % 3 == 1 ? 2.5 : 2; /* 1 2 5 10 20 50 */
    for (double v = plot->bandwidth ? step : plot->low; v <= plot->high * 1.0001;
         v = plot->bandwidth ? v + step : v * 10)
        fprintf(plot->out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#d3dae0\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, WIDE - RIGHT, y_of(plot, v), y_of(plot, v), LEFT - 7, y_of(plot, v) + 4, v);
    for (int z = 0; z < sizes; z += every)
        fprintf(plot->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                x_of(plot, z), HIGH - 18, st_text_size(st_tune_bytes(plot->tune, z), text));
}

static void draw_floor(const struct plot *plot)
{
    const struct st_tune *tune = plot->tune;

    if (tune->floor_gbps <= 0)
        return;
    fputs("<polyline fill=\"none\" stroke=\"#52606d\" stroke-dasharray=\"5 4\" points=\"",
          plot->out);
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        double us = st_tune_floor(tune, plot->coll, st_tune_bytes(tune, z));
        double value = plot->bandwidth ? tune->floor_gbps : us;

        if (value >= plot->low)
            fprintf(plot->out, "%.1f,%.1f ", x_of(plot, z), y_of(plot, value));
    }
    fputs("\"/>\n", plot->out);
}

static void draw_curve(const struct plot *plot, int candidate)
{
    const struct st_tune *tune = plot->tune;
    const struct st_cell *cell = tune->cell[plot->coll][candidate];
    bool strong = candidate <= ST_SYMMETRIC || candidate == ST_SYMMETRIC + tune->chosen;
    char name[48], size[ST_TEXT_SIZE];

    fprintf(plot->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"",
            colour(tune, candidate), strong ? "2.2" : "1.2");
    for (int z = 0; z < st_tune_sizes(tune); z++)
        if (cell[z].n)
            fprintf(plot->out, "%.1f,%.1f ", x_of(plot, z),
                    y_of(plot, value_of(plot, candidate, z)));
    fputs("\"/>\n", plot->out);
    for (int z = 0; z < st_tune_sizes(tune) && strong; z++)
        if (cell[z].n)
            fprintf(plot->out,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, %s: "
                    "%.2f ±%.2f us</title></circle>\n",
                    x_of(plot, z), y_of(plot, value_of(plot, candidate, z)),
                    colour(tune, candidate), st_tune_title(tune, candidate, name),
                    st_text_size(st_tune_bytes(tune, z), size), cell[z].median, cell[z].sigma);
}

static bool measured(const struct st_tune *tune, int coll, int candidate)
{
    for (int z = 0; z < st_tune_sizes(tune); z++)
        if (tune->cell[coll][candidate][z].n)
            return true;
    return false;
}

static void draw_legend(const struct plot *plot)
{
    const struct st_tune *tune = plot->tune;
    int y = TOP + 8, x = WIDE - RIGHT + 14;
    char name[48];

    for (int k = 0; k < st_tune_candidates(tune); k++) {
        if (!measured(tune, plot->coll, k))
            continue;
        fprintf(plot->out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" "
                "stroke-width=\"2.5\"/><text x=\"%d\" y=\"%d\"%s>%s</text>\n",
                x, x + 18, y, y, colour(tune, k), x + 24, y + 4,
                tune->chosen && k == ST_SYMMETRIC + tune->chosen ? " font-weight=\"600\"" : "",
                st_tune_title(tune, k, name));
        y += 20;
    }
    if (tune->floor_gbps > 0)
        fprintf(plot->out,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"#52606d\" "
                "stroke-dasharray=\"5 4\"/><text x=\"%d\" y=\"%d\">floor</text>\n",
                x, x + 18, y, y, x + 24, y + 4);
}

static void draw(const struct st_tune *tune, int coll, bool bandwidth, FILE *out)
{
    struct plot plot = {.tune = tune, .coll = coll, .bandwidth = bandwidth, .out = out};

    find_range(&plot);
    fprintf(out,
            "<h3>%s</h3>\n<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\" font-size=\"12\" "
            "font-family=\"system-ui,sans-serif\" fill=\"#3e4c59\">\n",
            bandwidth ? "Bus bandwidth, GB/s" : "Time of a call, microseconds", WIDE, HIGH, WIDE);
    draw_shades(&plot);
    draw_axes(&plot);
    draw_floor(&plot);
    for (int pass = 0; pass < 2; pass++) /* pale curves first */
        for (int k = 0; k < st_tune_candidates(tune); k++) {
            bool strong = k <= ST_SYMMETRIC || k == ST_SYMMETRIC + tune->chosen;

            if (measured(tune, coll, k) && strong == (pass == 1))
                draw_curve(&plot, k);
        }
    draw_legend(&plot);
    fputs("</svg>\n", out);
}

static void table(const struct st_tune *tune, int coll, FILE *out)
{
    char text[ST_TEXT_SIZE], name[48];

    fputs("<div class=\"wide\"><table><tr><th>size</th>", out);
    for (int k = 0; k < st_tune_candidates(tune); k++)
        if (measured(tune, coll, k))
            fprintf(out, "<th>%s</th>", st_tune_title(tune, k, name));
    fputs("<th>busbw, GB/s</th></tr>\n", out);
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        int policy = tune->policy[coll][z];

        fprintf(out, "<tr><td>%s</td>", st_text_size(st_tune_bytes(tune, z), text));
        for (int k = 0; k < st_tune_candidates(tune); k++) {
            const struct st_cell *cell = &tune->cell[coll][k][z];

            if (measured(tune, coll, k))
                fprintf(out, "<td%s>%.*f <small>±%.*f</small></td>",
                        k == policy ? " class=\"best\"" : "", cell->median < 100 ? 2 : 1,
                        cell->median, cell->median < 100 ? 2 : 1, cell->sigma);
        }
        fprintf(out, "<td>%.1f</td></tr>\n",
                policy < 0 ? 0
                           : st_tune_busbw(tune, coll, st_tune_bytes(tune, z),
                                           tune->cell[coll][policy][z].median));
    }
    fputs("</table></div>\n", out);
}

static void way_cell(const struct st_way *way, const char *kind, FILE *out)
{
    fprintf(out, "<td class=\"way%s\">%s</td><td%s>%.*f <small>±%.*f</small></td>", kind, way->name,
            *kind ? " class=\"ruled\"" : "", way->cell.median < 100 ? 2 : 1, way->cell.median,
            way->cell.median < 100 ? 2 : 1, way->cell.sigma);
}

/* What the library would run by itself, and what else was tried; what the rules ask for is marked.
 */
static void ways(const struct st_tune *tune, FILE *out)
{
    char text[ST_TEXT_SIZE];
    int most = 0;

    for (int z = 0; z < st_tune_sizes(tune); z++)
        most = tune->ways[z] > most ? tune->ways[z] : most;
    fputs(
        "<h3>symtuner's kernels, microseconds</h3>\n<p>Kernel/CTAs/threads. Marked: what the rules "
        "ask for instead of the library's own choice, because it is counted faster.</p>\n"
        "<div class=\"wide\"><table><tr><th>size</th><th colspan=\"2\">the library's choice</th>",
        out);
    if (most > 1)
        fprintf(out, "<th colspan=\"%d\">also tried</th>", 2 * (most - 1));
    fputs("</tr>\n", out);
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        fprintf(out, "<tr><td>%s</td>", st_text_size(st_tune_bytes(tune, z), text));
        for (int w = 0; w < tune->ways[z]; w++)
            way_cell(&tune->way[z][w], w && tune->say[z] == w ? " ruled" : "", out);
        fprintf(out, "%s</tr>\n",
                tune->say[z] == ST_SAY_NCCL ? "<td class=\"way ruled\">NCCL</td>" : "");
    }
    fputs("</table></div>\n", out);
}

static void page(const void *self, FILE *out)
{
    const struct st_tune *tune = self;
    char release[16];

    fprintf(out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta name=\"viewport\" content=\"width=device-width\"><title>symtuner tune, %d ranks"
            "</title><style>%s</style></head><body>\n<h1>symtuner tune: %d × ",
            tune->ranks, style, tune->ranks);
    st_xml_text(out, tune->machine.gpu[0] ? tune->machine.gpu : "unknown GPU");
    fprintf(out, "</h1>\n<p class=\"facts\">NCCL %s, %s, multicast %s · ",
            st_release_print(tune->nccl, release, sizeof release),
            tune->machine.nvlink > 0    ? "NVLink"
            : tune->machine.nvlink == 0 ? "PCIe"
                                        : "links unknown",
            tune->machine.multicast > 0    ? "on"
            : tune->machine.multicast == 0 ? "off"
                                           : "unknown");
    st_xml_text(out, tune->date);
    fprintf(out,
            " · %d rounds, each setting a process of its own, in turns · %s sum, CUDA graphs, "
            "slowest rank · <code>",
            tune->rounds, symtuner_dtype_name(tune->dtype));
    st_xml_text(out, tune->command);
    fputs("</code></p>\n", out);
    st_tune_headline(tune, out);
    st_tune_usage(tune, out);
    fprintf(out, "<p><b>CTAs of NCCL's symmetric kernels: %d%s.</b> ", tune->ctas[tune->chosen],
            tune->ctas[tune->chosen] ? "" : " (NCCL's own choice)");
    st_xml_text(out, tune->why);
    fputs(
        ".</p>\n<p>Colours: <b class=\"plugin\">blue</b> is what the plugin makes of NCCL's "
        "symmetric kernels, <b class=\"library\">green</b> are symtuner's own kernels, called "
        "through libsymtuner_ar.so, as the rules ask for them. Shaded: the fastest kind of kernel; "
        "it changes where a difference is more than two standard deviations and 2&#8239;%, and "
        "lasts or is more than 3&#8239;%. Floor: the bytes that a rank must send, at the rate of "
        "the copy engine between two GPUs.</p>\n",
        out);
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--) {
        if (!(tune->colls >> c & 1))
            continue;
        fprintf(out, "<h2>%s</h2>\n", symtuner_coll_name(c));
        draw(tune, c, false, out);
        draw(tune, c, true, out);
        table(tune, c, out);
        if (c == SYMTUNER_ALLREDUCE && tune->own && tune->search)
            ways(tune, out);
    }
    fputs("</body></html>\n", out);
}

bool st_tune_write_html(const struct st_tune *tune)
{
    return st_own_file_write("tune", tune->html, true, page, tune);
}
