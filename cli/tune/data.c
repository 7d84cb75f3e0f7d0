/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - parses what a measuring process ("symtuner worker") printed, and stores the times by
 * candidate or way, size and round (tune.h). */
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "cli/tune/tune.h"
#include "symtuner_why.h"

int st_tune_sizes(const struct st_tune *tune)
{
    int n = 0;

    for (uint64_t bytes = tune->low; bytes <= tune->high && n < ST_TUNE_SIZES; bytes *= 2)
        n++;
    return n;
}

uint64_t st_tune_bytes(const struct st_tune *tune, int size)
{
    return tune->low << size;
}

int st_tune_candidates(const struct st_tune *tune)
{
    return ST_SYMMETRIC + tune->n_ctas;
}

const char *st_tune_name(const struct st_tune *tune, int candidate, char text[48])
{
    int ctas = candidate >= ST_SYMMETRIC ? tune->ctas[candidate - ST_SYMMETRIC] : 0;

    if (candidate == ST_GENERAL)
        snprintf(text, 48, "general");
    else if (candidate == ST_OWN)
        snprintf(text, 48, "symtuner");
    else if (ctas == ST_TUNE_PLUGIN)
        snprintf(text, 48, "with plugin");
    else if (ctas)
        snprintf(text, 48, "symmetric/%d", ctas);
    else
        snprintf(text, 48, "symmetric/NCCL");
    return text;
}

double st_tune_busbw(const struct st_tune *tune, int coll, uint64_t bytes, double us)
{
    double n = tune->ranks, steps = coll == SYMTUNER_ALLREDUCE ? 2 : 1;
    double sent = (double)bytes * steps * (n - 1) / n; /* bytes that each rank must send */

    return us > 0 ? sent / us / 1e3 : 0;
}

int st_tune_alone(int setting)
{
    return setting == ST_TUNE_AGAIN    ? 0
           : setting >= ST_TUNE_BESIDE ? setting - ST_TUNE_BESIDE
                                       : setting;
}

int st_tune_settings(const struct st_tune *tune)
{
    int n = tune->n_ctas + (tune->own != 0 && tune->search);

    for (int i = 0; i < ST_TUNE_RULES && tune->verify[i]; i++)
        n++;
    return n;
}

bool st_tune_has(const struct st_tune *tune, int coll, int setting)
{
    const int alone = st_tune_alone(setting);

    return (setting < ST_TUNE_BESIDE || tune->beside) &&
           (alone < tune->n_ctas ? tune->colls : tune->own) >> coll & 1 &&
           alone < st_tune_settings(tune);
}

const char *st_tune_modes(const struct st_tune *tune, int coll, int setting)
{
    const int alone = st_tune_alone(setting);

    if (alone >= tune->n_ctas)
        return alone == tune->n_ctas ? "k" : "o";
    if (alone != 0 || setting == ST_TUNE_AGAIN || tune->verify[0])
        return "s";
    return tune->own >> coll & 1 && !tune->search ? "gso" : "gs";
}

int st_tune_size_of(const struct st_tune *tune, uint64_t bytes)
{
    for (int z = 0; z < st_tune_sizes(tune); z++)
        if (st_tune_bytes(tune, z) == bytes)
            return z;
    return -1;
}

bool st_tune_put(struct st_tune *tune, int round, int coll, int candidate, uint64_t bytes,
                 double us)
{
    int size = st_tune_size_of(tune, bytes);

    if (size < 0 || candidate < 0 || candidate >= st_tune_candidates(tune) || !(us > 0) || us > 1e9)
        return false;
    tune->cell[coll][candidate][size].us[round] = us;
    return true;
}

/* ---- ways to run symtuner's kernels ---------------------------------------------------------- */

/* Is ${name} a way, such as "one_ll8/16/128"? */
static bool good_way(const char *name)
{
    int ctas, threads, end = 0;

    return strlen(name) < 48 && sscanf(name, "%*24[a-z0-9_]/%d/%d%n", &ctas, &threads, &end) == 2 &&
           end && name[end] == '\0' && ctas >= 0 && ctas <= 512 && threads >= 0 && threads <= 1024;
}

/* Return the index of the way ${name} among the ${n} ways at ${way}; add the way if it is new.
 * Returns -1 if ${name} is no way, or if there is no room for it. */
