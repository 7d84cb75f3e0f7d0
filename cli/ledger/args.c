/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ledger/args.h"

#include <stdio.h>

#include "cli/commands.h"
#include "symtuner.h"

int st_ledger_args_read(const struct st_command_line *line, int argc, char **argv,
                        struct st_ledger_args *args)
{
    char error[SYMTUNER_ERROR_MAX];
    int status = st_line_read(line, argc, argv, args);

    if (status >= 0)
        return status;
    for (; argv[1 + args->files]; args->files++)
        if (!st_ledgers_read(&args->ledgers, argv[1 + args->files], error, sizeof error)) {
            fprintf(stderr, "%s\n", error);
            args->bad++;
        }
    if (args->ledgers.blocks)
        return -1;
    st_ledgers_free(&args->ledgers);
    return ST_EXIT_USAGE;
}
