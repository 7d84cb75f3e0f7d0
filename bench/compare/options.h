/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of ar_compare; the head of main.c explains them. */
#ifndef AR_COMPARE_OPTIONS_H_
#define AR_COMPARE_OPTIONS_H_

#include <stddef.h>

enum { MOST_ROUNDS = 25 };

struct compare_options {
    /* If ${only} is NULL, all contenders take part. If ${peers} is NULL, there are no peers. */
    const char *ranks, *modes, *types, *only, *out, *peers;
    const char *coll; /* NULL: all-reduce */
    size_t least, most;
    int step, rounds, cold, extra, host, limit, odd, shifted;
};

extern struct compare_options option;

/* Read the command line. ${names}: the ${n} names of contenders, some of them more than once.
 * Returns 1. On an error, prints to stderr which word is wrong and what would be right, and returns
 * 0. */
int options_read(int argc, char **argv, const char *const *names, int n);

/* Is ${word} in the comma-separated ${list}? NULL stands for a list of all words. */
int options_listed(const char *list, const char *word);

#endif
