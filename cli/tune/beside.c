/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beside.c - what tune and bench do about calls beside GEMMs: work out how much to measure, choose
 * what the rules say for such calls, and print the results.
 *
 * Ways (kernels with their numbers of CTAs and threads, tune.h) are compared by what a call adds to
 * GEMMs, in microseconds (cli/gpu/beside.c). A difference counts only if it is larger than each of
 * these:
 * - two standard deviations
 * - a share of the larger figure. The share is 2 % when ways are compared with each other, and 3 %
 *   when the choice for calls alone is checked beside GEMMs
 * - the difference between NCCL's own choice and the same choice measured again in other processes
 *   (A/A)
 * - 0.5 % of the time of the GEMMs, divided by the number of calls. This limit is for short calls,
 *   whose figures are small differences of long times
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "cli/tune/tune.h"

/* GEMMs run for ${least_us} or, if calls are long, for six times as long as a call takes alone, but
 * at most for ${most_us}. Beside them we run as many calls as take a third of this time alone. */
static const double least_us = 12e3, most_us = 60e3;
enum { MOST_CALLS = 200 };

/* What st_tune_beside_seconds assumes. A measuring process takes ${start_s} seconds to start. For
 * each mode or way the GEMMs run REPEATS times (cli/gpu/beside.c). A search tries SEARCHED ways,
 * and measures WAYS of them. */
static const double start_s = 2;
enum { REPEATS = 3, SEARCHED = 50, WAYS = 8 };

/* The shares that the first comment of this file names: ${each} when ways are compared at one size,
 * ${holding} for a choice for calls alone, and ${of_gemms} of the time of the GEMMs. */
static const double each = 0.02, holding = 0.03, of_gemms = 0.005;

/* Set ${gemms_us} to how long the GEMMs are to run at a size. Returns how many calls run beside
 * them. */
static int amounts(const struct st_tune *tune, int coll, int size, double *gemms_us)
{
    double us = tune->cell[coll][ST_SYMMETRIC][size].us[0], calls;

    us = us > 0 ? us : 100;
    *gemms_us = 6 * us > least_us ? 6 * us : least_us;
    *gemms_us = *gemms_us < most_us ? *gemms_us : most_us;
    calls = *gemms_us / 3 / us;
    return calls < 1 ? 1 : calls > MOST_CALLS ? MOST_CALLS : (int)calls;
}

char *st_tune_amounts(const struct st_tune *tune, int coll)
{
    size_t room = ST_TUNE_SIZES * 48, at = 0;
    char *text = calloc(1, room);

    for (int z = 0; text && z < st_tune_sizes(tune); z++) {
        double gemms_us;
        int calls = amounts(tune, coll, z, &gemms_us);

        at = st_text_add(text, room, at, "%s%llu:%.0f:%d", at ? "," : "",
                         (unsigned long long)st_tune_bytes(tune, z), gemms_us, calls);
    }
    return text;
}

int st_tune_beside_seconds(const struct st_tune *tune)
{
    /* a run of GEMMs with calls takes about a fifth longer than the GEMMs alone */
    const double run_s = 1.2 * least_us / 1e6;
    double seconds = 0;

    for (int r = 0; r < tune->rounds; r++)
        for (int c = 0; c < SYMTUNER_COLLS; c++)
            for (int s = ST_TUNE_BESIDE; s < ST_TUNE_SETTINGS; s++) {
                const char *modes = st_tune_modes(tune, c, s);
                int runs = REPEATS * (1 + (*modes == 'k' ? WAYS : (int)strlen(modes)));

                if (!st_tune_has(tune, c, s) || tune->done[r][c][s])
                    continue;
                runs += *modes == 'k' && !tune->by.ways[c][0] && r == 0 ? SEARCHED : 0;
                seconds += start_s + runs * run_s * st_tune_sizes(tune);
            }
    return (int)ceil(seconds);
}

double st_tune_noise(const struct st_tune *tune, int coll, int size)
{
    const struct st_cell *own = &tune->by.cell[coll][ST_SYMMETRIC][size];
    const struct st_cell *again = &tune->by.again[coll][size];

    return own->n && again->n ? fabs(own->median - again->median) : 0;
}

