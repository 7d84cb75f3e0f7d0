/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - writes the result of tune: the rules, a table for the terminal, JSON. */
#include <string.h>

#include "cli/own_file.h"
#include "cli/text.h"
#include "cli/tune/tune.h"
#include "nccl/release.h"
#include "symtuner_why.h"

/* Return the largest standard deviation of any candidate at any size, in per cent of the median. */
static double worst_spread(const struct st_tune *tune)
{
    double worst = 0;

    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int k = 0; k < st_tune_candidates(tune); k++)
            for (int z = 0; z < st_tune_sizes(tune); z++) {
                const struct st_cell *cell = &tune->cell[c][k][z];

                if (cell->n && 100 * cell->sigma / cell->median > worst)
                    worst = 100 * cell->sigma / cell->median;
            }
    return worst;
}

/* Print a comment line for each range of sizes at which the same kind of kernel is the fastest. */
static void write_policy(const struct st_tune *tune, int coll, FILE *out)
{
    int sizes = st_tune_sizes(tune);

    for (int from = 0, to; from < sizes; from = to) {
        char low[ST_TEXT_SIZE], high[ST_TEXT_SIZE], name[48];
        int policy = tune->policy[coll][from];

        for (to = from; to < sizes && tune->policy[coll][to] == policy; to++)
            ;
        fprintf(out, "#   %-13s %8s .. %-8s  %s\n", symtuner_coll_name(coll),
                st_text_size(st_tune_bytes(tune, from), low),
                st_text_size(st_tune_bytes(tune, to - 1), high),
                policy < 0 ? "nothing was measured" : st_tune_name(tune, policy, name));
    }
}

static void rules_text(const void *self, FILE *out)
{
    const struct st_tune *tune = self;
    char release[16];

    fputs("# symtuner rules 1\n# ", out);
    st_text_plain(out, tune->command); /* a newline in a file name must not end the comment */
    fprintf(out,
            "\n# %s, %d ranks, %s, %d rounds, largest standard deviation %.1f %%\n# raw data: ",
            tune->date, tune->ranks, symtuner_dtype_name(tune->dtype), tune->rounds,
            worst_spread(tune));
    st_text_plain(out, st_text_base(tune->raw));
    fputs("\n#\n# Fastest kind of kernel by size, for registered buffers (2 sigma and 2 %):\n",
          out);
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        if (tune->colls >> c & 1)
            write_policy(tune, c, out);
    fprintf(
        out,
        "# symtuner: libsymtuner_ar.so, kernels as below. docs/reference/sums.md says which of "
        "its\n# sums have equal bits and how they are rounded. NCCL's kernels add in other orders: "
        "another\n# kind of kernel may change the last bits of a sum.\n"
        "# Not measured: ranks on several boxes; network-pieces (docs/nodes.md) is for these.\n\n"
        "[provenance]\nnccl      = %s\n",
        st_release_print(tune->nccl, release, sizeof release));
    if (tune->machine.gpu[0])
        fprintf(out, "gpu       = %s\n", tune->machine.gpu);
    if (tune->machine.nvlink >= 0)
        fprintf(out, "links     = %s\n", tune->machine.nvlink ? "nvlink" : "pcie");
    if (tune->machine.multicast >= 0)
        fprintf(out, "multicast = %s\n", tune->machine.multicast ? "yes" : "no");
    fprintf(out, "made-by   = symtuner tune %s\n", tune->date);
    if (tune->by.why[0]) {
        const int head = (int)strcspn(tune->by.why, ":") + 1;

        fprintf(out, "\n# %.*s\n#%s", head, tune->by.why, tune->by.why + head);
    }
    if (tune->ctas[tune->chosen])
        fprintf(out, "\n# %s\n%s[process]\nsym-ctas  = %d\n", tune->why,
                tune->beside ? "# Beside GEMMs it is at no size counted slower, either.\n" : "",
                tune->ctas[tune->chosen]);
    else
        fprintf(out, "\n# no [process] section: %s\n", tune->why);
    if (tune->own && tune->search)
        st_tune_write_kernels(tune, out);
}

bool st_tune_write_rules(const struct st_tune *tune)
{
    return st_own_file_write("tune", tune->out, tune->force, false, rules_text, tune);
}

static void cell_text(const struct st_cell *cell, char *text, size_t size)
{
    if (!cell->n)
        snprintf(text, size, "-");
    else
        snprintf(text, size, "%.*f ±%.*f", cell->median < 100 ? 2 : 1, cell->median,
                 cell->median < 100 ? 2 : 1, cell->sigma);
}

/* Count characters, not bytes: "±" has two bytes but takes one column. */
void st_tune_print_right(FILE *out, const char *text, int width)
{
    int length = 0;

    for (const char *c = text; *c; c++)
        length += ((unsigned char)*c & 0xc0) != 0x80;
    fprintf(out, "%*s%s", width > length ? width - length : 1, "", text);
}

void st_tune_print_cell(FILE *out, const struct st_cell *cell, int width)
{
    char text[32] = "";

    if (cell)
        cell_text(cell, text, sizeof text);
    st_tune_print_right(out, text, width);
}

