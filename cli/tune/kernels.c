/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - writes the rules of tune for libsymtuner_ar.so: the sections [kernels ...].
 *
 * At a size where the library's own choice is as good as the best way, no rule is written: the
 * library's table covers more than the measured sizes, and later releases may have better tables. A
 * rule for a measured size covers 3/4 to 3/2 of this size, half way to the neighbouring sizes.
 *
 * A rule may have the key when-beside, which says for which calls it is: for calls alone, or for
 * calls beside other kernels. After a run with --beside there may be rules for both at all sizes.
 */
#include <math.h>
#include <string.h>

#include "cli/text.h"
#include "cli/tune/tune.h"
#include "nccl/names.h"
#include "symtuner_why.h"

bool st_tune_copies(const char *way)
{
    return strncmp(way, "one_", 4) == 0 || strncmp(way, "two_", 4) == 0;
}

/* Return what the rules say at size number ${z}: a way such as "one_ll8/16/128", or "nccl", or NULL
 * if they say nothing. */
static const char *said(const struct st_tune *tune, int coll, int z, bool beside)
{
    const int say = beside ? tune->by.say[coll][z] : tune->say[coll][z];

    return say == ST_SAY_NOTHING ? NULL
           : say == ST_SAY_NCCL  ? "nccl"
                                 : (beside ? tune->by.way : tune->way)[coll][z][say].name;
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Write a comment with the time of the rule's choice, and with the time of what it replaces: the
 * library's own choice, or if the rule says "nccl", the best way. */
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

/* Write a rule for calls of ${coll} of ${low} to ${high} bytes. ${way} is a way or "nccl". The rule
 * gets its name from size number ${size}. ${when} is the value of when-beside; with NULL the rule
 * has no when-beside, and is for every call. */
static void write_span(const struct st_tune *tune, int coll, int size, uint64_t low, uint64_t high,
                       const char *way, const char *when, FILE *out)
{
    const bool reduce = coll == SYMTUNER_ALLREDUCE;
    const char *word = symtuner_coll_name(coll);
    char kernel[25] = "nccl", name[ST_TEXT_SIZE];
    int ctas = 0, threads = 0;

    sscanf(way, "%24[a-z0-9_]/%d/%d", kernel, &ctas, &threads);
    fprintf(out, "[kernels %s%s%s%s%.*s]\n", reduce ? "" : word, reduce ? "" : "-",
            name_of(st_tune_bytes(tune, size), name), when ? "-" : "",
            when ? (int)strcspn(when, ",") : 0, when ? when : "");
    if (!reduce)
        fprintf(out, "coll       = %s\n", word);
    fprintf(out, "bytes      = %llu..%llu\nranks      = %d\ndtype      = %s\n%s",
            (unsigned long long)low, (unsigned long long)high, tune->ranks,
            symtuner_dtype_name(tune->dtype),
            coll == SYMTUNER_ALLGATHER ? "" : "op         = sum\n");
    if (!st_tune_copies(kernel))
        fputs("registered = yes\n", out);
    if (when)
        fprintf(out, "when-beside = %s\n", when);
    fprintf(out, "kernel     = %s\n", kernel);
    if (ctas)
        fprintf(out, "ctas       = %d\nthreads    = %d\n", ctas, threads);
}

/* Write the rule for sizes ${from} to ${to} after a run that measured only calls alone. Above
 * ST_BESIDE_LIMIT bytes the library's table depends on what runs beside our kernel. So there the
 * rule has "when-beside = alone", unless its kernel is "nccl". */
static void write_rule(const struct st_tune *tune, int coll, int from, int to, uint64_t low,
                       uint64_t high, FILE *out)
{
    const char *way = said(tune, coll, from, false);

    fputc('\n', out);
    for (int z = from; z <= to; z++)
        comment(tune, coll, z, out);
    if (strncmp(way, "nccl", 4) == 0) {
        write_span(tune, coll, from, low, high, way, NULL, out);
        return;
    }
    if (low <= ST_BESIDE_LIMIT) {
        write_span(tune, coll, from, low, high < ST_BESIDE_LIMIT ? high : ST_BESIDE_LIMIT, way,
                   NULL, out);
        low = ST_BESIDE_LIMIT + 1;
        if (low < high)
            fputc('\n', out);
    }
    if (low < high)
        write_span(tune, coll, from, low, high, way, "alone", out);
}

/* Return the value of when-beside in the rule for calls alone at size ${z}. It says for which calls
 * the rule is:
 *   NULL              every call, if the rule's choice is also the best choice beside GEMMs
 *   "alone"           only calls alone, if the rule's choice is slower beside GEMMs
 *   NULL              every call, if no rule is for calls beside GEMMs and the size is below
 *                     ST_BESIDE_LIMIT: there the library's table does not depend on what runs
 *                     beside a call
 *   "alone, unknown"  in all other cases: calls alone, and calls of which it is not known what runs
 *                     beside them */
static const char *when_of(const struct st_tune *tune, int coll, int z)
{
    const char *beside = said(tune, coll, z, true);

    if (same(said(tune, coll, z, false), beside))
        return NULL;
    if (!tune->by.holds[coll][z])
        return "alone";
    return !beside && st_tune_bytes(tune, z) < ST_BESIDE_LIMIT ? NULL : "alone, unknown";
}

/* Write a comment about calls beside GEMMs: how much time the rule's choice and the alternatives
 * add to the GEMMs. */
static void comment_beside(const struct st_tune *tune, int coll, int z, bool beside, FILE *out)
{
    const struct st_tune_beside *by = &tune->by;
    const struct st_cell *cell = st_tune_said_beside(tune, coll, z);
    const struct st_cell *own = &by->cell[coll][ST_SYMMETRIC][z];
    char size[ST_TEXT_SIZE];

    st_text_size(st_tune_bytes(tune, z), size);
    if (beside)
        fprintf(out, "# %-8s adds %.2f ±%.2f us to GEMMs; %s %.2f ±%.2f us; NCCL %.2f ±%.2f us\n",
                size, cell->median, cell->sigma, by->way[coll][z][0].name,
                by->way[coll][z][0].cell.median, by->way[coll][z][0].cell.sigma, own->median,
                own->sigma);
    else if (!by->holds[coll][z])
        fprintf(
            out,
            "# %-8s not for calls beside GEMMs: there it is more than 3 %% slower than NCCL's or "
            "the\n# library's own choice, or was not measured\n",
            size);
}

/* Write the rules for calls alone (${beside} is false) or beside GEMMs, after a run that measured
 * both. */
static void write_both(const struct st_tune *tune, int coll, bool beside, FILE *out)
{
    const int sizes = st_tune_sizes(tune);

    for (int from = 0, to; from < sizes; from = to + 1) {
        const char *way = said(tune, coll, from, beside);
        const char *when = beside ? "compute" : when_of(tune, coll, from);

        to = from;
        if (!way || (beside && same(way, said(tune, coll, from, false))))
            /* Nothing to write: there is no rule, or the rule for calls alone is for these calls,
             * too. */
            continue;
        while (to + 1 < sizes && same(way, said(tune, coll, to + 1, beside)) &&
               (beside ? !same(way, said(tune, coll, to + 1, false))
                       : same(when, when_of(tune, coll, to + 1))))
            to++;
        fputc('\n', out);
        for (int z = from; z <= to; z++) {
            if (!beside)
                comment(tune, coll, z, out);
            comment_beside(tune, coll, z, beside, out);
        }
        write_span(tune, coll, from, st_tune_bytes(tune, from) / 4 * 3 + 1,
                   st_tune_bytes(tune, to) / 2 * 3, way, when, out);
    }
}

static void count_beside(const struct st_tune *tune, int coll, FILE *out)
{
    int ruled = 0, measured = 0;
    double noise = 0;

    for (int z = 0; z < st_tune_sizes(tune); z++) {
        ruled += tune->by.say[coll][z] != ST_SAY_NOTHING;
        measured += tune->by.ways[coll][z] > 0;
        noise = fmax(noise, st_tune_noise(tune, coll, z));
    }
    fprintf(out,
            "# Beside GEMMs: at %d of %d sizes another kernel than the library's own choice adds "
            "less to them.\n# There NCCL's own choice and the same measured again differ by up to "
            "%.2f us.\n",
            ruled, measured, noise);
}

static void write_coll(const struct st_tune *tune, int coll, FILE *out)
{
    const int sizes = st_tune_sizes(tune), *say = tune->say[coll];
    int ruled = 0, measured = 0;

    for (int z = 0; z < sizes; z++) {
        ruled += say[z] != ST_SAY_NOTHING;
        measured += tune->ways[coll][z] > 0;
    }
    if (coll == SYMTUNER_ALLREDUCE)
        fprintf(out,
                "\n# %d of %d sizes: another kernel than the library's own choice is counted "
                "faster (2 sigma and\n# 2 %%). The library's choice stays for the other sizes, "
                "types and operators.\n",
                ruled, measured);
    else
        fprintf(out,
                "\n# %s: at %d of %d sizes another kernel than the library's own choice is counted "
                "faster\n# (2 sigma and 2 %%). The library's choice stays for the other sizes and "
                "types.\n",
                symtuner_coll_name(coll), ruled, measured);
    if (tune->beside) {
        count_beside(tune, coll, out);
        write_both(tune, coll, false, out);
        write_both(tune, coll, true, out);
        return;
    }
    for (int from = 0, to; from < sizes; from = to + 1) {
        const char *way = said(tune, coll, from, false);

        for (to = from; to + 1 < sizes && same(way, said(tune, coll, to + 1, false)); to++)
            ;
        if (way)
            write_rule(tune, coll, from, to, st_tune_bytes(tune, from) / 4 * 3 + 1,
                       st_tune_bytes(tune, to) / 2 * 3, out);
    }
}

void st_tune_write_kernels(const struct st_tune *tune, FILE *out)
{
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        if (tune->own >> c & 1)
            write_coll(tune, c, out);
}
