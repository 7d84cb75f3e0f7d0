/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - reads the ledgers that a command line names.
 *
 * To use it, a command puts struct st_ledger_args first in the struct that st_line_read fills, and
 * sets .word = st_ledger_word and .least_words = 1 in its st_command_line. A file that is not a
 * ledger is reported on stderr and counted in ${bad}; the other files are read.
 */
#ifndef ST_LEDGER_ARGS_H_
#define ST_LEDGER_ARGS_H_

#include "cli/ledger/read.h"
#include "cli/options.h"

struct st_ledger_args {
    bool json;
    const char **file; /* room for argc names; st_ledger_args_free frees the array */
    int files, bad;    /* files that were named; how many of them are no ledgers */
    struct st_ledgers ledgers;
};

/* Read the command line with st_line_read, then every file that it names. Returns -1 to go on;
 * otherwise the exit status, with everything freed. */
int st_ledger_args_read(const struct st_command_line *line, int argc, char **argv,
                        struct st_ledger_args *args);
void st_ledger_args_free(struct st_ledger_args *args);

bool st_ledger_word(int place, const char *word, void *self, char error[ST_OPTION_ERROR]);

#endif
