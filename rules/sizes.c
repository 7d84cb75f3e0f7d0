/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/sizes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "symtuner.h"

static const struct {
    const char *word;
    uint64_t bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *st_size_read(const char *text, size_t len, uint64_t *bytes_out)
{
    uint64_t whole = 0, part = 0, scale = 1, unit = 0;
    size_t i = 0;

    if (len == 0 || !digit(text[0]))
        return "a size starts with a digit";
    for (; i < len && digit(text[i]); i++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(text[i] - '0'), &whole))
            return "the size is larger than 2^64";
    if (i < len && text[i] == '.') {
        size_t first = ++i;

        for (; i < len && digit(text[i]) && i < first + 6; i++, scale *= 10)
            part = part * 10 + (uint64_t)(text[i] - '0');
        if (i == first)
            return "a digit must follow the point";
        if (i < len && digit(text[i]))
            return "at most six digits after the point";
    }
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        if (strlen(units[u].word) == len - i && strncmp(units[u].word, text + i, len - i) == 0)
            unit = units[u].bytes;
    if (unit == 0)
        return len - i <= 2 && (text[i] == 'K' || text[i] == 'k')
                   ? "\"K\" means 1000 and 1024; write KiB or kB"
                   : "unknown unit; write B, KiB, MiB, GiB, TiB, kB, MB, GB or TB";
    if (part * unit % scale != 0)
        return "the size is not a whole number of bytes";
    if (__builtin_mul_overflow(whole, unit, &whole) ||
        __builtin_add_overflow(whole, part * unit / scale, &whole))
        return "the size is larger than 2^64";
    *bytes_out = whole;
    return NULL;
}

char *st_size_write(uint64_t bytes, char *text, size_t size)
{
    int u = 1;

    for (int i = 2; i <= 5; i++)
        if (bytes && bytes % units[i].bytes == 0)
            u = i;
    snprintf(text, size, "%llu%s", (unsigned long long)(bytes / units[u].bytes), units[u].word);
    return text;
}

int symtuner_size_parse(const char *text, uint64_t *bytes_out, char *error, size_t error_size)
{
    const char *wrong = text && bytes_out ? st_size_read(text, strlen(text), bytes_out) : "is NULL";

    if (wrong)
        snprintf(error, error ? error_size : 0, "\"%.60s\": %s", text ? text : "", wrong);
    return wrong ? -1 : 0;
}
