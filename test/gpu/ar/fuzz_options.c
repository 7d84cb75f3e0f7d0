/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_options.c - reads the command line of ar_fuzz. */
#include "test/gpu/ar/fuzz_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/gpu/ar/fuzz_team.h"
#include "bench/number.h"
#include "symtuner_ar.h"

struct fuzz_options option = {.ranks = 2,
                              .calls = 100000,
                              .timeout = 10000,
                              .limit = 280,
                              .seed = 1,
                              .fork = 1,
                              .reserve = 1,
                              .most = (size_t)64 << 20,
                              .coll = -1,
                              .mode = "threads"};

static int wrong(const char *word, const char *why)
{
    fprintf(stderr, "ar_fuzz: %s %s; see the head of test/gpu/ar/fuzz.c\n", word, why);
    return 0;
}

int fuzz_options_read(int argc, char **argv)
{
    const struct {
        const char *name;
        int *number;
        long long low, high;
    } numbers[] = {
        {"--ranks", &option.ranks, 2, MOST_RANKS},
        {"--gpus", &option.gpus, 1, MOST_RANKS},
        {"--host", &option.host, 0, 1},
        {"--timeout", &option.timeout, 1, 600000},
        {"--limit", &option.limit, 1, 86400},
        {"--say", &option.say, 0, 1},
        {"--fork", &option.fork, 0, 1},
        {"--nonblocking", &option.nonblocking, 0, 1},
        {"--reserve", &option.reserve, 0, 1},
        {"--threads", &option.threads, 32, 1024},
        {"--created", &option.created, 0, 1},
    };
    size_t known = sizeof numbers / sizeof numbers[0];

    for (int i = 1; i < argc; i += 2) {
        const char *o = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        long long value;
        size_t k = 0;

        if (v == NULL)
            return wrong(o, "lacks a value");
        while (k < known && strcmp(o, numbers[k].name) != 0)
            k++;
        if (k < known) {
            if (!number_read(v, numbers[k].low, numbers[k].high, &value))
                return wrong(v, "is out of range");
            *numbers[k].number = (int)value;
        } else if (strcmp(o, "--mode") == 0) {
            option.mode = v;
            /* "all" has the number -1; the other names are in the order of symtuner_ar_coll */
        } else if (strcmp(o, "--coll") == 0) {
            static const char *const colls[] = {"all", "all_reduce", "reduce_scatter",
                                                "all_gather"};

            for (k = 0; k < 4 && strcmp(v, colls[k]) != 0;)
                k++;
            if (k == 4)
                return wrong(v, "is not all, all_reduce, reduce_scatter or all_gather");
            option.coll = (int)k - 1;
        } else if (strcmp(o, "--kernel") == 0) {
            for (option.kernel = NULL, k = 0; symtuner_ar_kernel_name((int)k) != NULL; k++)
                if (strcmp(v, symtuner_ar_kernel_name((int)k)) == 0)
                    option.kernel = v;
            if (option.kernel == NULL)
                return wrong(v, "is no kernel; one_lamport, chunked and others are");
        } else if (strcmp(o, "--calls") == 0 && number_read(v, 1, 1ll << 40, &value)) {
            option.calls = (long)value;
        } else if (strcmp(o, "--seed") == 0 && number_read(v, 0, (1ll << 32) - 1, &value)) {
            option.seed = (unsigned)value;
        } else if (strcmp(o, "--most") == 0 && number_read(v, 1, 64 << 20, &value)) {
            option.most = (size_t)value;
        } else {
            return wrong(o, "is unknown, or its value is out of range");
        }
    }
    option.local = strcmp(option.mode, "local") == 0;
    option.apart = strcmp(option.mode, "procs") == 0;
    if (!option.local && !option.apart && strcmp(option.mode, "threads") != 0)
        return wrong(option.mode, "is not local, threads or procs");
    if (option.gpus == 0 || option.gpus > option.ranks)
        option.gpus = option.ranks;
    if (option.apart && !option.fork)
        return wrong("--fork 0", "is for threads of one process");
    if (option.local && option.nonblocking)
        return wrong("--nonblocking", "needs a communicator; --mode local has none");
    if (option.gpus < option.ranks && !option.local)
        return wrong("--gpus", "below --ranks needs --mode local");
    return 1;
}
