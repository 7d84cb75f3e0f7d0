/* SPDX-License-Identifier: Apache-2.0 */
/* raw.c - writes and reads the raw data file of symtuner tune. The file is written after each unit,
 * that is, after each setting and collective of a round (tune.h), so that the same command can
 * continue after an interrupt. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/own_file.h"
#include "cli/text.h"
#include "cli/tune/tune.h"
#include "symtuner_why.h"

static const char first_line[] = "# symtuner tune 1";
static const char beside_line[] = "# settings from 15 on: beside GEMMs; us is what a call adds to "
                                  "them, of gemms how long they take\n";
_Static_assert(ST_TUNE_BESIDE == 15, "numbers of settings are in files");

/* What own=... in the plan line says of symtuner's kernels. NONE: not measured. LIBRARY: only the
 * library's own choice is measured. WAYS: several ways are measured. REDUCE: several ways are
 * measured for all-reduces; earlier versions wrote REDUCE even if --coll also named other
 * collectives, for which they measured only NCCL. */
enum { OWN_NONE, OWN_LIBRARY, OWN_REDUCE, OWN_WAYS };

static int own_number(const struct st_tune *tune)
{
    if (!tune->own || !tune->search)
        return tune->own ? OWN_LIBRARY : OWN_NONE;
    return tune->own == 1u << SYMTUNER_ALLREDUCE ? OWN_REDUCE : OWN_WAYS;
}

/* Write the whole plan into ${text}, as one line. A later run compares this line with its own plan,
 * so that data of different plans are not mixed. */
static void plan_line(const struct st_tune *tune, char *text, size_t size)
{
    size_t at = st_text_add(text, size, 0,
                            "# plan ranks=%d rounds=%d own=%d colls=%u low=%llu "
                            "high=%llu dtype=%s %sctas=",
                            tune->ranks, tune->rounds, own_number(tune), tune->colls,
                            (unsigned long long)tune->low, (unsigned long long)tune->high,
                            symtuner_dtype_name(tune->dtype), tune->beside ? "beside=1 " : "");

    for (int i = 0; i < tune->n_ctas; i++)
        at = st_text_add(text, size, at, "%s%d", i ? "," : "", tune->ctas[i]);
}

static void write_row(const struct st_tune *tune, int r, int c, int s, const char *name, int z,
                      double us, FILE *out)
{
    if (us != 0)
        fprintf(out, "%d,%d,%s,%s,%llu,%.3f\n", r, s, symtuner_coll_name(c), name,
                (unsigned long long)st_tune_bytes(tune, z), us);
}

static void write_unit(const struct st_tune *tune, int r, int c, int s, FILE *out)
{
    const struct st_tune_beside *by = &tune->by;
    const bool beside = s >= ST_TUNE_BESIDE;
    const int alone = st_tune_alone(s), *ways = beside ? by->ways[c] : tune->ways[c];
    char name[48];

    for (int z = 0; z < st_tune_sizes(tune) && s == ST_TUNE_BESIDE; z++)
        write_row(tune, r, c, s, "gemms", z, by->gemms[c][z].us[r], out);
    for (int z = 0; z < st_tune_sizes(tune) && s == ST_TUNE_AGAIN; z++)
        write_row(tune, r, c, s, "A/A", z, by->again[c][z].us[r], out);
    for (int k = 0; k < st_tune_candidates(tune) && s != ST_TUNE_AGAIN; k++)
        if (k < ST_SYMMETRIC ? alone == 0 : k == ST_SYMMETRIC + alone)
            for (int z = 0; z < st_tune_sizes(tune); z++)
                write_row(tune, r, c, s, st_tune_name(tune, k, name), z,
                          (beside ? by->cell : tune->cell)[c][k][z].us[r], out);
    for (int z = 0; z < st_tune_sizes(tune) && alone == tune->n_ctas; z++)
        for (int w = 0; w < ways[z]; w++) {
            const struct st_way *way = &(beside ? by->way : tune->way)[c][z][w];

            write_row(tune, r, c, s, way->name, z, way->cell.us[r], out);
        }
    fprintf(out, "done,%d,%d,%s\n", r, s, symtuner_coll_name(c));
}

