/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - symtuner bench: NCCL alone, NCCL with symtuner, symtuner's kernels, side by side. */
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/tune.h"
#include "symtuner_why.h"

static const char help[] =
    "usage: symtuner bench [options]\n"
    "Time collectives side by side: NCCL's general kernels, its symmetric kernels, the same with\n"
    "symtuner's plugin, and symtuner's own kernels. Every result is checked before it is timed; "
    "each\n"
    "round runs every setting once, in turns. Writes no rules; symtuner tune does.\n"
    "  --ranks N           GPUs to use (all)\n"
    "  --coll C,C,...      allreduce, allgather, reducescatter (allreduce)\n"
    "  --dtype T           bf16, f16 or f32 (bf16)\n"
    "  --bytes LOW..HIGH   powers of two of NCCL's nBytes (1KiB..256MiB)\n"
    "  --rounds N          3 to 9 (3)\n"
    "  --budget SECONDS    3 rounds, and more, up to 9, as long as they fit into this time\n"
    "  --rules FILE        rules for the plugin and symtuner's kernels (built-in defaults)\n"
    "  --no-kernels        without libsymtuner_ar.so\n"
    "  --nccl FILE         the libnccl.so.2 to measure (the loader's)\n"
    "  --csv FILE          also write the raw data\n"
    "  --json              for programs\n"
    "Exit 0: done. 1: failed. 77: cannot measure here, and why.\n"
    "example: symtuner bench --bytes 64KiB..64MiB --rules my.rules\n";

int st_cmd_bench(int argc, char **argv)
{
    static struct st_tune tune; /* large */
    time_t today = time(NULL);
    bool json = false, kernels = true;
    int status;

    tune = (struct st_tune){.rounds = 3,
                            .dtype = SYMTUNER_BFLOAT16,
                            .ctas = {0, ST_TUNE_PLUGIN},
                            .n_ctas = 2,
                            .out = "",
                            .colls = 1u << SYMTUNER_ALLREDUCE,
                            .low = 1 << 10,
                            .high = 256 << 20,
                            .machine = {.nvlink = -1, .multicast = -1}};
    strftime(tune.date, sizeof tune.date, "%Y-%m-%d", gmtime(&today));
    for (int i = 1; i < argc; i++) {
        int read;

        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return ST_EXIT_FINE;
        }
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--no-kernels") == 0) {
            kernels = false;
        } else if (i + 1 == argc) {
            fprintf(stderr,
                    "symtuner bench: unknown option, or a value is missing after "
                    "\"%.60s\"\n",
                    argv[i]);
            return ST_EXIT_USAGE;
        } else if (strcmp(argv[i], "--rules") == 0) {
            tune.rules = argv[++i];
        } else if (strcmp(argv[i], "--csv") == 0) {
            snprintf(tune.raw, sizeof tune.raw, "%.590s", argv[++i]);
        } else {
            read = st_tune_option(&tune, "bench", argv[i], argv[i + 1]);
            if (read < 0)
                fprintf(stderr, "symtuner bench: unknown option \"%.60s\"\n", argv[i]);
            if (read <= 0)
                return ST_EXIT_USAGE;
            i++;
        }
    }
    status = st_tune_find_gpus(&tune, "bench", kernels);
    if (status < 0)
        status = st_tune_measure(&tune, "bench");
    if (status != ST_EXIT_FINE)
        return status;
    st_tune_choose(&tune);
    (json ? st_tune_print_json : st_tune_print)(&tune, stdout);
    return ST_EXIT_FINE;
}