/* Does ${a} add clearly less to GEMMs than ${b}? */
static bool faster(const struct st_tune *tune, int coll, int size, const struct st_cell *a,
                   const struct st_cell *b, double share)
{
    double gemms_us, least;
    int calls = amounts(tune, coll, size, &gemms_us);

    least = of_gemms * gemms_us / calls;
    return st_tune_faster(a, b, share, fmax(least, st_tune_noise(tune, coll, size)));
}

bool st_tune_ctas_hold(const struct st_tune *tune, int setting, char *why, size_t size)
{
    double worst = 0;
    char bytes[ST_TEXT_SIZE];

    for (int c = 0; c < SYMTUNER_COLLS && tune->beside; c++)
        for (int z = 0; z < st_tune_sizes(tune); z++) {
            const struct st_cell *own = &tune->by.cell[c][ST_SYMMETRIC][z];
            const struct st_cell *mine = &tune->by.cell[c][ST_SYMMETRIC + setting][z];
            /* the ratio has no meaning where NCCL's own choice adds nothing */
            double more = own->median > 0 ? mine->median / own->median : HUGE_VAL;

            if (!faster(tune, c, z, own, mine, holding) || more <= worst)
                continue;
            worst = more;
            snprintf(
                why, size,
                "%d CTAs are faster alone, but the rules do not set them: beside GEMMs one %s of "
                "%s adds %.2f us, with NCCL's own count %.2f us",
                tune->ctas[setting], symtuner_coll_name(c),
                st_text_size(st_tune_bytes(tune, z), bytes), mine->median, own->median);
        }
    return worst == 0;
}

static const struct st_cell *way_cell(const struct st_tune *tune, int coll, int size,
                                      const char *name)
{
    for (int w = 0; w < tune->by.ways[coll][size]; w++)
        if (strcmp(tune->by.way[coll][size][w].name, name) == 0)
            return &tune->by.way[coll][size][w].cell;
    return NULL;
}

/* Is the rules' choice for calls alone good beside GEMMs, too? It is good if, beside GEMMs, it is
 * at most 3 % slower than NCCL's own choice and than the library's own choice. */
static bool holds(const struct st_tune *tune, int coll, int size)
{
    const int say = tune->say[coll][size];
    const struct st_cell *own = &tune->by.cell[coll][ST_SYMMETRIC][size];
    const struct st_cell *cell = say == ST_SAY_NCCL
                                     ? &tune->by.cell[coll][ST_SYMMETRIC + tune->chosen][size]
                                     : way_cell(tune, coll, size, tune->way[coll][size][say].name);

    return cell && cell->n && own->n && !faster(tune, coll, size, own, cell, holding) &&
           !faster(tune, coll, size, &tune->by.way[coll][size][0].cell, cell, holding);
}

/* Choose what the rules say for calls beside GEMMs at one size, by the same steps as choose_ways
 * and choose_words in choose.c. */
static void choose_at(struct st_tune *tune, int coll, int size)
{
    struct st_tune_beside *by = &tune->by;
    const struct st_way *ways = by->way[coll][size];
    const int n = by->ways[coll][size];
    int pick = 0;

    for (int w = 1; w < n; w++)
        if (faster(tune, coll, size, &ways[w].cell, &ways[0].cell, each) &&
            (pick == 0 || ways[w].cell.median < ways[pick].cell.median))
            pick = w;
    by->pick[coll][size] = pick;
    by->say[coll][size] = ST_SAY_NOTHING;
    by->holds[coll][size] = true;
    if (!n)
        return;
    by->cell[coll][ST_OWN][size] = ways[pick].cell;
    by->say[coll][size] = pick;
    if (strncmp(ways[pick].name, "nccl/", 5) != 0 &&
        faster(tune, coll, size, &by->cell[coll][ST_SYMMETRIC + tune->chosen][size],
               &ways[pick].cell, each))
        by->say[coll][size] = ST_SAY_NCCL;
    if (tune->say[coll][size] != ST_SAY_NOTHING)
        by->holds[coll][size] = holds(tune, coll, size);
}

