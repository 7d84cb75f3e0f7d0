/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_args.c - options and ledgers of one command line, in any order. */
#include "cli/ledger_args.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "symtuner.h"

enum { GO_ON = -1 };

/* One argument, and the value that belongs to it; moves ${argv} past them. */
static int read_one(struct st_ledger_args *args, char ***argv)
{
    const char *word = **argv;
    char error[SYMTUNER_ERROR_MAX];
    int taken = 1;

    if (strcmp(word, "--help") == 0) {
        fputs(args->help, stdout);
        return ST_EXIT_FINE;
    }
    if (strcmp(word, "--json") == 0) {
        args->json = true;
    } else if (strncmp(word, "--", 2) == 0) {
        taken = args->option(*argv, args->self);
        if (taken == 0)
            fprintf(stderr, "symtuner %s: unknown option \"%.60s\"\n", args->command, word);
        if (taken <= 0)
            return ST_EXIT_USAGE;
    } else if (!st_ledgers_read(&args->ledgers, word, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return ST_EXIT_FINDINGS;
    } else {
        args->files++;
    }
    *argv += taken;
    return GO_ON;
}

int st_ledger_args_read(struct st_ledger_args *args, char **argv)
{
    int status = GO_ON;

    for (argv++; *argv && status == GO_ON;)
        status = read_one(args, &argv);
    if (status == GO_ON && args->files == 0) {
        fputs(args->help, stderr);
        status = ST_EXIT_USAGE;
    }
    if (status != GO_ON)
        st_ledgers_free(&args->ledgers);
    return status;
}