static void raw_text(const void *self, FILE *out)
{
    const struct st_tune *tune = self;
    char plan[300];

    plan_line(tune, plan, sizeof plan);
    fprintf(
        out,
        "%s\n%s\n# gpu %s\n# links %d multicast %d\n# nccl %d\n"
        "# floor %.2f\n# date %s\n# bytes is NCCL's nBytes, us is per call, of the slowest rank\n"
        "# KERNEL/CTAS/THREADS: symtuner's kernels; at each size the library's own choice comes "
        "first\n%s"
        "round,setting,coll,candidate,bytes,us\n",
        first_line, plan, tune->machine.gpu, tune->machine.nvlink, tune->machine.multicast,
        tune->nccl, tune->floor_gbps, tune->date, tune->beside ? beside_line : "");
    for (int r = 0; r < tune->rounds; r++)
        for (int c = 0; c < SYMTUNER_COLLS; c++)
            for (int s = 0; s < ST_TUNE_SETTINGS; s++)
                if (tune->done[r][c][s])
                    write_unit(tune, r, c, s, out);
}

bool st_tune_save(const struct st_tune *tune)
{
    return st_own_file_write(tune->out[0] ? "tune" : "bench", tune->raw, tune->force, false,
                             raw_text, tune);
}

struct reader {
    struct st_tune *tune;
    bool take_plan; /* the file's plan becomes the plan of ${tune} */
    bool planned;   /* the plan was read */
    char why[200];
};

static bool wrong(struct reader *reader, const char *what, const char *line)
{
    return st_tune_wrong(reader->why, sizeof reader->why, what, line);
}

static bool read_plan(struct reader *reader, const char *line)
{
    struct st_tune *tune = reader->tune;
    unsigned long long low, high;
    int own, at = 0;
    char dtype[8];
    const char *next;

    if (sscanf(line,
               "# plan ranks=%d rounds=%d own=%d colls=%u low=%llu high=%llu "
               "dtype=%7[a-z0-9] %n",
               &tune->ranks, &tune->rounds, &own, &tune->colls, &low, &high, dtype, &at) != 7 ||
        at == 0)
        return wrong(reader, "not a plan", line);
    tune->beside = strncmp(line + at, "beside=1 ", 9) == 0;
    at += tune->beside ? 9 : 0;
    if (strncmp(line + at, "ctas=", 5) != 0)
        return wrong(reader, "not a plan", line);
    at += 5;
    tune->dtype = symtuner_dtype_parse(dtype);
    tune->own = own == OWN_NONE     ? 0
                : own == OWN_REDUCE ? tune->colls & 1u << SYMTUNER_ALLREDUCE
                                    : tune->colls;
    tune->search = own >= OWN_REDUCE;
    tune->low = low;
    tune->high = high;
    tune->n_ctas = 0;
    for (next = line + at; *next && tune->n_ctas < ST_TUNE_CTAS; next += *next == ',') {
        char *end;
        long n = strtol(next, &end, 10);

        if (end == next || n < 0 || n > 64 || (*end && *end != ','))
            return wrong(reader, "not a plan", line);
        tune->ctas[tune->n_ctas++] = (int)n;
        next = end;
    }
    if (tune->ranks < 2 || tune->ranks > 16 || tune->rounds < 1 || tune->rounds > ST_TUNE_ROUNDS ||
        tune->n_ctas < 1 || tune->dtype < 0 || low < 64 || low > high ||
        high > (uint64_t)64 << 30 || tune->colls >= 1u << SYMTUNER_COLLS)
        return wrong(reader, "a plan out of range", line);
    return true;
}

static int candidate_of(const struct st_tune *tune, const char *word)
{
    char name[48];

    for (int k = 0; k < st_tune_candidates(tune); k++)
        if (strcmp(st_tune_name(tune, k, name), word) == 0)
            return k;
    return -1;
}

