/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - tune --verify: checks rules that an earlier run wrote. At each size a call with the
 * rules may be at most 3 % slower than with the best way or CTA count. Measuring processes take
 * turns. One of them, or with two rules files one for each file, loads the rules into the plugin
 * and libsymtuner_ar.so. The others measure the ways and the CTA counts that the earlier run
 * compared. CTA counts that were far slower in the earlier run's raw data are left out.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "cli/tune/tune.h"

/* Ratios of times. A CTA count is left out if at every size it took at least ${far_off} times as
 * long as the best. The rules may take up to ${promised} times as long as the best. A and B are the
 * rules files of --verify A,B. The slower of the two may take up to ${agreed} times as long as the
 * faster one. */
static const double far_off = 1.15, promised = 1.03, agreed = 1.05;

/* Load ${file}.csv, the raw data of the rules in ${file}. Returns ST_EXIT_FINE. If the file cannot
 * be loaded or holds no ways, prints the error and returns another exit status. */
static int load(struct st_tune *tune, const char *file)
{
    enum symtuner_status status;
    char error[600];

    snprintf(tune->raw, sizeof tune->raw, "%.500s.csv", file);
    status = st_tune_load(tune, true, error, sizeof error);
    if (status != SYMTUNER_OK)
        return st_fail(st_exit_of(status),
                       access(tune->raw, F_OK) == 0
                           ? "%s\n"
                           : "%s: --verify wants rules as tune --out wrote them, with their "
                             "FILE.csv\n",
                       error);
    if (tune->search && tune->own)
        return ST_EXIT_FINE;
    return st_fail(ST_EXIT_FINDINGS,
                   "symtuner tune: %s compared no kernels of symtuner's: nothing to verify\n",
                   tune->raw);
}

static double best_of(const struct st_tune *tune, int coll, int z, char name[48])
{
    double best = 0;

    for (int k = ST_SYMMETRIC; k < st_tune_candidates(tune); k++) {
        const struct st_cell *cell = &tune->cell[coll][k][z];

        if (cell->n && (best == 0 || cell->median < best)) {
            best = cell->median;
            st_tune_name(tune, k, name);
        }
    }
    for (int w = 0; w < tune->ways[coll][z]; w++) {
        const struct st_way *way = &tune->way[coll][z][w];

        if (way->cell.n && (best == 0 || way->cell.median < best)) {
            best = way->cell.median;
            strcpy(name, way->name);
        }
    }
    return best;
}

/* Is CTA count number ${setting} worth measuring again? It is if at some size its time is less than
 * ${far_off} times the best time. Looks only at collectives for which symtuner's kernels were
 * measured. */
static bool is_near(const struct st_tune *tune, int setting)
{
    char name[48];

    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune) && tune->own >> c & 1; z++) {
            const struct st_cell *cell = &tune->cell[c][ST_SYMMETRIC + setting][z];

            if (cell->n && cell->median < far_off * best_of(tune, c, z, name))
                return true;
        }
    return false;
}

/* Turn the earlier run in ${tune} into a plan: keep all ways, and the CTA counts that are near the
 * best. Clear the times. */
static void make_plan(struct st_tune *tune)
{
    bool near[ST_TUNE_CTAS];
    int kept = 0;

    for (int s = 0; s < tune->n_ctas; s++)
        near[s] = is_near(tune, s);
    for (int s = 0; s < tune->n_ctas; s++)
        if (near[s])
            tune->ctas[kept++] = tune->ctas[s];
    tune->n_ctas = kept;
    memset(tune->cell, 0, sizeof tune->cell);
    memset(tune->done, 0, sizeof tune->done);
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune); z++)
            for (int w = 0; w < tune->ways[c][z]; w++)
                memset(&tune->way[c][z][w].cell, 0, sizeof tune->way[c][z][w].cell);
    tune->colls = tune->own;
    tune->beside = false;
    tune->raw[0] = '\0'; /* the measurements are not kept in a file */
}

/* Add the ways (kernel, CTAs, threads) of ${other}, the run that wrote the second rules file, as
 * far as there is room. */
static void add_ways(struct st_tune *tune, const struct st_tune *other)
{
    for (int c = 0; c < SYMTUNER_COLLS; c++)
        for (int z = 0; z < st_tune_sizes(tune) && tune->own >> c & 1; z++)
            for (int y = 0; y < st_tune_sizes(other); y++)
                for (int w = 0; w < other->ways[c][y]; w++)
                    if (st_tune_bytes(tune, z) == st_tune_bytes(other, y))
                        st_tune_way(tune, c, z, other->way[c][y][w].name);
}

/* The largest ratios of times over all sizes, and the collectives and the numbers of the sizes that
 * have them. A and B are the two rules files.
 *   [0]  time with A / best time
 *   [1]  time with B / best time
 *   [2]  time with the slower of A and B / time with the faster one */
struct worst {
    double ratio[3];
    int coll[3], size[3];
};