static int way_of(struct st_way *way, int *n, const char *name)
{
    for (int w = 0; w < *n; w++)
        if (strcmp(way[w].name, name) == 0)
            return w;
    if (*n == ST_TUNE_WAYS || !good_way(name))
        return -1;
    strcpy(way[*n].name, name);
    return (*n)++;
}

int st_tune_way(struct st_tune *tune, int coll, int size, const char *name)
{
    return way_of(tune->way[coll][size], &tune->ways[coll][size], name);
}

bool st_tune_put_way(struct st_tune *tune, int round, int coll, const char *name, uint64_t bytes,
                     double us)
{
    int size = st_tune_size_of(tune, bytes),
        way = size < 0 ? -1 : st_tune_way(tune, coll, size, name);

    if (way < 0 || !(us > 0) || us > 1e9)
        return false;
    tune->way[coll][size][way].cell.us[round] = us;
    return true;
}

bool st_tune_put_beside(struct st_tune *tune, int round, int coll, int setting, const char *name,
                        uint64_t bytes, double us)
{
    struct st_tune_beside *by = &tune->by;
    const int size = st_tune_size_of(tune, bytes), alone = st_tune_alone(setting);
    struct st_cell *cell = NULL;
    char word[48];

    if (size < 0 || !(us > -1e9 && us < 1e9) || !st_tune_has(tune, coll, setting))
        return false;
    if (strcmp(name, "gemms") == 0) {
        cell = setting == ST_TUNE_BESIDE && us > 0 ? &by->gemms[coll][size] : NULL;
    } else if (setting == ST_TUNE_AGAIN) {
        cell = strcmp(name, "A/A") == 0 ? &by->again[coll][size] : NULL;
    } else if (alone == tune->n_ctas) {
        int way = way_of(by->way[coll][size], &by->ways[coll][size], name);

        cell = way < 0 ? NULL : &by->way[coll][size][way].cell;
    } else {
        for (int k = 0; k < st_tune_candidates(tune); k++)
            if ((k < ST_SYMMETRIC ? alone == 0 : k == ST_SYMMETRIC + alone) &&
                strcmp(st_tune_name(tune, k, word), name) == 0)
                cell = &by->cell[coll][k][size];
    }
    if (cell)
        cell->us[round] = us != 0 ? us : 1e-6; /* 0 would mean "not measured" */
    return cell != NULL;
}

/* Store what a line of the worker says: "plan BYTES WAY RULES" or "o BYTES US". Returns true only
 * for "o", which has the time. */
static bool put_ruled(struct st_tune *tune, int round, int coll, int rules, const char *line)
{
    unsigned long long bytes;
    char name[48];
    double us;
    int size;

    if (sscanf(line, "plan %llu %47[a-z0-9_/]", &bytes, name) == 2 &&
        (size = st_tune_size_of(tune, bytes)) >= 0)
        strcpy(tune->ruled[rules][coll][size].name, name);
    if (sscanf(line, "o %llu %lf", &bytes, &us) != 2 || (size = st_tune_size_of(tune, bytes)) < 0 ||
        !(us > 0))
        return false;
    tune->ruled[rules][coll][size].cell.us[round] = us;
    return true;
}

char *st_tune_ways(const struct st_tune *tune, int coll, bool beside)
{
    size_t room = (size_t)st_tune_sizes(tune) * ST_TUNE_WAYS * 72 + 2, at = 0;
    const bool known = beside && tune->by.ways[coll][0] > 0;
    const struct st_way(*way)[ST_TUNE_WAYS] = known ? tune->by.way[coll] : tune->way[coll];
    const int *ways = known ? tune->by.ways[coll] : tune->ways[coll];
    const char *first = beside && !known ? "+" : "";
    char *text = calloc(1, room);

    for (int z = 0; text && z < st_tune_sizes(tune); z++)
        for (int w = 0; w < ways[z]; w++)
            at = st_text_add(text, room, at, "%s%llu:%s", at ? "," : first,
                             (unsigned long long)st_tune_bytes(tune, z), way[z][w].name);
    return text;
}

/* ---- a unit ---------------------------------------------------------------------------------- */