static void print_coll(const struct st_tune *tune, int coll, FILE *out)
{
    int shown[4] = {ST_GENERAL, ST_SYMMETRIC, ST_SYMMETRIC + tune->chosen, ST_OWN};
    char text[ST_TEXT_SIZE], name[48];

    fprintf(out, "\n%-14s", symtuner_coll_name(coll));
    for (int i = 0; i < 4; i++)
        st_tune_print_right(out, i == 2 && !tune->chosen ? "" : st_tune_name(tune, shown[i], name),
                            i < 2 ? 14 + i : 14);
    fprintf(out, "  %-21s %5s\n", "fastest", "busbw");
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        int policy = tune->policy[coll][z];
        uint64_t bytes = st_tune_bytes(tune, z);

        fprintf(out, "%-14s", st_text_size(bytes, text));
        for (int i = 0; i < 4; i++) {
            bool is_shown = i != 2 || tune->chosen;

            st_tune_print_cell(out, is_shown ? &tune->cell[coll][shown[i]][z] : NULL,
                               i < 2 ? 14 + i : 14);
        }
        if (policy >= 0)
            fprintf(out, "  %-21s %5.1f\n",
                    policy == ST_OWN && tune->ways[coll][z]
                        ? tune->way[coll][z][tune->pick[coll][z]].name
                        : st_tune_name(tune, policy, name),
                    st_tune_busbw(tune, coll, bytes, tune->cell[coll][policy][z].median));
        else
            fputc('\n', out);
    }
}

void st_tune_print(const struct st_tune *tune, FILE *out)
{
    char release[16], line[300];

    snprintf(line, sizeof line,
             "%d ranks on %s, NCCL %s, %s; %s, microseconds, median of %d rounds ± "
             "standard deviation",
             tune->ranks, tune->machine.gpu[0] ? tune->machine.gpu : "an unknown GPU",
             st_release_print(tune->nccl, release, sizeof release), tune->date,
             symtuner_dtype_name(tune->dtype), tune->rounds);
    st_text_wrap(out, 0, line);
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        if (tune->colls >> c & 1)
            print_coll(tune, c, out);
    st_tune_print_beside(tune, out);
    if (tune->ctas[tune->chosen] != ST_TUNE_PLUGIN) {
        fprintf(out, "\nCTAs of symmetric kernels: %d%s\n", tune->ctas[tune->chosen],
                tune->ctas[tune->chosen] ? "" : " (NCCL's own choice)");
        st_text_wrap(out, 0, tune->why);
    }
    if (tune->ledger_file)
        st_tune_print_gain(tune, out);
}

void st_tune_json_cell(struct st_json *json, const char *coll, uint64_t bytes,
                       const char *candidate, const struct st_cell *cell)
{
    st_json_open(json, NULL, "\n  {");
    st_json_text(json, "coll", coll);
    st_json_int(json, "bytes", (int64_t)bytes);
    st_json_text(json, "candidate", candidate);
    st_json_format(json, "us", "%.6f", cell->median);
    st_json_format(json, "sigma", "%.6f", cell->sigma);
    st_json_int(json, "rounds", cell->n);
}

void st_tune_json(struct st_json *json, const char *key, const struct st_tune *tune, bool files)
{
    char release[16], name[48];

    st_json_open(json, key, "{");
    st_json_int(json, "ranks", tune->ranks);
    st_json_int(json, "rounds", tune->rounds);
    st_json_text(json, "nccl", st_release_print(tune->nccl, release, sizeof release));
    st_json_format(json, "floor_gbps", "%.2f", tune->floor_gbps);
    if (tune->ctas[tune->chosen] != ST_TUNE_PLUGIN) {
        st_json_int(json, "sym_ctas", tune->ctas[tune->chosen]);
        st_json_text(json, "why", tune->why);
    }
    st_json_text(json, "gpu", tune->machine.gpu[0] ? tune->machine.gpu : NULL);
    st_json_text(json, "date", tune->date);
    if (files) {
        st_json_text(json, "rules", tune->out[0] ? tune->out : NULL);
        st_json_text(json, "raw", tune->raw[0] ? tune->raw : NULL);
    }
    if (tune->ledger_file)
        st_tune_json_gain(json, tune);
    st_json_open(json, "cells", "\n [");
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune); z++)
            for (int k = 0; k < st_tune_candidates(tune); k++) {
                if (!tune->cell[c][k][z].n)
                    continue;
                st_tune_json_cell(json, symtuner_coll_name(c), st_tune_bytes(tune, z),
                                  st_tune_name(tune, k, name), &tune->cell[c][k][z]);
                st_json_bool(json, "policy", tune->policy[c][z] == k);
                st_json_close(json);
            }
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune); z++)
            for (int w = 0; w < tune->ways[c][z]; w++) {
                st_tune_json_cell(json, symtuner_coll_name(c), st_tune_bytes(tune, z),
                                  tune->way[c][z][w].name, &tune->way[c][z][w].cell);
                st_json_bool(json, "library", w == 0);
                st_json_bool(json, "rules", tune->say[c][z] == w && w);
                st_json_close(json);
            }
    st_json_close(json);
    st_tune_json_beside(json, tune);
    st_json_close(json);
}

void st_tune_print_json(const struct st_tune *tune, FILE *out)
{
    struct st_json json = {.out = out};

    st_tune_json(&json, NULL, tune, true);
}
