/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_args.h - the arguments of a command that reads ledgers: options and files in any order.
 */
#ifndef ST_LEDGER_ARGS_H_
#define ST_LEDGER_ARGS_H_

#include <stdbool.h>

#include "cli/ledger_read.h"

/* One command's reader of options besides --help and --json. ${argv} begins with the option: how
 * many arguments it took, 0 when it is unknown, -1 when it was wrong (and has been reported). */
typedef int st_ledger_option(char **argv, void *self);

struct st_ledger_args {
    const char *command, *help;
    st_ledger_option *option;
    void *self;               /* for ${option}                                  */
    bool json;                /* out                                            */
    int files;                /* out                                            */
    struct st_ledgers ledgers; /* out; freed by the caller, unless that is done */
};

/* -1: go on with ${args->ledgers}. Else the exit status, everything is reported and freed. */
int st_ledger_args_read(struct st_ledger_args *args, char **argv);

#endif
