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

static bool alike(const struct st_tune *tune, int coll, int a, int b)
{
    const int *say = tune->say[coll];

    if (say[a] <= 0 || say[b] <= 0)
        return say[a] == say[b];
    return strcmp(tune->way[coll][a][say[a]].name, tune->way[coll][b][say[b]].name) == 0;
}

/* Write a comment with the time of the rule's choice and the time of the way that it replaces. */
static void comment(const struct st_tune *tune, int coll, int z, FILE *out)
{
    const struct st_way *way = tune->way[coll][z];
    const int pick = tune->pick[coll][z];
    const bool nccl = tune->say[coll][z] == ST_SAY_NCCL;
    const struct st_cell *best =
        nccl ? &tune->cell[coll][ST_SYMMETRIC + tune->chosen][z] : &way[pick].cell;
    const struct st_way *other = &way[nccl ? pick : 0];
    char size[ST_TEXT_SIZE];

    fprintf(out, "# %-8s %.2f ±%.2f us; %s %.2f ±%.2f us\n",
            st_text_size(st_tune_bytes(tune, z), size), best->median, best->sigma, other->name,
            other->cell.median, other->cell.sigma);
}

/* Write a size into ${name} without a blank, such as "64KiB". Returns ${name}. */
static const char *name_of(uint64_t bytes, char name[ST_TEXT_SIZE])
{
    char *blank = strchr(st_text_size(bytes, name), ' ');

    if (blank)
        memmove(blank, blank + 1, strlen(blank));
    return name;
}

/* Write a rule for calls of ${coll} of ${low} to ${high} bytes. Tune measures kernels that run
 * alone. Above ST_BESIDE_LIMIT bytes the library's table depends on what runs beside our kernel, so
 * there the rule has "when-beside = alone", unless its kernel is "nccl". */
static void write_span(const struct st_tune *tune, int coll, int size, uint64_t low, uint64_t high,
                       FILE *out)
{
    const bool reduce = coll == SYMTUNER_ALLREDUCE;
    const char *word = symtuner_coll_name(coll);
    char kernel[25] = "nccl", name[ST_TEXT_SIZE];
    int ctas = 0, threads = 0;
    bool alone;

    if (tune->say[coll][size] > 0)
        sscanf(tune->way[coll][size][tune->say[coll][size]].name, "%24[a-z0-9_]/%d/%d", kernel,
               &ctas, &threads);
    alone = low > ST_BESIDE_LIMIT && strcmp(kernel, "nccl") != 0;
    fprintf(out, "[kernels %s%s%s%s]\n", reduce ? "" : word, reduce ? "" : "-",
            name_of(st_tune_bytes(tune, size), name), alone ? "-alone" : "");
    if (!reduce)
        fprintf(out, "coll       = %s\n", word);
    fprintf(out, "bytes      = %llu..%llu\nranks      = %d\ndtype      = %s\n%s",
            (unsigned long long)low, (unsigned long long)high, tune->ranks,
            symtuner_dtype_name(tune->dtype),
            coll == SYMTUNER_ALLGATHER ? "" : "op         = sum\n");
    if (!st_tune_copies(kernel))
        fputs("registered = yes\n", out);
    if (alone)
        fputs("when-beside = alone\n", out);
    fprintf(out, "kernel     = %s\n", kernel);
    if (ctas)
        fprintf(out, "ctas       = %d\nthreads    = %d\n", ctas, threads);
}

static void write_rule(const struct st_tune *tune, int coll, int from, int to, FILE *out)
{
    uint64_t low = st_tune_bytes(tune, from) / 4 * 3 + 1, high = st_tune_bytes(tune, to) / 2 * 3;

    fputc('\n', out);
    for (int z = from; z <= to; z++)
        comment(tune, coll, z, out);
    if (tune->say[coll][from] > 0 && low <= ST_BESIDE_LIMIT && high > ST_BESIDE_LIMIT) {
        write_span(tune, coll, from, low, ST_BESIDE_LIMIT, out);
        fputc('\n', out);
        low = ST_BESIDE_LIMIT + 1;
    }
    write_span(tune, coll, from, low, high, out);
}

static void write_coll(const struct st_tune *tune, int coll, FILE *out)
{
    const int sizes = st_tune_sizes(tune), *say = tune->say[coll];
    int said = 0, measured = 0;

    for (int z = 0; z < sizes; z++) {
        said += say[z] != ST_SAY_NOTHING;
        measured += tune->ways[coll][z] > 0;
    }
    if (coll == SYMTUNER_ALLREDUCE)
        fprintf(out,
                "\n# %d of %d sizes: another kernel than the library's own choice is counted "
                "faster (2 sigma and\n# 2 %%). The library's choice stays for the other sizes, "
                "types and operators.\n",
                said, measured);
    else
        fprintf(out,
                "\n# %s: at %d of %d sizes another kernel than the library's own choice is counted "
                "faster\n# (2 sigma and 2 %%). The library's choice stays for the other sizes and "
                "types.\n",
                symtuner_coll_name(coll), said, measured);
    for (int from = 0, to; from < sizes; from = to + 1) {
        for (to = from; to + 1 < sizes && alike(tune, coll, from, to + 1); to++)
            ;
        if (say[from] != ST_SAY_NOTHING)
            write_rule(tune, coll, from, to, out);
    }
}

void st_tune_write_kernels(const struct st_tune *tune, FILE *out)
{
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        if (tune->own >> c & 1)
            write_coll(tune, c, out);
}
