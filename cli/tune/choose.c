/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose.c - chooses a CTA count and kernels from the measurements.
 *
 * A candidate is a kind of kernel, such as NCCL's symmetric kernels with 16 CTAs. One candidate is
 * faster than another if the difference of their medians is more than two standard deviations of
 * that difference, and more than a share of the time. The share depends on what is chosen.
 *
 * The share is 5 % for NCCL's CTA count. NCCL reads the count once per process, so one count serves
 * all sizes. We leave out each count that is slower than NCCL's own choice at some size. Of the
 * other counts we choose the one with the smallest geometric mean of the times.
 *
 * The share is 2 % for symtuner's kernels. Rules choose kernels size by size, and the chosen kernel
 * is to be within 3 % of the best. A way is a kernel with numbers of CTAs and threads. The way that
 * libsymtuner_ar.so itself chooses stays unless another way is faster.
 *
 * The result also names the fastest kind of kernel at each size. From one size to the next we
 * change the kind only if the new kind is 3 % faster. If the new kind is also not slower at the
 * size after that, 2 % are enough.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tune/tune.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void summarise(struct st_cell *cell, int rounds)
{
    double sorted[ST_TUNE_ROUNDS], mean = 0, square = 0;

    cell->n = 0;
    for (int r = 0; r < rounds; r++)
        if (cell->us[r] != 0)
            sorted[cell->n++] = cell->us[r];
    cell->median = cell->sigma = 0;
    if (cell->n == 0)
        return;
    qsort(sorted, (size_t)cell->n, sizeof *sorted, by_value);
    cell->median = (sorted[(cell->n - 1) / 2] + sorted[cell->n / 2]) / 2;
    for (int i = 0; i < cell->n; i++)
        mean += sorted[i] / cell->n;
    for (int i = 0; i < cell->n; i++)
        square += (sorted[i] - mean) * (sorted[i] - mean);
    cell->sigma = cell->n > 1 ? sqrt(square / (cell->n - 1)) : 0;
}

void st_tune_summarise(struct st_tune *tune)
{
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < ST_TUNE_SIZES; z++) {
            for (int k = 0; k < ST_TUNE_CANDIDATES; k++)
                summarise(&tune->cell[c][k][z], tune->rounds);
            for (int w = 0; w < tune->ways[c][z]; w++)
                summarise(&tune->way[c][z][w].cell, tune->rounds);
            for (int i = 0; i < ST_TUNE_RULES; i++)
                summarise(&tune->ruled[i][c][z].cell, tune->rounds);
            for (int k = 0; k < ST_TUNE_CANDIDATES; k++)
                summarise(&tune->by.cell[c][k][z], tune->rounds);
            for (int w = 0; w < tune->by.ways[c][z]; w++)
                summarise(&tune->by.way[c][z][w].cell, tune->rounds);
            summarise(&tune->by.again[c][z], tune->rounds);
            summarise(&tune->by.gemms[c][z], tune->rounds);
        }
}

bool st_tune_faster(const struct st_cell *a, const struct st_cell *b, double share, double noise)
{
    const double gain = b->median - a->median, s = sqrt(a->sigma * a->sigma + b->sigma * b->sigma);

    return a->n && b->n && gain > share * b->median && gain > 2 * s && gain > noise;
}

static bool faster(const struct st_cell *a, const struct st_cell *b, double share)
{
    return st_tune_faster(a, b, share, 0);
}

/* A candidate must be faster by this share of the time: ${whole} for CTA counts, which hold for all
 * sizes; ${each} for a choice at one size; ${plain} for a change to another kind of kernel, if that
 * kind is slower at the next size. */
static const double whole = 0.05, each = 0.02, plain = 0.03;

/* Compare CTA count ${setting} with NCCL's own count: set ${mean_out} to the mean of log(time /
 * time with NCCL's own count) over all sizes. Returns false if count ${setting} is slower at some
 * size, or if nothing was measured. */
static bool compare_ctas(const struct st_tune *tune, int setting, double *mean_out)
{
    double sum = 0;
    int n = 0;

    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune); z++) {
            const struct st_cell *mine = &tune->cell[c][ST_SYMMETRIC + setting][z];
            const struct st_cell *base = &tune->cell[c][ST_SYMMETRIC][z];

            if (!mine->n || !base->n)
                continue;
            if (faster(base, mine, whole))
                return false;
            sum += log(mine->median / base->median);
            n++;
        }
    *mean_out = n ? sum / n : 0;
    return n > 0;
}

/* Choose the CTA count. ctas[0] stands for NCCL's own count. We go through the counts, and take a
 * count as the best so far if its mean is 1 % better than that of the best before, and if it is
 * good beside GEMMs, too. At the end we choose the best if its mean is 2 % better than that of
 * NCCL's own count. */
