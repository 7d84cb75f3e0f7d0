/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/names.h"
#include "symtuner.h"

extern char **environ;

const char *const st_mode_word[] = {"steer", "observe", "off"};

enum kind { TEXT, SWITCH, WORD };
_Static_assert(sizeof(enum st_mode) == sizeof(int) && sizeof(enum st_signal) == sizeof(int) &&
                   sizeof(enum st_log) == sizeof(int),
               "store() writes an enum as an int");

#define KIND_OF(member)                                                                            \
    _Generic(((struct st_options *)0)->member, st_text_option : TEXT, bool : SWITCH, default : WORD)

static const struct {
    struct symtuner_option row;
    size_t offset;
    enum kind kind;
} table[] = {
#define ST_OPTION_ROW(type, member, variable, fallback, values, help)                              \
    {{variable, fallback, values, help}, offsetof(struct st_options, member), KIND_OF(member)},
    ST_OPTION_MAP(ST_OPTION_ROW)
#undef ST_OPTION_ROW
};
enum { OPTIONS = sizeof table / sizeof *table };

/* Variables that no longer exist, and what to do instead. */
static const struct {
    const char *name, *cure;
} gone[] = {
    {"SYMTUNER_SETENV", "symtuner writes no variable any more; unset it, and set NCCL_ENV_PLUGIN="
                        "libsymtuner.so so that NCCL asks for the CTA count (2.28.7 and later)"},
    {"SYMTUNER_MAX_BYTES", "the kernels' own table has the limit; unset it, and set "
                           "SYMTUNER_AR_BESIDE=alone if nothing runs beside the collectives"},
    {"SYMTUNER_PERCALL", "a CTA count per call could reach the wrong call; unset it, and write one "
                         "count in [process]"},
};

static const char *gone_cure(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (strlen(gone[i].name) == len && strncmp(gone[i].name, name, len) == 0)
            return gone[i].cure;
    return NULL;
}

int symtuner_option_get(int index, struct symtuner_option *option_out)
{
    if (index < 0 || index >= OPTIONS)
        return 0;
    *option_out = table[index].row;
    return 1;
}

/* Append one error to the list ${error}. Text that does not fit is cut off. */
static void add_error(char *error, size_t error_size, const char *format, ...)
{
    size_t used = strlen(error);
    va_list args;

    if (used && used + 2 < error_size)
        used = (size_t)(stpcpy(error + used, "; ") - error);
    va_start(args, format);
    vsnprintf(error + used, error_size - used, format, args);
    va_end(args);
}

static bool find_strangers(char *error, size_t error_size)
{
    const char *word[OPTIONS];
    const struct st_words words = {word, OPTIONS};
    bool found = false;

    for (int i = 0; i < OPTIONS; i++)
        word[i] = table[i].row.name;
    for (char **entry = environ; entry && *entry; entry++) {
        size_t n = strcspn(*entry, "=");
        const char *near, *cure;

        if (strncmp(*entry, "SYMTUNER_", 9) != 0 || strncmp(*entry, "SYMTUNER_AR_", 12) == 0 ||
            st_word_find(&words, *entry, n) >= 0)
            continue;
        found = true;
        if ((cure = gone_cure(*entry, n)) != NULL) {
            add_error(error, error_size, "%.*s is gone: %s", (int)n, *entry, cure);
            continue;
        }
        near = st_word_nearest(&words, *entry, n);
        add_error(error, error_size, "%.*s: no such variable%s%s; `symtuner env` lists them",
                  (int)(n > 60 ? 60 : n), *entry, near ? "; did you mean " : "", near ? near : "");
    }
    return found;
}

/* Return the index of ${value} in a list such as "steer|observe|off", which must contain it. */
static int word_number(const char *values, const char *value)
{
    size_t len = strlen(value);
    int number = 0;

    for (;; number++) {
        size_t n = strcspn(values, "|");

        if ((n == len && strncmp(values, value, n) == 0) || !values[n])
            return number;
        values += n + 1;
    }
}

static void store(void *member, enum kind kind, const char *values, const char *value)
{
    switch (kind) {
    case TEXT:
        *(const char **)member = value;
        break;
    case SWITCH:
        *(bool *)member = strcmp(value, "1") == 0;
        break;
    case WORD:
        *(int *)member = word_number(values, value);
        break;
    }
}

bool st_options_read(struct st_options *options, char *error, size_t error_size)
{
    bool fine;

    error[0] = '\0';
    fine = !find_strangers(error, error_size);
    for (int i = 0; i < OPTIONS; i++) {
        const struct symtuner_option *row = &table[i].row;
        const char *value = getenv(row->name);

        if (value && strcmp(row->values, "text") != 0 &&
            !st_word_listed(row->values, value, strncmp)) {
            /* For a wrong value the JAX package raises an error; it does not use the default. */
            bool jax = strncmp(row->help, "JAX package", 11) == 0;

            add_error(error, error_size, "%s=%.60s: write one of %s; %s\"%s\"", row->name, value,
                      row->values, jax ? "JAX stops here, default " : "using ", row->fallback);
            fine = false;
            value = NULL;
        }
        store((char *)options + table[i].offset, table[i].kind, row->values,
              value ? value : row->fallback);
    }
    return fine;
}
