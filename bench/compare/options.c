/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - read the command line of ar_compare; an unknown word is an error. */
#include "bench/compare/options.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "bench/compare/protocol.h"
#include "bench/number.h"

struct compare_options option = {.ranks = "2,4",
                                 .modes = "threads,procs",
                                 .types = "bf16,f32",
                                 .out = "ar_compare.csv",
                                 .least = 1 << 10,
                                 .most = (size_t)512 << 20,
                                 .step = 2,
                                 .rounds = 5,
                                 .cold = 1,
                                 .extra = 1,
                                 .limit = 170};

#define MOST_BYTES ((size_t)8 << 30)

int options_listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == 0))
            return 1;
    }
    return list == NULL;
}

static int wrong(const char *name, const char *value, const char *cure)
{
    fprintf(stderr, "ar_compare: %s%s%s: %s; see the head of bench/compare/main.c\n", name,
            *value ? " " : "", value, cure);
    return 0;
}

/* Check that every word of ${list} is one of ${words}. */
static int known_words(const char *name, const char *list, const char *const *words, int n)
{
    const char *at = list;
    char one[32], cure[512];

    for (;;) {
        size_t length = strcspn(at, ",");
        int known = 0, used;

        for (int i = 0; i < n; i++)
            known |= strncmp(at, words[i], length) == 0 && words[i][length] == 0;
        if (!known) {
            snprintf(one, sizeof one, "\"%.*s\"", (int)(length < 24 ? length : 24), at);
            used = snprintf(cure, sizeof cure, "%s is none of", one);
            for (int i = 0; i < n; i++) {
                int seen = 0;

                for (int k = 0; k < i; k++)
                    seen |= strcmp(words[k], words[i]) == 0;
                if (!seen && used < (int)sizeof cure - 32)
                    used += snprintf(cure + used, sizeof cure - (size_t)used, " %s", words[i]);
            }
            return wrong(name, list, cure);
        }
        if (at[length] == 0)
            return 1;
        at += length + 1;
    }
}

static int known_ranks(const char *list)
{
    const char *at = list, *end;
    long long n;

    for (;;) {
        if (!number_before(at, &end, 2, MOST_RANKS, &n) || (*end != 0 && *end != ','))
            return wrong("--ranks", list, "takes numbers from 2 to 16 with commas between them");
        if (*end == 0)
            return 1;
        at = end + 1;
    }
}

static int folder(const char *path)
{
    DIR *d = opendir(path);

    if (d == NULL)
        return wrong("--peers (or AR_COMPARE_PEERS)", path, "is no folder that can be read");
    closedir(d);
    return 1;
}

/* Apply --quick, --host, --odd or --odd-count. Each of these sets several options. Later words of
 * the command line can change those options again. */
static int shorthand(const char *name)
{
    if (strcmp(name, "--quick") == 0) {
        option.modes = "threads", option.types = "bf16";
        option.rounds = 3, option.cold = 0, option.extra = 0;
        option.limit = 55;
    } else if (strcmp(name, "--host") == 0) {
        option.host = 1, option.cold = 0, option.extra = 0;
        option.most = (size_t)64 << 20;
    } else if (strcmp(name, "--odd") == 0 || strcmp(name, "--odd-count") == 0) {
        option.odd = 1, option.shifted = name[5] == 0;
        option.cold = 0, option.extra = 0;
        option.step = 8, option.most = (size_t)32 << 20;
    } else {
        return 0;
    }
    return 1;
}

static int check(const char *const *names, int n)
{
    static const char *const modes[] = {"threads", "procs"}, *const types[] = {"bf16", "f32"};
    static const char *const colls[] = {"reduce_scatter", "all_gather"};

    if (option.odd && (option.cold || option.extra))
        return wrong("--odd and --odd-count", "", "cannot go with --cold 1 or --extra 1");
    if (option.most < option.least)
        return wrong("--min and --max", "", "the first is above the second");
    if (option.coll != NULL && (option.extra || strchr(option.coll, ',') != NULL))
        return wrong("--coll", option.coll, "takes one collective, and needs --extra 0");
    return known_ranks(option.ranks) && known_words("--modes", option.modes, modes, 2) &&
           known_words("--types", option.types, types, 2) &&
           (option.coll == NULL || known_words("--coll", option.coll, colls, 2)) &&
           (option.only == NULL || known_words("--only", option.only, names, n)) &&
           (option.peers == NULL || option.host || folder(option.peers));
}

int options_read(int argc, char **argv, const char *const *names, int n)
{
    const struct {
        const char *name;
        const char **text;
        int *number, low, high;
        size_t *bytes;
    } options[] = {
        {.name = "--ranks", .text = &option.ranks},
        {.name = "--modes", .text = &option.modes},
        {.name = "--types", .text = &option.types},
        {.name = "--only", .text = &option.only},
        {.name = "--out", .text = &option.out},
        {.name = "--coll", .text = &option.coll},
        {.name = "--peers", .text = &option.peers},
        {.name = "--rounds", .number = &option.rounds, .low = 1, .high = MOST_ROUNDS},
        {.name = "--cold", .number = &option.cold, .low = 0, .high = 1},
        {.name = "--extra", .number = &option.extra, .low = 0, .high = 1},
        {.name = "--limit", .number = &option.limit, .low = 1, .high = 86400},
        {.name = "--min", .bytes = &option.least},
        {.name = "--max", .bytes = &option.most},
        {.name = "--step", .number = &option.step, .low = 2, .high = 1024},
    };
    size_t known = sizeof options / sizeof options[0];

    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = argv[i + 1];
        long long v;
        size_t o = 0;

        if (shorthand(name))
            continue;
        while (o < known && strcmp(name, options[o].name) != 0)
            o++;
        if (o == known)
            return wrong(name, "", "there is no such option");
        if (value == NULL)
            return wrong(name, "", "lacks a value");
        i++;
        if (options[o].text != NULL) {
            *options[o].text = value;
        } else if (options[o].number != NULL) {
            char cure[64];

            snprintf(cure, sizeof cure, "takes a whole number from %d to %d", options[o].low,
                     options[o].high);
            if (!number_read(value, options[o].low, options[o].high, &v))
                return wrong(name, value, cure);
            *options[o].number = (int)v;
        } else if (!number_bytes(value, NULL, 1024, MOST_BYTES, options[o].bytes)) {
            return wrong(name, value, "takes bytes from 1K to 8G, e.g. 64K or 512M");
        }
    }
    return check(names, n);
}