bool st_tune_wrong(char *error, size_t size, const char *what, const char *line)
{
    snprintf(error, size, "%s: \"%.*s\"", what,
             (int)strcspn(line, "\n") < 80 ? (int)strcspn(line, "\n") : 80, line);
    return false;
}

/* Store one line of a worker that measured beside GEMMs: "gemms BYTES US", "k BYTES WAY US" or
 * "MODE BYTES US". Returns 1 if the line has the time of a mode, 0 if it is another line, and -1 if
 * it does not fit the plan. */
static int take_beside(struct st_tune *tune, int round, int coll, int setting, const char *line)
{
    const char *modes = st_tune_modes(tune, coll, setting);
    char mode, word[48];
    unsigned long long bytes;
    double us;

    if (sscanf(line, "gemms %llu %lf", &bytes, &us) == 2) {
        if (setting == ST_TUNE_BESIDE &&
            !st_tune_put_beside(tune, round, coll, setting, "gemms", bytes, us))
            return -1;
        return 0;
    }
    if (*modes == 'k') {
        if (sscanf(line, "k %llu %47[a-z0-9_/] %lf", &bytes, word, &us) != 3)
            return 0;
    } else if (sscanf(line, "%c %llu %lf", &mode, &bytes, &us) != 3 || !strchr(modes, mode)) {
        return 0;
    } else if (setting == ST_TUNE_AGAIN) {
        strcpy(word, "A/A");
    } else {
        st_tune_name(tune,
                     mode == 'g'   ? ST_GENERAL
                     : mode == 'o' ? ST_OWN
                                   : ST_SYMMETRIC + st_tune_alone(setting),
                     word);
    }
    return st_tune_put_beside(tune, round, coll, setting, word, bytes, us) ? 1 : -1;
}

bool st_tune_take(struct st_tune *tune, int round, int coll, int setting, const char *output,
                  char *error, size_t size)
{
    const char *modes = st_tune_modes(tune, coll, setting);
    int rows = 0, release, ways = 0;
    const int *known = setting < ST_TUNE_BESIDE ? tune->ways[coll] : tune->by.ways[coll];

    for (const char *line = output; line && *line;
         line = strchr(line, '\n'), line += line != NULL) {
        char mode, way[48];
        unsigned long long bytes;
        double us;
        int candidate;

        if (sscanf(line, "nccl %d", &release) == 1) {
            if (tune->nccl && tune->nccl != release)
                return st_tune_wrong(
                    error, size, "NCCL is not the release that the earlier rounds ran on", line);
            tune->nccl = release;
        } else if (sscanf(line, "floor %lf", &us) == 1) {
            if (us > tune->floor_gbps)
                tune->floor_gbps = us;
        } else if (setting >= ST_TUNE_BESIDE) {
            int taken = take_beside(tune, round, coll, setting, line);

            if (taken < 0)
                return st_tune_wrong(error, size, "a size or time that was not asked for", line);
            rows += taken;
        } else if (setting == tune->n_ctas) {
            if (sscanf(line, "k %llu %47[a-z0-9_/] %lf", &bytes, way, &us) != 3)
                continue;
            if (!st_tune_put_way(tune, round, coll, way, bytes, us))
                return st_tune_wrong(error, size, "a size, way or time that was not asked for",
                                     line);
            rows++;
        } else if (setting > tune->n_ctas) {
            rows += put_ruled(tune, round, coll, setting - tune->n_ctas - 1, line);
        } else if (sscanf(line, "%c %llu %lf", &mode, &bytes, &us) == 3 && strchr(modes, mode)) {
            candidate = mode == 'g' ? ST_GENERAL : mode == 'o' ? ST_OWN : ST_SYMMETRIC + setting;
            if (!st_tune_put(tune, round, coll, candidate, bytes, us))
                return st_tune_wrong(error, size, "a size or time that was not asked for", line);
            rows++;
        } /* ignore other lines: NCCL printed them */
    }
    for (int z = 0; z < st_tune_sizes(tune); z++)
        ways += *modes != 'k' ? (int)strlen(modes) : known[z] ? known[z] : 1;
    if (rows != ways)
        return st_tune_wrong(error, size, "the measuring process did not measure every size",
                             output);
    tune->done[round][coll][setting] = true;
    return true;
}
