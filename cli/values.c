/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "nccl/release.h"
#include "nccl/names.h"

static bool unknown(const char *what, const struct st_words *words, const char *value, char *error)
{
    const char *nearest = st_word_nearest(words, value, strlen(value));
    size_t at = st_text_add(error, ST_OPTION_ERROR, 0, "unknown %s \"%.60s\"", what, value);

    if (nearest) {
        st_text_add(error, ST_OPTION_ERROR, at, "; did you mean %s?", nearest);
        return false;
    }
    for (int i = 0; i < words->count; i++)
        at = st_text_add(error, ST_OPTION_ERROR, at, "%s%s", i ? ", " : "; there are ",
                         words->word[i]);
    return false;
}

bool st_read_coll(const char *value, enum symtuner_coll *out, char error[ST_OPTION_ERROR])
{
    int coll = symtuner_coll_parse(value);

    *out = (enum symtuner_coll)coll;
    return coll >= 0 || unknown("collective", &st_colls, value, error);
}

bool st_read_colls(const char *value, void *out, char error[ST_OPTION_ERROR])
{
    unsigned *colls = out;
    char word[32];

    *colls = 0;
    if (strcmp(value, "all") == 0) {
        *colls = (1u << SYMTUNER_COLLS) - 1;
        return true;
    }
    for (;; value++) {
        size_t length = strcspn(value, ",");
        enum symtuner_coll coll;

        snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), value);
        if (!st_read_coll(word, &coll, error))
            return false;
        *colls |= 1u << coll;
        value += length;
        if (*value == '\0')
            return true;
    }
}

_Static_assert(sizeof(enum symtuner_dtype) == sizeof(int), "st_read_dtype stores an int");
_Static_assert(sizeof(enum symtuner_op) == sizeof(int), "st_read_op stores an int");

bool st_read_dtype(const char *value, void *out, char error[ST_OPTION_ERROR])
{
    int *dtype = out;

    *dtype = symtuner_dtype_parse(value);
    return *dtype >= 0 || unknown("type", &st_dtype_words, value, error);
}

bool st_read_op(const char *value, void *out, char error[ST_OPTION_ERROR])
{
    int *op = out;

    *op = symtuner_op_parse(value);
    return *op >= 0 || unknown("operator", &st_all_op_words, value, error);
}

bool st_read_release(const char *value, void *out, char error[ST_OPTION_ERROR])
{
    int *release = out;

    *release = st_release_parse(value);
    if (*release > 0)
        return true;
    return st_option_wrong(error,
                           strchr(value, '/') || strstr(value, ".so")
                               ? "--nccl wants a release such as 2.28.9, --library a file"
                               : "--nccl wants a release such as 2.28.9",
                           value);
}

bool st_read_gpu(const char *value, void *out, char error[ST_OPTION_ERROR])
{
    struct symtuner_machine *machine = out;

    if (strlen(value) >= sizeof machine->gpu)
        return st_option_wrong(error, "--gpu wants the name of a GPU", value);
    strcpy(machine->gpu, value);
    return true;
}

bool st_read_range(const char *value, uint64_t *low, uint64_t *high, char error[ST_OPTION_ERROR])
{
    const char *dots = strstr(value, "..");
    char word[64], why[SYMTUNER_ERROR_MAX];

    if (!dots || (size_t)(dots - value) >= sizeof word)
        return st_option_wrong(error, "--bytes wants a range such as 1KiB..1GiB", value);
    snprintf(word, sizeof word, "%.*s", (int)(dots - value), value);
    if ((word[0] && symtuner_size_parse(word, low, why, sizeof why) != 0) ||
        (dots[2] && symtuner_size_parse(dots + 2, high, why, sizeof why) != 0)) {
        snprintf(error, ST_OPTION_ERROR, "--bytes: %.500s", why);
        return false;
    }
    return *low <= *high || st_option_wrong(error, "--bytes wants the smaller size first", value);
}