void st_tune_choose_beside(struct st_tune *tune)
{
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune); z++)
            choose_at(tune, c, z);
}

const struct st_cell *st_tune_said_beside(const struct st_tune *tune, int coll, int size)
{
    const int say = tune->by.say[coll][size];

    return say == ST_SAY_NCCL ? &tune->by.cell[coll][ST_SYMMETRIC + tune->chosen][size]
                              : &tune->by.way[coll][size][say].cell;
}

static void print_coll(const struct st_tune *tune, int coll, FILE *out)
{
    const struct st_tune_beside *by = &tune->by;
    const int shown[4] = {ST_GENERAL, ST_SYMMETRIC, ST_SYMMETRIC + tune->chosen, ST_OWN};
    char text[ST_TEXT_SIZE], name[48];

    fprintf(out, "\n%-14s", symtuner_coll_name(coll));
    for (int i = 0; i < 4; i++)
        st_tune_print_right(out, i == 2 && !tune->chosen ? "" : st_tune_name(tune, shown[i], name),
                            i < 2 ? 14 + i : 14);
    st_tune_print_right(out, "A/A", 8);
    fputs(by->ways[coll][0] ? "  symtuner's kernel\n" : "\n", out);
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        char noise[24];

        fprintf(out, "%-14s", st_text_size(st_tune_bytes(tune, z), text));
        for (int i = 0; i < 4; i++)
            st_tune_print_cell(out, i == 2 && !tune->chosen ? NULL : &by->cell[coll][shown[i]][z],
                               i < 2 ? 14 + i : 14);
        snprintf(noise, sizeof noise, "%.2f", st_tune_noise(tune, coll, z));
        st_tune_print_right(out, noise, 8);
        if (by->ways[coll][z])
            fprintf(out, "  %s", by->way[coll][z][by->pick[coll][z]].name);
        fputc('\n', out);
    }
}

void st_tune_print_beside(const struct st_tune *tune, FILE *out)
{
    if (!tune->beside)
        return;
    fputc('\n', out);
    st_text_wrap(out, 0,
                 "Beside GEMMs: microseconds that a call adds to them; A/A: how far NCCL's own "
                 "choice and the same measured again are apart");
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        if (tune->colls >> c & 1)
            print_coll(tune, c, out);
    if (tune->by.why[0]) {
        fputc('\n', out);
        st_text_wrap(out, 0, tune->by.why);
    }
}

void st_tune_json_beside(struct st_json *json, const struct st_tune *tune)
{
    const struct st_tune_beside *by = &tune->by;
    char name[48];

    if (!tune->beside)
        return;
    st_json_open(json, "beside", "\n {");
    st_json_text(json, "why", by->why[0] ? by->why : NULL);
    st_json_open(json, "cells", "\n [");
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune) && tune->colls >> c & 1; z++) {
            const char *coll = symtuner_coll_name(c);
            const uint64_t bytes = st_tune_bytes(tune, z);

            st_tune_json_cell(json, coll, bytes, "gemms", &by->gemms[c][z]);
            st_json_close(json);
            for (int k = 0; k < st_tune_candidates(tune); k++)
                if (by->cell[c][k][z].n) {
                    st_tune_json_cell(json, coll, bytes, st_tune_name(tune, k, name),
                                      &by->cell[c][k][z]);
                    st_json_close(json);
                }
            st_tune_json_cell(json, coll, bytes, "A/A", &by->again[c][z]);
            st_json_close(json);
            for (int w = 0; w < by->ways[c][z]; w++) {
                st_tune_json_cell(json, coll, bytes, by->way[c][z][w].name, &by->way[c][z][w].cell);
                st_json_bool(json, "library", w == 0);
                st_json_bool(json, "rules", by->say[c][z] == w && w);
                st_json_close(json);
            }
        }
    st_json_close(json);
    st_json_close(json);
}
