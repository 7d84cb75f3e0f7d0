/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_options.h - what the command line asks for; the head of fuzz.c explains it. */
#ifndef AR_FUZZ_OPTIONS_H_
#define AR_FUZZ_OPTIONS_H_

#include <stddef.h>

struct fuzz_options {
    int ranks, gpus, local, apart, host, timeout, limit, say, fork, nonblocking;
    long calls;
    unsigned seed;
    size_t most;
    const char *kernel, *mode;
};

extern struct fuzz_options option;

/* 1, or 0 after saying which word is wrong. */
int fuzz_options_read(int argc, char **argv);

#endif
