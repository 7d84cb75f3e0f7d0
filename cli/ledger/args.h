/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - reads the ledgers that a command line names.
 *
 * The command's struct begins with struct st_ledger_args; in its st_command_line, .word is
 * st_ledger_word and .least_words is 1. A file that is not a ledger is reported on stderr and
 * counted in ${bad}; the others are read.
 */
#ifndef ST_LEDGER_ARGS_H_
#define ST_LEDGER_ARGS_H_

#include "cli/ledger/read.h"
#include "cli/options.h"

struct st_ledger_args {
    bool json;
    const char **file; /* as many as argv has; freed by st_ledger_args_free */
    int files, bad;
    struct st_ledgers ledgers;
};

/* Call st_line_read, then read every file that it found. -1: go on. Otherwise the exit status, with
 * everything freed. */
int st_ledger_args_read(const struct st_command_line *line, int argc, char **argv,
                        struct st_ledger_args *args);
void st_ledger_args_free(struct st_ledger_args *args);

bool st_ledger_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR]);

#endif