static bool read_row(struct reader *reader, const char *line)
{
    struct st_tune *tune = reader->tune;
    char coll[32], word[48];
    unsigned long long bytes;
    double us;
    int r, s, c, end = 0;

    if (sscanf(line, "done,%d,%d,%31[a-z]", &r, &s, coll) == 3) {
        c = symtuner_coll_parse(coll);
        if (c < 0 || r < 0 || r >= tune->rounds || s < 0 || s >= ST_TUNE_SETTINGS ||
            !st_tune_has(tune, c, s))
            return wrong(reader, "a unit outside the plan", line);
        tune->done[r][c][s] = true;
        return true;
    }
    if (sscanf(line, "%d,%d,%31[a-z],%47[a-zA-Z0-9_/],%llu,%lf%n", &r, &s, coll, word, &bytes, &us,
               &end) != 6 || line[end])
        return wrong(reader, "not a measurement", line);
    if (!(us > (s < ST_TUNE_BESIDE ? 0 : -1e12) && us < 1e12)) /* NaN fails this test, too */
        return wrong(reader, "not a time", line);
    c = symtuner_coll_parse(coll);
    if (c >= 0 && r >= 0 && r < tune->rounds &&
        (s >= ST_TUNE_BESIDE
             ? s < ST_TUNE_SETTINGS && st_tune_put_beside(tune, r, c, s, word, bytes, us)
         : s == tune->n_ctas && tune->search
             ? st_tune_put_way(tune, r, c, word, bytes, us)
             : st_tune_put(tune, r, c, candidate_of(tune, word), bytes, us)))
        return true;
    return wrong(reader, "a measurement outside the plan", line);
}

/* A unit is one setting and one collective in one round (tune.h). Forget the times of units that
 * are not marked done, so that these units are measured again. */
static void forget_unfinished(struct st_tune *tune)
{
    for (int c = 0; c < SYMTUNER_COLLS; c++) {
        /* if round 0 did not finish, it will search again for the best ways to run symtuner's
         * kernels */
        if (!tune->done[0][c][tune->n_ctas])
            memset(tune->ways[c], 0, sizeof tune->ways[c]);
        for (int r = 0; r < tune->rounds; r++)
            for (int z = 0; z < st_tune_sizes(tune); z++)
                for (int w = 0; w < tune->ways[c][z]; w++)
                    if (!tune->done[r][c][tune->n_ctas])
                        tune->way[c][z][w].cell.us[r] = 0;
    }
    for (int r = 0; r < tune->rounds; r++)
        for (int c = 0; c < SYMTUNER_COLLS; c++)
            for (int k = 0; k < st_tune_candidates(tune); k++)
                for (int z = 0; z < st_tune_sizes(tune); z++)
                    if (!tune->done[r][c][k < ST_SYMMETRIC ? 0 : k - ST_SYMMETRIC])
                        tune->cell[c][k][z].us[r] = 0;
}

/* Do what forget_unfinished() does, for what is measured beside GEMMs. */
static void forget_beside(struct st_tune *tune)
{
    struct st_tune_beside *by = &tune->by;

    for (int c = 0; c < SYMTUNER_COLLS; c++) {
        if (!tune->done[0][c][ST_TUNE_BESIDE + tune->n_ctas])
            memset(by->ways[c], 0, sizeof by->ways[c]);
        for (int r = 0; r < tune->rounds; r++) {
            const bool *done = &tune->done[r][c][ST_TUNE_BESIDE];

            for (int z = 0; z < st_tune_sizes(tune); z++) {
                for (int w = 0; w < by->ways[c][z] && !done[tune->n_ctas]; w++)
                    by->way[c][z][w].cell.us[r] = 0;
                for (int k = 0; k < st_tune_candidates(tune); k++)
                    if (!done[k < ST_SYMMETRIC ? 0 : k - ST_SYMMETRIC])
                        by->cell[c][k][z].us[r] = 0;
                if (!done[0])
                    by->gemms[c][z].us[r] = 0;
                if (!tune->done[r][c][ST_TUNE_AGAIN])
                    by->again[c][z].us[r] = 0;
            }
        }
    }
}

/* Take the number of rounds from the file. Called if there is a budget: the earlier run may have
 * reduced its number of rounds to keep its budget (fits_budget in run.c). */
