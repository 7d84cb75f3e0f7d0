/* SPDX-License-Identifier: Apache-2.0 */
/* tune_read.c - the options that symtuner tune and symtuner bench share. */
#include <stdlib.h>
#include <string.h>

#include "cli/ledger_read.h"
#include "cli/text.h"
#include "cli/tune.h"
#include "symtuner_why.h"

static const char *command = "tune"; /* for messages */

static bool wrong(const char *what, const char *value)
{
    fprintf(stderr, "symtuner %s: %s \"%.60s\"; see symtuner %s --help\n", command, what, value,
            command);
    return false;
}

static bool read_ctas(struct st_tune *tune, const char *value)
{
    const char *at = value;

    tune->n_ctas = 1;
    for (;; at++) {
        char *end;
        long n = strtol(at, &end, 10);

        if (end == at || n < 1 || n > 64 || tune->n_ctas == ST_TUNE_CTAS)
            return wrong("--ctas wants up to 11 numbers from 1 to 64, not", value);
        tune->ctas[tune->n_ctas++] = (int)n;
        at = end;
        if (*at == '\0')
            return true;
        if (*at != ',')
            return wrong("--ctas wants numbers such as 8,16,32, not", value);
    }
}

static bool read_colls(struct st_tune *tune, const char *value)
{
    char word[32];

    tune->colls = 0;
    for (;;) {
        size_t length = strcspn(value, ",");
        int coll;

        snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), value);
        coll = symtuner_coll_parse(word);
        if (coll != SYMTUNER_ALLREDUCE && coll != SYMTUNER_ALLGATHER &&
            coll != SYMTUNER_REDUCESCATTER)
            return wrong("--coll: only allreduce, allgather and reducescatter have symmetric "
                         "kernels, not",
                         word);
        tune->colls |= 1u << coll;
        if (value[length] == '\0')
            return true;
        value += length + 1;
    }
}

static bool read_bytes(struct st_tune *tune, const char *value)
{
    const char *dots = strstr(value, "..");
    char word[64], error[SYMTUNER_ERROR_MAX];

    if (!dots || (size_t)(dots - value) >= sizeof word)
        return wrong("--bytes wants a range such as 1KiB..256MiB, not", value);
    snprintf(word, sizeof word, "%.*s", (int)(dots - value), value);
    if (symtuner_size_parse(word, &tune->low, error, sizeof error) != 0 ||
        symtuner_size_parse(dots + 2, &tune->high, error, sizeof error) != 0) {
        fprintf(stderr, "symtuner %s: --bytes: %s\n", command, error);
        return false;
    }
    if (tune->low < 256 || tune->low & (tune->low - 1) || tune->high & (tune->high - 1) ||
        tune->low > tune->high || tune->high > (uint64_t)4 << 30)
        return wrong("--bytes wants powers of two from 256 to 4GiB, the smaller first, not", value);
    return true;
}

static bool read_number(const char *what, const char *value, int least, int most, int *out)
{
    return st_text_number(value, least, most, out) || wrong(what, value);
}

/* Collectives and sizes that a program used: sums and gathers of the ledger, from .. to. */
static bool take_ledger(struct st_tune *tune, const char *path)
{
    struct st_ledgers ledgers = {0};
    char error[SYMTUNER_ERROR_MAX];
    uint64_t low = UINT64_MAX, high = 0, most = (uint64_t)4 << 30;

    if (!st_ledgers_read(&ledgers, path, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        st_ledgers_free(&ledgers);
        return false;
    }
    tune->colls = 0;
    for (int b = 0; b < ledgers.blocks; b++)
        for (int r = 0; r < ledgers.block[b].rows; r++) {
            const struct st_ledger_row *row = &ledgers.block[b].row[r];

            if (row->coll < SYMTUNER_ALLGATHER)
                continue;
            tune->colls |= 1u << row->coll;
            low = row->lo < low ? row->lo : low;
            high = row->hi > high ? row->hi : high;
        }
    st_ledgers_free(&ledgers);
    if (!tune->colls)
        return wrong("no allreduce, allgather or reducescatter in", path);
    for (tune->low = 256; tune->low * 2 <= low && tune->low < most; tune->low *= 2)
        ;
    for (tune->high = tune->low; tune->high * 2 <= high && tune->high < most; tune->high *= 2)
        ;
    return true;
}

int st_tune_option(struct st_tune *tune, const char *name, const char *option, const char *value)
{
    command = name;
    if (strcmp(option, "--ranks") == 0)
        return read_number("--ranks wants 2 to 16, not", value, 2, 16, &tune->ranks);
    if (strcmp(option, "--rounds") == 0)
        return read_number("--rounds wants 3 to 9, not", value, 3, ST_TUNE_ROUNDS, &tune->rounds);
    if (strcmp(option, "--budget") == 0) {
        tune->rounds = ST_TUNE_ROUNDS;
        return read_number("--budget wants 1 to 86400 seconds, not", value, 1, 86400,
                           &tune->budget_s);
    }
    if (strcmp(option, "--coll") == 0)
        return read_colls(tune, value);
    if (strcmp(option, "--bytes") == 0)
        return read_bytes(tune, value);
    if (strcmp(option, "--dtype") == 0) {
        tune->dtype = symtuner_dtype_parse(value);
        return tune->dtype == SYMTUNER_BFLOAT16 || tune->dtype == SYMTUNER_FLOAT16 ||
               tune->dtype == SYMTUNER_FLOAT32 ||
               wrong("--dtype wants bf16, f16 or f32, not", value);
    }
    if (strcmp(option, "--ctas") == 0 && strcmp(name, "tune") == 0)
        return read_ctas(tune, value);
    if (strcmp(option, "--ledger") == 0)
        return take_ledger(tune, value);
    if (strcmp(option, "--nccl") == 0)
        return tune->nccl_file = value, 1;
    return -1;
}
