/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - what the command line asks for; the head of main.c explains it. */
#ifndef AR_COMPARE_OPTIONS_H_
#define AR_COMPARE_OPTIONS_H_

#include <stddef.h>

enum { MOST_ROUNDS = 25 };

struct compare_options {
    const char *ranks, *modes, *types, *only, *out, *peers; /* lists; only: NULL is everybody */
    size_t least, most;
    int step, rounds, cold, extra, host, limit, odd, shifted;
};

extern struct compare_options option;

/* ${names}: the contenders, which may come more than once. 1, or 0 after saying on stderr which
 * word is wrong and what would be right. */
int options_read(int argc, char **argv, const char *const *names, int n);

/* Whether ${word} is in the comma-separated ${list}; NULL holds everything. */
int options_listed(const char *list, const char *word);

#endif
