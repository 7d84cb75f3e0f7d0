/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ledger/args.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "symtuner.h"

bool st_ledger_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR])
{
    struct st_ledger_args *args = self;

    (void)error;
    args->file[place] = word;
    args->files = place + 1;
    return true;
}

int st_ledger_args_read(const struct st_command_line *line, int argc, char **argv,
                        struct st_ledger_args *args)
{
    char error[SYMTUNER_ERROR_MAX];
    int status;

    args->file = calloc((size_t)argc, sizeof *args->file);
    if (!args->file) {
        fprintf(stderr, "symtuner %s: out of memory\n", line->command);
        return ST_EXIT_USAGE;
    }
    status = st_line_read(line, argc, argv, args);
    if (status >= 0) {
        st_ledger_args_free(args);
        return status;
    }
    for (int i = 0; i < args->files; i++)
        if (!st_ledgers_read(&args->ledgers, args->file[i], error, sizeof error)) {
            fprintf(stderr, "%s\n", error);
            args->bad++;
        }
    if (args->ledgers.blocks)
        return -1;
    st_ledger_args_free(args);
    return ST_EXIT_USAGE;
}

void st_ledger_args_free(struct st_ledger_args *args)
{
    st_ledgers_free(&args->ledgers);
    free(args->file);
    args->file = NULL;
}
