/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept.c - reads the lists of findings that the user accepts: --accept ID,ID and
 * SYMTUNER_DOCTOR_ACCEPT. Accepted findings are printed, but do not change the exit status.
 */
#include <string.h>
#include <strings.h>

#include "cli/doctor/doctor.h"
#include "nccl/names.h"

enum { IDS_MAX = 256 };

static bool is_id(const char *word, size_t length, const char **nearest)
{
    const char *id[IDS_MAX];
    struct st_words words = {id, 0};

    for (int i = 0; i < IDS_MAX && st_finding_get(i); i++)
        id[words.count++] = st_finding_get(i)->id;
    *nearest = st_word_nearest(&words, word, length);
    return st_word_find(&words, word, length) >= 0;
}

bool st_doctor_accept_check(const char *source, const char *list, char error[ST_OPTION_ERROR])
{
    while (list && *list) {
        size_t n = strcspn(list, ",");
        const char *nearest;

        if (n > 0 && !is_id(list, n, &nearest)) {
            snprintf(error, ST_OPTION_ERROR, "%s: no finding is called \"%.*s\"%s%s%s", source,
                     (int)(n > 60 ? 60 : n), list, nearest ? "; did you mean " : "",
                     nearest ? nearest : "; symtuner doctor --list names them", nearest ? "?" : "");
            return false;
        }
        list += n + (list[n] == ',');
    }
    return true;
}

bool st_doctor_accepts(const char *list, const char *id)
{
    while (list && *list) {
        size_t n = strcspn(list, ",");

        if (strlen(id) == n && strncasecmp(id, list, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}
