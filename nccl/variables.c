/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/variables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS(...)                                                                                 \
    {                                                                                              \
        (const char *const[]){__VA_ARGS__},                                                        \
            (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))                     \
    }
static const struct st_words transports = WORDS("auto", "peer", "host");
static const struct st_words links = WORDS("nvlink", "pcie");
static const struct st_words overlaps = WORDS("0", "1", "2"); /* in the order of enum ar_start */
static const struct st_words ipcs = WORDS("0", "1", "auto");  /* in the order of enum ar_ipc_mode */

/* The variables of libsymtuner_ar.so: X(name, members of struct st_variable). */
#define KERNEL_MAP(X)                                                                              \
    X("SYMTUNER_AR_KERNEL", .words = &st_kernel_words)                                             \
    X("SYMTUNER_AR_CTAS", .lowest = 1, .highest = ST_VARIABLE_CTAS)                                \
    X("SYMTUNER_AR_MAX_CTAS", .lowest = 1, .highest = ST_VARIABLE_CTAS)                            \
    X("SYMTUNER_AR_TRANSPORT", .words = &transports)                                               \
    X("SYMTUNER_AR_LINKS", .words = &links)                                                        \
    X("SYMTUNER_AR_BESIDE", .words = &st_beside_words)                                             \
    X("SYMTUNER_AR_OVERLAP", .words = &overlaps)                                                   \
    X("SYMTUNER_AR_PROBE", .highest = 1)                                                           \
    X("SYMTUNER_AR_PROBE_FILE", .words = NULL)                                                     \
    X("SYMTUNER_AR_NODES", .highest = 1)                                                           \
    X("SYMTUNER_AR_SHARE_GPU", .highest = 1)                                                       \
    X("SYMTUNER_AR_IPC", .words = &ipcs)                                                           \
    X("SYMTUNER_AR_LAG", .lowest = 1, .highest = 8)                                                \
    X("SYMTUNER_AR_TIMEOUT_MS", .lowest = 1, .highest = 86400000)                                  \
    X("SYMTUNER_AR_TEST_STALL_US", .highest = 100000)

static const char *const kernel_variable[] = {
#define X(name, ...) name,
    KERNEL_MAP(X)
#undef X
};
const struct st_words st_kernel_variables = {kernel_variable,
                                             sizeof kernel_variable / sizeof *kernel_variable};

static const struct st_variable table[] = {
#define X(name, ...) {name, __VA_ARGS__},
    KERNEL_MAP(X)
#undef X
    /* the drop-in's */
    {"SYMTUNER_ONLY", .words = &st_kernel_coll_words, .list = true},
    {"SYMTUNER_VERIFY", .highest = ST_VARIABLE_VERIFY},
    {"SYMTUNER_MAX_COMMS", .highest = 4096},
};
enum { ROWS = sizeof table / sizeof *table };

const struct st_variable *st_variable_get(int index)
{
    return index >= 0 && index < ROWS ? &table[index] : NULL;
}

const struct st_variable *st_variable_find(const char *name, size_t length)
{
    for (int i = 0; i < ROWS; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

/* Read a number that has only digits: strtol would also accept spaces and signs. */
static bool read_number(const struct st_variable *variable, const char *value, int *out)
{
    char *end;
    long number;

    errno = 0;
    number = strtol(value, &end, 10);
    if (errno != 0 || *end != '\0' || *value < '0' || *value > '9' || number < variable->lowest ||
        number > variable->highest)
        return false;
    *out = (int)number;
    return true;
}

/* Return the index of the ${length} bytes at ${word} in ${words}, or -1. Case matters. */
static int find_word(const struct st_words *words, const char *word, size_t length)
{
    for (int i = 0; i < words->count; i++)
        if (strlen(words->word[i]) == length && memcmp(words->word[i], word, length) == 0)
            return i;
    return -1;
}

static bool read_list(const struct st_words *words, const char *value, int *out)
{
    int bits = 0;

    for (const char *at = value; *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        int index = find_word(words, at, length);

        if (index < 0)
            return false;
        bits |= 1 << index;
        at += length;
    }
    *out = bits;
    return true;
}

bool st_variable_value(const struct st_variable *variable, const char *value, int *out)
{
    int index;

    if (*value == '\0' || (!variable->words && variable->highest == 0))
        return true;
    if (!variable->words)
        return read_number(variable, value, out);
    if (variable->list)
        return read_list(variable->words, value, out);
    index = find_word(variable->words, value, strlen(value));
    if (index >= 0)
        *out = index;
    return index >= 0;
}

void st_variable_legal(const struct st_variable *variable, char text[ST_VARIABLE_LEGAL])
{
    const struct st_words *words = variable->words;
    size_t at = 0;

    if (!words) {
        snprintf(text, ST_VARIABLE_LEGAL, "a number from %d to %d", variable->lowest,
                 variable->highest);
        return;
    }
    at = (size_t)snprintf(text, ST_VARIABLE_LEGAL, "%s of", variable->list ? "some" : "one");
    for (int i = 0; i < words->count && at < ST_VARIABLE_LEGAL; i++)
        at += (size_t)snprintf(text + at, ST_VARIABLE_LEGAL - at, "%c%s",
                               variable->list && i > 0 ? ',' : ' ', words->word[i]);
}
