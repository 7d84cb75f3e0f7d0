/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - reads the options that symtuner tune and symtuner bench share. */
#include <string.h>
#include <time.h>

#include "cli/ledger/read.h"
#include "cli/text.h"
#include "cli/tune/tune.h"
#include "cli/values.h"
#include "symtuner_why.h"

void st_tune_defaults(struct st_tune *tune)
{
    time_t today = time(NULL);

    tune->rounds = 3;
    tune->dtype = SYMTUNER_BFLOAT16;
    tune->colls = 1u << SYMTUNER_ALLREDUCE;
    tune->low = 1 << 10;
    tune->high = 256 << 20;
    tune->machine.nvlink = tune->machine.multicast = -1;
    strftime(tune->date, sizeof tune->date, "%Y-%m-%d", gmtime(&today));
}

static bool read_ctas(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_tune *tune = self;
    int n;

    if (!st_read_numbers("ctas", value, 64, ST_TUNE_CTAS - 1, tune->ctas + 1, &n, error))
        return false;
    tune->n_ctas = n + 1;
    return true;
}

static bool read_colls(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    unsigned *colls = to;
    const unsigned symmetric =
        1u << SYMTUNER_ALLREDUCE | 1u << SYMTUNER_ALLGATHER | 1u << SYMTUNER_REDUCESCATTER;

    if (!st_read_colls(value, colls, error))
        return false;
    if (strcmp(value, "all") == 0)
        *colls = symmetric;
    return !(*colls & ~symmetric) ||
           st_option_wrong(error,
                           "only allreduce, allgather and reducescatter have symmetric "
                           "kernels: --coll wants some of them",
                           value);
}

static bool read_bytes(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_tune *tune = self;

    if (!st_read_range(value, &tune->low, &tune->high, error))
        return false;
    return (tune->low >= 256 && !(tune->low & (tune->low - 1)) &&
            !(tune->high & (tune->high - 1)) && tune->high <= (uint64_t)4 << 30) ||
           st_option_wrong(error, "--bytes wants powers of two from 256 to 4GiB", value);
}

static bool read_dtype(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    int *dtype = to;

    return st_read_dtype(value, dtype, error) &&
           (*dtype == SYMTUNER_BFLOAT16 || *dtype == SYMTUNER_FLOAT16 ||
            *dtype == SYMTUNER_FLOAT32 ||
            st_option_wrong(error, "--dtype wants bf16, f16 or f32", value));
}

static bool read_budget(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_tune *tune = self;

    tune->rounds = ST_TUNE_ROUNDS;
    return st_text_number(value, 1, 86400, &tune->budget_s) ||
           st_option_wrong(error, "--budget wants 1 to 86400 seconds", value);
}

static bool read_csv(const char *value, void *self, char error[ST_OPTION_ERROR])
{
    struct st_tune *tune = self;

    return (size_t)snprintf(tune->raw, sizeof tune->raw, "%s", value) < sizeof tune->raw ||
           st_option_wrong(error, "--csv wants a shorter name", value);
}

/* The most bytes of a file's name: the buffers for names have 500 bytes or more, and to some names
 * we append an end such as ".html". */
enum { NAME_MOST = 490 };

/* Return whether a name of ${bytes} in the option's ${value} is short enough. */
static bool fits(size_t bytes, const char *value, char error[ST_OPTION_ERROR])
{
    return bytes <= NAME_MOST ||
           st_option_wrong(error, "a file name has at most 490 bytes here", value);
}

static bool read_file(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    *(const char **)to = value;
    if (!value[0])
        return st_option_wrong(error, "a file name has at least one byte", value);
    return fits(strlen(value), value, error);
}

/* Read one name, or two names with a comma between them. */
static bool read_files(const char *value, void *to, char error[ST_OPTION_ERROR])
{
    const size_t first = strcspn(value, ",");

    if (first == 0 || first > NAME_MOST || !value[first])
        return read_file(value, to, error);
    *(const char **)to = value;
    return fits(strlen(value + first + 1), value, error);
}

/* Read --nccl, the earlier name of --library. */
static bool read_nccl(const char *value, void *file, char error[ST_OPTION_ERROR])
{
    *(const char **)file = value;
    return strchr(value, '/') || strstr(value, ".so") ||
           st_option_wrong(error, "tune and bench measure a library: --library wants its file",
                           value);
}