bool st_read_numbers(const char *name, const char *value, int most, int room, int *out, int *n_out,
                     char error[ST_OPTION_ERROR])
{
    char wants[120];
    const char *at = value;

    snprintf(wants, sizeof wants, "--%s wants up to %d numbers from 1 to %d such as 2,4,8", name,
             room, most);
    for (*n_out = 0; *n_out < room; at++) {
        char *end;
        long n = strtol(at, &end, 10);

        if (end == at || n < 1 || n > most)
            break;
        out[(*n_out)++] = (int)n;
        at = end;
        if (*at == '\0')
            return true;
        if (*at != ',')
            break;
    }
    return st_option_wrong(error, wants, value);
}

bool st_read_table(const char *value, float table[SYMTUNER_ALGOS * SYMTUNER_PROTOS],
                   char error[ST_OPTION_ERROR])
{
    enum { CELLS = SYMTUNER_ALGOS * SYMTUNER_PROTOS };
    const char *at = value;

    for (int i = 0; i < CELLS; i++) {
        char *end;

        table[i] = strtof(at, &end);
        if (end == at || *end != (i == CELLS - 1 ? '\0' : ',') || isnan(table[i])) {
            snprintf(error, ST_OPTION_ERROR,
                     "--table wants 21 numbers separated by commas; the "
                     "error is at \"%.60s\"",
                     at);
            return false;
        }
        at = end + 1;
    }
    return true;
}

bool st_read_buffers(const char *value, enum symtuner_reg *send, enum symtuner_reg *recv,
                     char error[ST_OPTION_ERROR])
{
    size_t length = strcspn(value, "/");
    const char *other = value[length] ? value + length + 1 : value;
    int one = st_word_find(&st_reg_words, value, length);
    int two = st_word_find(&st_reg_words, other, strlen(other));

    if (one < 0 || two < 0)
        return st_option_wrong(error,
                               "--buffers wants none, comm, window or sym, or two of them as "
                               "SEND/RECEIVE",
                               value);
    *send = (enum symtuner_reg)one;
    *recv = (enum symtuner_reg)two;
    return true;
}

bool st_read_size(const char *value, struct st_size *out, char error[ST_OPTION_ERROR])
{
    static const char *const whose[] = {"/rank", "/call"};
    char word[64], why[SYMTUNER_ERROR_MAX], *end, *slash;

    *out = (struct st_size){.whose = ST_WHOSE_UNSAID};
    snprintf(word, sizeof word, "%s", value);
    slash = strchr(word, '/');
    for (int i = 0; i < 2 && slash; i++)
        if (strcmp(slash, whose[i]) == 0) {
            out->whose = i ? ST_WHOSE_CALL : ST_WHOSE_RANK;
            *slash = '\0';
            slash = NULL;
        }
    errno = 0;
    out->number = strtoull(word, &end, 10);
    if (end != word && strcmp(end, "el") == 0 && word[0] != '-') {
        out->elements = true;
        return (errno == 0 && out->number <= 1ull << 48) ||
               st_option_wrong(error, "a size has at most 2^48 elements", value);
    }
    if (symtuner_size_parse(word, &out->number, why, sizeof why) == 0)
        return true;
    snprintf(error, ST_OPTION_ERROR, "size %.500s", why);
    return false;
}

bool st_ranks_fit(int ranks, int nodes, int gpus, char error[ST_OPTION_ERROR])
{
    const char *wrong = nodes > ranks                  ? "a node would have no rank"
                        : ranks % nodes                ? "they are not spread evenly"
                        : gpus && ranks / nodes > gpus ? "every rank needs a GPU of its own"
                                                       : NULL;
    size_t at;

    if (!wrong)
        return true;
    at = st_text_add(error, ST_OPTION_ERROR, 0, "%d rank%s on %d node%s", ranks,
                     ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s");
    if (gpus)
        at = st_text_add(error, ST_OPTION_ERROR, at, " of %d GPUs", gpus);
    st_text_add(error, ST_OPTION_ERROR, at, ": %s", wrong);
    return false;
}
