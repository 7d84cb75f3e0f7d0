/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_options.h - the options of ar_fuzz; the head of fuzz.c explains them. */
#ifndef AR_FUZZ_OPTIONS_H_
#define AR_FUZZ_OPTIONS_H_

#include <stddef.h>

struct fuzz_options {
    int ranks, gpus, local, apart, host, timeout, limit, say, fork, nonblocking, reserve, threads;
    long calls;
    unsigned seed;
    size_t most;
    const char *kernel, *mode;
    int coll; /* enum symtuner_ar_coll; -1: all */
};

extern struct fuzz_options option;

/* Read the command line. Returns 1; or 0 after a line that says which word is wrong. */
int fuzz_options_read(int argc, char **argv);

#endif
