/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of ar_compare; the head of main.c explains them. */
#ifndef AR_COMPARE_OPTIONS_H_
#define AR_COMPARE_OPTIONS_H_

#include <stddef.h>

enum { MOST_ROUNDS = 25 };

struct compare_options {
    const char *ranks, *modes, *types, *only, *out, *peers; /* lists; only: NULL means all */
    const char *coll;                                       /* a word of compare_ops, or NULL */
    size_t least, most;
    int step, rounds, cold, extra, host, limit, odd, shifted;
};

extern struct compare_options option;

/* Read the command line. ${names}: the contenders, some of them more than once. Returns 1; or 0
 * after a line on stderr that says which word is wrong and what would be right. */
int options_read(int argc, char **argv, const char *const *names, int n);

/* Is ${word} in the comma-separated ${list}? A list that is NULL holds every word. */
int options_listed(const char *list, const char *word);

#endif
