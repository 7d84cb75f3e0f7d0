/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/names.h"
#include "symtuner.h"

extern char **environ;

static const struct {
    struct symtuner_option row;
    size_t offset;
} table[] = {
#define ST_OPTION_ROW(member, variable, fallback, values, help)                                    \
    {{variable, fallback, values, help}, offsetof(struct st_options, member)},
    ST_OPTION_MAP(ST_OPTION_ROW)
#undef ST_OPTION_ROW
};
enum { OPTIONS = sizeof table / sizeof *table };

int symtuner_option_get(int index, struct symtuner_option *option_out)
{
    if (index < 0 || index >= OPTIONS)
        return 0;
    *option_out = table[index].row;
    return 1;
}

/* Is ${value} one of "a|b|c"? */
static bool legal(const char *values, const char *value)
{
    size_t n = strlen(value);

    if (strcmp(values, "text") == 0)
        return true;
    for (;; values++) {
        size_t word = strcspn(values, "|");

        if (word == n && strncmp(values, value, n) == 0)
            return true;
        values += word;
        if (*values == '\0')
            return false;
    }
}

static bool find_stranger(char *error, size_t error_size)
{
    const char *word[OPTIONS];
    const struct st_words words = {word, OPTIONS};

    for (int i = 0; i < OPTIONS; i++)
        word[i] = table[i].row.name;
    for (char **entry = environ; entry && *entry; entry++) {
        size_t n = strcspn(*entry, "=");
        const char *near;

        if (strncmp(*entry, "SYMTUNER_", 9) != 0 || strncmp(*entry, "SYMTUNER_AR_", 12) == 0 ||
            st_word_find(&words, *entry, n) >= 0)
            continue;
        near = st_word_nearest(&words, *entry, n);
        snprintf(error, error_size, "%.*s: no such variable%s%s; `symtuner env` lists them",
                 (int)(n > 60 ? 60 : n), *entry, near ? "; did you mean " : "", near ? near : "");
        return true;
    }
    return false;
}

bool st_options_read(struct st_options *options, char *error, size_t error_size)
{
    bool fine = !find_stranger(error, error_size);

    for (int i = 0; i < OPTIONS; i++) {
        const struct symtuner_option *row = &table[i].row;
        const char *value = getenv(row->name);

        if (value && !legal(row->values, value)) {
            snprintf(error, error_size, "%s=%.60s: write one of %s; using \"%s\"", row->name, value,
                     row->values, row->fallback);
            fine = false;
            value = NULL;
        }
        *(const char **)((char *)options + table[i].offset) = value ? value : row->fallback;
    }
    return fine;
}
