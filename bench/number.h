/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - read decimal numbers from command lines. A number out of bounds, or with anything
 * after it, is an error. atoi() would read a typing error as 0, and a test with 0 rounds always
 * passes. */
#ifndef BENCH_NUMBER_H_
#define BENCH_NUMBER_H_

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read a whole number from ${low} to ${high} at the start of ${text}; a sign is an error. If ${end}
 * is NULL, nothing may follow the number. Otherwise *end is set to what follows the number. Returns
 * 1, or on an error 0, with *value unchanged. */
static inline int number_before(const char *text, const char **end, long long low, long long high,
                                long long *value)
{
    char *stop;
    long long v;

    if (*text < '0' || *text > '9')
        return 0;
    errno = 0;
    v = strtoll(text, &stop, 10);
    if (errno != 0 || v < low || v > high || (end == NULL && *stop != 0))
        return 0;
    if (end != NULL)
        *end = stop;
    *value = v;
    return 1;
}

static inline int number_read(const char *text, long long low, long long high, long long *value)
{
    return number_before(text, NULL, low, high, value);
}

/* Return the value of option ${name} of ${program}. End the program if ${text} is not a number from
 * ${low} to ${high}. */
static inline int number_must(const char *program, const char *name, const char *text,
                              long long low, long long high)
{
    long long value = 0;

    if (!number_read(text, low, high, &value)) {
        fprintf(stderr, "%s: %s takes a whole number from %lld to %lld, not \"%s\"\n", program,
                name, low, high, text);
        exit(2);
    }
    return (int)value;
}

/* Return the index of ${text} in ${words}, an array of ${n} words. If no word equals ${text}, end
 * the program. */
static inline int word_must(const char *program, const char *name, const char *text,
                            const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    fprintf(stderr, "%s: %s takes", program, name);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : i + 1 < n ? "," : " or", words[i]);
    fprintf(stderr, ", not \"%s\"\n", text);
    exit(2);
}

/* Read a number of bytes from ${low} to ${high}. A K, M or G behind the number multiplies it by
 * 2^10, 2^20 or 2^30. ${end} and the result are as in number_before(). */
static inline int number_bytes(const char *text, const char **end, size_t low, size_t high,
                               size_t *bytes)
{
    static const char units[] = "KMG";
    const char *stop, *unit;
    long long v;
    int shift = 0;

    if (!number_before(text, &stop, 0, 1ll << 40, &v))
        return 0;
    if (*stop != 0 && (unit = strchr(units, *stop)) != NULL) {
        shift = 10 * (int)(unit - units + 1);
        stop++;
    }
    if ((end == NULL && *stop != 0) || (size_t)v > high >> shift || (size_t)v << shift < low)
        return 0;
    if (end != NULL)
        *end = stop;
    *bytes = (size_t)v << shift;
    return 1;
}

#endif