static void take_rounds(struct st_tune *tune, const char *line)
{
    int rounds = 0;

    if (sscanf(line, "# plan ranks=%*d rounds=%d", &rounds) == 1 && rounds >= 3 &&
        rounds <= ST_TUNE_ROUNDS)
        tune->rounds = rounds;
}

static bool take_plan(struct reader *reader, const char *line)
{
    char plan[300];

    reader->planned = true;
    if (reader->take_plan)
        return read_plan(reader, line);
    if (reader->tune->budget_s)
        take_rounds(reader->tune, line);
    plan_line(reader->tune, plan, sizeof plan);
    if (reader->tune->beside &&
        /* The file may be from a run without --beside. If so, this run uses the file's times of
         * calls alone, and measures only the calls beside GEMMs. */
        strcmp(line, plan) != 0) {
        reader->tune->beside = false;
        plan_line(reader->tune, plan, sizeof plan);
        reader->tune->beside = true;
    }
    return strcmp(line, plan) == 0 ||
           wrong(reader, "measured with another plan; --fresh starts over", line);
}

static bool read_line(struct reader *reader, const char *line)
{
    struct st_tune *tune = reader->tune;
    int links, multicast;

    if (strncmp(line, "# plan ", 7) == 0)
        return take_plan(reader, line);
    if (strncmp(line, "# gpu ", 6) == 0) {
        if (reader->take_plan)
            snprintf(tune->machine.gpu, sizeof tune->machine.gpu, "%.95s", line + 6);
        return strcmp(tune->machine.gpu, line + 6) == 0 || reader->take_plan ||
               wrong(reader, "measured on other GPUs; --fresh starts over", line);
    }
    if (sscanf(line, "# links %d multicast %d", &links, &multicast) == 2) {
        if (reader->take_plan) {
            tune->machine.nvlink = links;
            tune->machine.multicast = multicast;
        }
    } else if (sscanf(line, "# nccl %d", &links) == 1) {
        tune->nccl = links;
    } else if (strncmp(line, "# floor ", 8) == 0) {
        tune->floor_gbps = strtod(line + 8, NULL);
        return (tune->floor_gbps >= 0 && tune->floor_gbps < 1e9) || /* NaN fails this test */
               wrong(reader, "not a rate", line);
    } else if (strncmp(line, "# date ", 7) == 0) {
        snprintf(tune->date, sizeof tune->date, "%.31s", line + 7);
    } else if (line[0] != '#' && line[0] && strncmp(line, "round,", 6) != 0) {
        return reader->planned ? read_row(reader, line) : wrong(reader, "no plan before", line);
    }
    return true;
}

enum symtuner_status st_tune_load(struct st_tune *tune, bool take_plan, char *error, size_t size)
{
    struct reader reader = {.tune = tune, .take_plan = take_plan};
    FILE *file = fopen(tune->raw, "r");
    char line[1024]; /* getline would fill the memory from a file without newlines */
    int number = 0;
    bool good = file != NULL, read;

    if (!file) {
        snprintf(error, size, "%s: %s", tune->raw, strerror(errno));
        return SYMTUNER_EIO;
    }
    while (good && fgets(line, sizeof line, file)) {
        bool whole = strchr(line, '\n') || feof(file);

        line[strcspn(line, "\r\n")] = '\0';
        if (number++ > 0)
            good = whole ? read_line(&reader, line)
                         : wrong(&reader, "a line that is too long or has a NUL byte", line);
        else if (strcmp(line, first_line) != 0)
            good = wrong(&reader, "not the raw data of symtuner tune", line);
    }
    read = !ferror(file);
    if (!read)
        snprintf(reader.why, sizeof reader.why, "%s", strerror(errno));
    else if (good && !reader.planned)
        snprintf(reader.why, sizeof reader.why, "the file ends before its plan");
    good = good && reader.planned && read;
    if (good) {
        forget_unfinished(tune);
        forget_beside(tune);
    } else if (number)
        snprintf(error, size, "%.400s:%d: %s", tune->raw, number, reader.why);
    else
        snprintf(error, size, "%.400s: %s", tune->raw, reader.why);
    fclose(file);
    return good ? SYMTUNER_OK : read ? SYMTUNER_ESYNTAX : SYMTUNER_EIO;
}
