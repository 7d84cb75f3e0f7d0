/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - the ledgers that a command line names.
 *
 * A command's struct begins with struct st_ledger_args; its line has st_ledger_word as the reader
 * of words and least_words = 1. A file that is no ledger does not hide the others: it is named on
 * stderr, and ${bad} counts it.
 */
#ifndef ST_LEDGER_ARGS_H_
#define ST_LEDGER_ARGS_H_

#include "cli/ledger/read.h"
#include "cli/options.h"

struct st_ledger_args {
    bool json;
    const char **file; /* room for all of argv; st_ledger_args_free */
    int files, bad;
    struct st_ledgers ledgers;
};

/* st_line_read, then every file that it found. -1: go on. Else the exit status; nothing is left
 * to free. */
int st_ledger_args_read(const struct st_command_line *line, int argc, char **argv,
                        struct st_ledger_args *args);
void st_ledger_args_free(struct st_ledger_args *args);

bool st_ledger_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR]);

#endif