/* Plan to measure the collectives and sizes that are in the ledger of a program. */
static bool read_ledger(const char *path, void *self, char error[ST_OPTION_ERROR])
{
    struct st_tune *tune = self;
    struct st_ledgers *ledgers = &tune->ledger;
    uint64_t low = UINT64_MAX, high = 0, most = (uint64_t)4 << 30;

    st_ledgers_free(ledgers); /* frees the data of an earlier --ledger */
    if (!st_ledgers_read(ledgers, path, error, ST_OPTION_ERROR))
        return false;
    tune->ledger_file = path;
    tune->colls = 0;
    for (int b = 0; b < ledgers->blocks; b++)
        for (int r = 0; r < ledgers->block[b].rows; r++) {
            const struct st_ledger_row *row = &ledgers->block[b].row[r];

            if (row->coll < SYMTUNER_ALLGATHER)
                continue;
            tune->colls |= 1u << row->coll;
            low = row->lo < low ? row->lo : low;
            high = row->hi > high ? row->hi : high;
        }
    if (!tune->colls)
        return st_option_wrong(
            error, "--ledger wants one with allreduce, allgather or reducescatter", path);
    for (tune->low = 256; tune->low * 2 <= low && tune->low < most; tune->low *= 2)
        ;
    for (tune->high = tune->low; tune->high * 2 <= high && tune->high < most; tune->high *= 2)
        ;
    return true;
}

#define AT(member) offsetof(struct st_tune, member)
const struct st_option st_tune_options[ST_TUNE_OPTIONS] = {
    /* options of bench */
    {"rules", "FILE", "rules for the plugin and symtuner's kernels (built-in defaults)",
     ST_OPTION_READ, .read = read_file, .at = AT(rules)},
    {"csv", "FILE", "also write the raw data", ST_OPTION_READ, .read = read_csv},
    /* options of bench and tune */
    {"ranks", "N", "GPUs to use (all)", ST_OPTION_NUMBER, .at = AT(ranks), .least = 2, .most = 16},
    {"coll", "C,C,...", "allreduce, allgather, reducescatter, or all (allreduce)", ST_OPTION_READ,
     .read = read_colls, .at = AT(colls)},
    {"dtype", "T", "bf16, f16 or f32 (bf16)", ST_OPTION_READ, .read = read_dtype, .at = AT(dtype)},
    {"bytes", "LOW..HIGH", "powers of two, of the whole call, NCCL's nBytes (1KiB..256MiB)",
     ST_OPTION_READ, .read = read_bytes},
    {"ledger", "FILE",
     "measure the collectives and sizes that a program used, instead of --coll and --bytes; at "
     "the end, say what its calls gain",
     ST_OPTION_READ, .read = read_ledger},
    {"rounds", "N", "3 to 9 (3)", ST_OPTION_NUMBER, .at = AT(rounds), .least = 3,
     .most = ST_TUNE_ROUNDS},
    {"budget", "SECONDS", "3 rounds, and up to 6 more as long as they fit into this time",
     ST_OPTION_READ, .read = read_budget},
    {"beside", NULL, "measure beside GEMMs, too: what does a call add to them? Needs cuBLAS",
     ST_OPTION_FLAG, .at = AT(beside)},
    {"no-kernels", NULL, "without libsymtuner_ar.so", ST_OPTION_FLAG, .at = AT(no_kernels)},
    {"library", "FILE",
     "the libnccl.so.2 to measure (the one that jax or torch of this python3 would load; without "
     "these two, the loader's)",
     ST_OPTION_TEXT, .at = AT(nccl_file)},
    {"json", NULL, "print the result for programs", ST_OPTION_FLAG, .at = AT(json)},
    {"force", NULL, "overwrite files that symtuner did not write", ST_OPTION_FLAG, .at = AT(force)},
    {"nccl", "FILE", NULL, ST_OPTION_READ, .read = read_nccl, .at = AT(nccl_file),
     .instead = "--library FILE"},
    /* options of tune */
    {"out", "FILE", "the rules to write (symtuner.rules)", ST_OPTION_READ, .read = read_file,
     .at = AT(out)},
    {"ctas", "N,N,...", "CTA counts besides NCCL's own (8,16,32,64)", ST_OPTION_READ,
     .read = read_ctas},
    {"fresh", NULL, "forget an earlier run into the same files", ST_OPTION_FLAG, .at = AT(fresh)},
    {"from", "FILE.csv", "measure nothing: rules and report from raw data", ST_OPTION_READ,
     .read = read_file, .at = AT(from)},
    {"verify", "A[,B]",
     "measure the rules A of an earlier run again, beside all that the earlier run "
     "compared: are they at most 3 % slower? With rules B of another run: do A and B differ by "
     "at most 5 %?",
     ST_OPTION_READ, .read = read_files, .at = AT(verify_files)},
};
