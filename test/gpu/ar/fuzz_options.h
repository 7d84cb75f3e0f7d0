/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_options.h - the options of ar_fuzz, which the first comment of fuzz.c explains. */
#ifndef AR_FUZZ_OPTIONS_H_
#define AR_FUZZ_OPTIONS_H_

#include <stddef.h>

struct fuzz_options {
    int ranks, gpus, local, apart, host, timeout, limit, say, fork, nonblocking, reserve, threads,
        created;
    long calls;
    unsigned seed;
    size_t most;
    const char *kernel, *mode;
    int coll; /* enum symtuner_ar_coll; -1: all */
};

extern struct fuzz_options option;

/* Read the command line. Returns 1. If a word is wrong, prints a line that says which, and returns
 * 0. */
int fuzz_options_read(int argc, char **argv);

#endif
