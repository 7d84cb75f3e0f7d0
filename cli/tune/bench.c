/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - symtuner bench: times NCCL alone, NCCL with symtuner's plugin, and symtuner's
 * kernels. */
#include "cli/commands.h"
#include "cli/own_file.h"
#include "cli/tune/tune.h"
#include "symtuner_why.h"

static const struct st_command_line line = {
    .command = "bench",
    .usage = "[options]\n",
    .about =
        "Time collectives side by side: NCCL's general kernels, its symmetric kernels, the same "
        "with\nsymtuner's plugin, and symtuner's own kernels. Each kernel's result is checked "
        "before it is timed.\nEach round runs every setting once. Writes no rules; symtuner tune "
        "does.\n",
    .after = "Exit 0: done. 1: failed. 2: wrong usage or unreadable file. 77: cannot measure here, "
             "and why.\n"
             "example: symtuner bench --bytes 64KiB..64MiB --rules my.rules\n",
    .row = st_tune_options,
    .rows = ST_BENCH_OPTIONS};

int st_cmd_bench(int argc, char **argv)
{
    /* static, because it is large */
    static struct st_tune tune = {.ctas = {0, ST_TUNE_PLUGIN}, .n_ctas = 2, .out = ""};
    int status;

    st_tune_defaults(&tune);
    status = st_line_read(&line, argc, argv, &tune);
    if (status >= 0)
        return status;
    if (tune.raw[0] && !(st_own_file_possible("bench", tune.raw) &&
                         st_own_file_free("bench", tune.raw, tune.force)))
        return ST_EXIT_USAGE;
    status = tune.rules ? st_tune_try_rules(&tune, tune.rules, 0) : ST_EXIT_FINE;
    if (status != ST_EXIT_FINE)
        return status;
    status = st_tune_find_gpus(&tune, "bench", !tune.no_kernels);
    if (status < 0)
        status = st_tune_measure(&tune, "bench");
    if (status != ST_EXIT_FINE)
        return status;
    st_tune_choose(&tune);
    (tune.json ? st_tune_print_json : st_tune_print)(&tune, stdout);
    if (tune.rules && st_tune_try_rules(&tune, tune.rules, tune.nccl) != ST_EXIT_FINE)
        return st_fail(ST_EXIT_FINDINGS, "symtuner bench: these times are without the rules\n");
    return ST_EXIT_FINE;
}