/* Print a table of ${coll} with a line for each size, at most 100 columns wide. */
static void print_sizes(const struct st_tune *tune, int coll, struct worst *worst, FILE *out)
{
    fprintf(out, "%-9s %8s %-20s", "", "A us", "kernel");
    if (tune->verify[1])
        fprintf(out, " %8s %-20s", "B us", "kernel");
    fprintf(out, " %8s %s\n", "best us", "of");
    for (int z = 0; z < st_tune_sizes(tune); z++) {
        char size[ST_TEXT_SIZE], name[48] = "-";
        double best = best_of(tune, coll, z, name), us[ST_TUNE_RULES] = {0}, ratio[3] = {0};

        fprintf(out, "%-9s", st_text_size(st_tune_bytes(tune, z), size));
        for (int i = 0; i < ST_TUNE_RULES && tune->verify[i]; i++) {
            us[i] = tune->ruled[i][coll][z].cell.median;
            ratio[i] = us[i] / best;
            fprintf(out, " %8.2f %-20s", us[i], tune->ruled[i][coll][z].name);
        }
        fprintf(out, " %8.2f %s\n", best, name);
        if (tune->verify[1])
            ratio[2] = us[0] > us[1] ? us[0] / us[1] : us[1] / us[0];
        for (int i = 0; i < 3; i++)
            if (ratio[i] > worst->ratio[i]) {
                worst->ratio[i] = ratio[i];
                worst->coll[i] = coll;
                worst->size[i] = z;
            }
    }
}

static int report(struct st_tune *tune, bool json)
{
    static const char *const what[] = {"A against the best", "B against the best",
                                       "A and B against each other"};
    struct worst worst = {0};
    int status = ST_EXIT_FINE;
    char size[ST_TEXT_SIZE];
    FILE *out = json ? stderr : stdout;

    st_tune_summarise(tune);
    fprintf(out,
            "%d ranks on %s, median of %d rounds; compared with %d CTA counts of NCCL\n"
            "and every kernel that was tried\n",
            tune->ranks, tune->machine.gpu, tune->rounds, tune->n_ctas);
    for (int c = SYMTUNER_COLLS - 1; c >= 0; c--)
        if (tune->own >> c & 1) {
            if (tune->own != 1u << SYMTUNER_ALLREDUCE)
                fprintf(out, "%s\n", symtuner_coll_name(c));
            print_sizes(tune, c, &worst, out);
        }
    for (int i = 0; i < (tune->verify[1] ? 3 : 1); i++) {
        const bool reduce = worst.coll[i] == SYMTUNER_ALLREDUCE;
        double limit = i < 2 ? promised : agreed;

        fprintf(out, "%-27s at worst %+5.1f %% (%s%s%s), allowed %.0f %%%s\n", what[i],
                100 * (worst.ratio[i] - 1), reduce ? "" : symtuner_coll_name(worst.coll[i]),
                reduce ? "" : " of ", st_text_size(st_tune_bytes(tune, worst.size[i]), size),
                100 * (limit - 1), worst.ratio[i] > limit ? ": TOO MUCH" : "");
        status |= worst.ratio[i] > limit ? ST_EXIT_FINDINGS : 0;
    }
    if (json)
        printf("{\"verified\": %s, \"worst\": [%.4f, %.4f, %.4f]}\n", status ? "false" : "true",
               worst.ratio[0], worst.ratio[1], worst.ratio[2]);
    return status;
}

int st_tune_try_rules(const struct st_tune *tune, const char *file, int nccl)
{
    char error[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules;
    enum symtuner_status status = symtuner_rules_load(file, &rules, error, sizeof error);

    if (status == SYMTUNER_OK) {
        if (nccl)
            status = symtuner_rules_fit(rules, nccl, &tune->machine, error, sizeof error);
        symtuner_rules_free(rules);
    }
    return status == SYMTUNER_OK ? ST_EXIT_FINE : st_fail(st_exit_of(status), "%s\n", error);
}

int st_tune_verify(struct st_tune *tune, const char *files, bool json)
{
    static struct st_tune other; /* static, because it is large */
    static char name[ST_TUNE_RULES][500];
    int rounds = tune->rounds, nccl, status;
    const char *comma = strchr(files, ',');

    snprintf(name[0], sizeof name[0], "%.*s", comma ? (int)(comma - files) : 499, files);
    snprintf(name[1], sizeof name[1], "%s", comma ? comma + 1 : "");
    status = load(tune, name[0]);
    if (status == ST_EXIT_FINE && comma)
        status = load(&other, name[1]);
    if (status != ST_EXIT_FINE)
        return status;
    if (comma && other.ranks != tune->ranks)
        return st_fail(ST_EXIT_FINDINGS, "symtuner tune: %s is of %d ranks, %s of %d\n", name[0],
                       tune->ranks, name[1], other.ranks);
    st_tune_summarise(tune); /* compute the medians for make_plan */
    make_plan(tune);
    if (comma)
        add_ways(tune, &other);
    tune->rounds = rounds;
    nccl = tune->nccl;
    tune->nccl = 0;
    for (int i = 0; i < ST_TUNE_RULES; i++)
        tune->verify[i] = name[i][0] ? name[i] : NULL;
    status = st_tune_find_gpus(tune, "tune", true);
    if (status < 0 && !tune->own)
        status = ST_EXIT_CANNOT;
    for (int i = 0; i < ST_TUNE_RULES && tune->verify[i] && status < 0; i++) {
        int tried = st_tune_try_rules(tune, tune->verify[i], nccl);

        if (tried != ST_EXIT_FINE)
            status = tried;
    }
    if (status < 0)
        status = st_tune_measure(tune, "tune");
    return status == ST_EXIT_FINE ? report(tune, json) : status;
}
