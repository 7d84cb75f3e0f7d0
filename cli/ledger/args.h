/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - reads the ledgers that a command line names.
 *
 * To use it, a command puts struct st_ledger_args first in the struct that st_line_read fills. A
 * file that is not a ledger is reported on stderr and counted in ${bad}; the other files are read.
 */
#ifndef ST_LEDGER_ARGS_H_
#define ST_LEDGER_ARGS_H_

#include "cli/ledger/read.h"
#include "cli/options.h"

struct st_ledger_args {
    bool json;
    int files, bad; /* files that were named; how many of them are no ledgers */
    struct st_ledgers ledgers;
};

/* Read the command line with st_line_read, then every file that it names. Returns -1 to go on: the
 * caller frees the ledgers. Otherwise returns the exit status. */
int st_ledger_args_read(const struct st_command_line *line, int argc, char **argv,
                        struct st_ledger_args *args);

#endif
