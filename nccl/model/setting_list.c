/* SPDX-License-Identifier: Apache-2.0 */
/* setting_list.c - reads the lists in NCCL_ALGO and NCCL_PROTO. */
#include "nccl/model/setting_list.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Does a part of a list allow ${word}? The part is the text "[^]word,word" from ${at} to ${end}. */
static bool part_allows(const char *at, const char *end, const char *word)
{
    bool invert = at < end && *at == '^', named = false;

    for (at += invert; at < end; at++) {
        size_t len = strcspn(at, ",;");

        named |= strlen(word) == len && strncasecmp(word, at, len) == 0;
        at += len;
    }
    return named != invert;
}

enum st_says st_list_says(const char *list, const char *func, const char *word)
{
    enum st_says says = ST_SAYS_NOTHING;

    while (list && *list) {
        const char *end = list + strcspn(list, ";"), *colon = list + strcspn(list, ":;");
        bool all = colon == end;

        if (all || (strlen(func) == (size_t)(colon - list) &&
                    strncasecmp(func, list, strlen(func)) == 0))
            says = part_allows(all ? list : colon + 1, end, word) ? ST_SAYS_YES : ST_SAYS_NO;
        list = end + (*end == ';');
    }
    return says;
}
