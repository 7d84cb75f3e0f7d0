/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - writes the [kernels] rules of tune.
 *
 * At a size where libsymtuner_ar.so's own choice is as good as the best way, no rule is written:
 * the library's table covers more than the measured sizes, and later releases may have better
 * tables. A rule for a measured size covers 3/4 to 3/2 of this size, half way to the neighbouring
 * sizes.
 */
#include <string.h>

#include "cli/text.h"
#include "cli/tune/tune.h"
#include "nccl/names.h"
#include "symtuner_why.h"

bool st_tune_copies(const char *way)
{
    return strncmp(way, "one_", 4) == 0 || strncmp(way, "two_", 4) == 0;
}

static bool alike(const struct st_tune *tune, int a, int b)
{
    if (tune->say[a] <= 0 || tune->say[b] <= 0)
        return tune->say[a] == tune->say[b];
    return strcmp(tune->way[a][tune->say[a]].name, tune->way[b][tune->say[b]].name) == 0;
}

/* Write a comment with the time of the rule's choice and the time of the way that it replaces. */
static void comment(const struct st_tune *tune, int z, FILE *out)
{
    const struct st_cell *best = &tune->way[z][tune->pick[z]].cell, *table = &tune->way[z][0].cell;
    char size[ST_TEXT_SIZE];

    if (tune->say[z] == ST_SAY_NCCL) {
        best = &tune->cell[SYMTUNER_ALLREDUCE][ST_SYMMETRIC + tune->chosen][z];
        table = &tune->way[z][tune->pick[z]].cell;
    }
    fprintf(out, "# %-8s %.2f ±%.2f us; %s %.2f ±%.2f us\n",
            st_text_size(st_tune_bytes(tune, z), size), best->median, best->sigma,
            tune->way[z][tune->say[z] == ST_SAY_NCCL ? tune->pick[z] : 0].name, table->median,
            table->sigma);
}

/* Write a size into ${name} without a blank, such as "64KiB". Returns ${name}. */
static const char *name_of(uint64_t bytes, char name[ST_TEXT_SIZE])
{
    char *blank = strchr(st_text_size(bytes, name), ' ');

    if (blank)
        memmove(blank, blank + 1, strlen(blank));
    return name;
}

/* Write a rule for ${low} to ${high} bytes. Tune measures kernels that run alone. Above
 * ST_BESIDE_LIMIT bytes the library's table depends on what runs beside our kernel, so there the
 * rule has "when-beside = alone", unless its kernel is "nccl". */
static void write_span(const struct st_tune *tune, int size, uint64_t low, uint64_t high, FILE *out)
{
    char kernel[25] = "nccl", name[ST_TEXT_SIZE];
    int ctas = 0, threads = 0;
    bool alone;

    if (tune->say[size] > 0)
        sscanf(tune->way[size][tune->say[size]].name, "%24[a-z0-9_]/%d/%d", kernel, &ctas,
               &threads);
    alone = low > ST_BESIDE_LIMIT && strcmp(kernel, "nccl") != 0;
    fprintf(out,
            "[kernels %s%s]\nbytes      = %llu..%llu\nranks      = %d\ndtype      = %s\n"
            "op         = sum\n",
            name_of(st_tune_bytes(tune, size), name), alone ? "-alone" : "",
            (unsigned long long)low, (unsigned long long)high, tune->ranks,
            symtuner_dtype_name(tune->dtype));
    if (!st_tune_copies(kernel))
        fputs("registered = yes\n", out);
    if (alone)
        fputs("when-beside = alone\n", out);
    fprintf(out, "kernel     = %s\n", kernel);
    if (ctas)
        fprintf(out, "ctas       = %d\nthreads    = %d\n", ctas, threads);
}

static void write_rule(const struct st_tune *tune, int from, int to, FILE *out)
{
    uint64_t low = st_tune_bytes(tune, from) / 4 * 3 + 1, high = st_tune_bytes(tune, to) / 2 * 3;

    fputc('\n', out);
    for (int z = from; z <= to; z++)
        comment(tune, z, out);
    if (tune->say[from] > 0 && low <= ST_BESIDE_LIMIT && high > ST_BESIDE_LIMIT) {
        write_span(tune, from, low, ST_BESIDE_LIMIT, out);
        fputc('\n', out);
        low = ST_BESIDE_LIMIT + 1;
    }
    write_span(tune, from, low, high, out);
}

void st_tune_write_kernels(const struct st_tune *tune, FILE *out)
{
    int sizes = st_tune_sizes(tune), said = 0, measured = 0;

    for (int z = 0; z < sizes; z++) {
        said += tune->say[z] != ST_SAY_NOTHING;
        measured += tune->ways[z] > 0;
    }
    fprintf(out,
            "\n# %d of %d sizes: another kernel than the library's own choice is counted faster "
            "(2 sigma and\n# 2 %%). The library's choice stays for the other sizes, types and "
            "operators.\n",
            said, measured);
    for (int from = 0, to; from < sizes; from = to + 1) {
        for (to = from; to + 1 < sizes && alike(tune, from, to + 1); to++)
            ;
        if (tune->say[from] != ST_SAY_NOTHING)
            write_rule(tune, from, to, out);
    }
}
