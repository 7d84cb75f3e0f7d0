/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/sources.h"

#include <stdio.h>

#include "rules/rules.h"

enum symtuner_status st_rules_sources(const char *line, const char *path, const char *csv,
                                      symtuner_rules **rules_out, char *error, size_t error_size)
{
    const struct {
        const char *what;
        enum symtuner_status (*read)(const char *, symtuner_rules **, char *, size_t);
    } source[] = {{line, symtuner_rules_inline},
                  {path, symtuner_rules_load},
                  {csv, symtuner_rules_load_csv}};
    enum symtuner_status status = SYMTUNER_OK;
    symtuner_rules *rules = NULL, *more;

    for (int i = 0; i < 3 && status == SYMTUNER_OK; i++) {
        if (!source[i].what || !source[i].what[0])
            continue;
        status = source[i].read(source[i].what, &more, error, error_size);
        if (status != SYMTUNER_OK)
            break;
        if (!rules) {
            rules = more;
            continue;
        }
        if (!st_rules_append(rules, more)) {
            snprintf(error, error_size,
                     "%.200s: with the rules before it more than %d rules; merge some",
                     source[i].what, SYMTUNER_RULES_MAX);
            status = SYMTUNER_ESYNTAX;
        }
        symtuner_rules_free(more);
    }
    if (status == SYMTUNER_OK)
        *rules_out = rules;
    else
        symtuner_rules_free(rules);
    return status;
}
