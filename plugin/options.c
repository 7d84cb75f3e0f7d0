/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/options.h"

#include <stdarg.h>
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

static bool legal(const char *values, const char *value)
{
    return strcmp(values, "text") == 0 || st_word_listed(values, value, strncmp);
}

/* One more thing that is wrong; what does not fit is cut. */
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
        const char *near;

        if (strncmp(*entry, "SYMTUNER_", 9) != 0 || strncmp(*entry, "SYMTUNER_AR_", 12) == 0 ||
            st_word_find(&words, *entry, n) >= 0)
            continue;
        near = st_word_nearest(&words, *entry, n);
        add_error(error, error_size, "%.*s: no such variable%s%s; `symtuner env` lists them",
                  (int)(n > 60 ? 60 : n), *entry, near ? "; did you mean " : "", near ? near : "");
        found = true;
    }
    return found;
}

bool st_options_read(struct st_options *options, char *error, size_t error_size)
{
    bool fine;

    error[0] = '\0';
    fine = !find_strangers(error, error_size);
    for (int i = 0; i < OPTIONS; i++) {
        const struct symtuner_option *row = &table[i].row;
        const char *value = getenv(row->name);

        if (value && !legal(row->values, value)) {
            add_error(error, error_size, "%s=%.60s: write one of %s; using \"%s\"", row->name,
                      value, row->values, row->fallback);
            fine = false;
            value = NULL;
        }
        *(const char **)((char *)options + table[i].offset) = value ? value : row->fallback;
    }
    return fine;
}