static void choose_ctas(struct st_tune *tune)
{
    double least = 0, mean, least_alone = 0;
    int best = 0;
    char why[300] = "";

    if (tune->ctas[tune->n_ctas - 1] == ST_TUNE_PLUGIN) {
        tune->chosen = tune->n_ctas - 1; /* bench chooses nothing */
        return;
    }
    for (int s = 1; s < tune->n_ctas; s++)
        if (compare_ctas(tune, s, &mean) && mean < least - 0.01) {
            if (!st_tune_ctas_hold(tune, s, why, sizeof why)) {
                if (mean < least_alone - 0.01 && mean < -0.02) {
                    least_alone = mean;
                    strcpy(tune->by.why, why);
                }
                continue;
            }
            least = mean;
            best = s;
        }
    if (least_alone > least - 0.01)
        tune->by.why[0] = '\0';
    tune->chosen = least < -0.02 ? best : 0;
    if (tune->chosen)
        snprintf(tune->why, sizeof tune->why,
                 "%.1f %% less time than with NCCL's own count in the "
                 "geometric mean of all sizes, at no size counted slower",
                 100 * (1 - exp(least)));
    else
        snprintf(tune->why, sizeof tune->why,
                 "no other count is 2 %% faster in the mean without "
                 "being counted slower at some size");
}

/* Pick the best way to run symtuner's kernels at each size, and copy its times to candidate
 * ST_OWN. */
static void choose_ways(struct st_tune *tune, int coll)
{
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        struct st_way *ways = tune->way[coll][z];
        int pick = 0;

        for (int w = 1; w < tune->ways[coll][z]; w++)
            if (faster(&ways[w].cell, &ways[0].cell, each) &&
                (pick == 0 || ways[w].cell.median < ways[pick].cell.median))
                pick = w;
        tune->pick[coll][z] = pick;
        if (tune->ways[coll][z])
            tune->cell[coll][ST_OWN][z] = ways[pick].cell;
    }
}

/* Choose what the rules say at each size:
 *   NCCL          if NCCL's symmetric kernels are faster than the best way. A rule then names the
 *                 kernel "nccl": NCCL runs its symmetric kernels for registered buffers.
 *   nothing       if the library's own choice is as good as the other ways
 *   the best way  in all other cases */
static void choose_words(struct st_tune *tune, int coll)
{
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        const struct st_cell *own = &tune->cell[coll][ST_OWN][z];
        const struct st_cell *nccl = &tune->cell[coll][ST_SYMMETRIC + tune->chosen][z];
        const int ways = tune->ways[coll][z], pick = tune->pick[coll][z];
        bool is_nccl = ways && strncmp(tune->way[coll][z][pick].name, "nccl/", 5) == 0;

        tune->say[coll][z] = !ways                                 ? ST_SAY_NOTHING
                             : !is_nccl && faster(nccl, own, each) ? ST_SAY_NCCL
                                                                   : pick;
    }
}

static bool in_policy(const struct st_tune *tune, int candidate)
{
    return candidate < ST_SYMMETRIC || candidate == ST_SYMMETRIC + tune->chosen ||
           tune->ctas[tune->chosen] == ST_TUNE_PLUGIN;
}

static int best_at(const struct st_tune *tune, int coll, int size)
{
    int best = -1;

    for (int k = 0; k < st_tune_candidates(tune); k++) {
        const struct st_cell *cell = &tune->cell[coll][k][size];

        if (in_policy(tune, k) && cell->n &&
            (best < 0 || cell->median < tune->cell[coll][best][size].median))
            best = k;
    }
    return best;
}

static void choose_policy(struct st_tune *tune, int coll)
{
    int sizes = st_tune_sizes(tune), now = best_at(tune, coll, 0);

    for (int z = 0; z < sizes; z++) {
        int best = best_at(tune, coll, z);
        bool stays;

        if (now < 0)
            now = best;
        if (best >= 0 && best != now) {
            const struct st_cell *next = tune->cell[coll][best];

            stays = z + 1 == sizes || !tune->cell[coll][now][z + 1].n ||
                    next[z + 1].median <= tune->cell[coll][now][z + 1].median;
            if (faster(&next[z], &tune->cell[coll][now][z], stays ? each : plain))
                now = best;
        }
        tune->policy[coll][z] = now;
    }
}

void st_tune_choose(struct st_tune *tune)
{
    st_tune_summarise(tune);
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        choose_ways(tune, c);
    choose_ctas(tune);
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        choose_words(tune, c);
    if (tune->beside)
        st_tune_choose_beside(tune);
    memset(tune->policy, -1, sizeof tune->policy);
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        if (tune->colls >> c & 1)
            choose_policy(tune, c);
}
