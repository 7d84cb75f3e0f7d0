/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the subcommands. Each gets the part of argv that begins with its own name, and
 * returns the exit status: 0 fine, 1 findings, 2 wrong usage or a file that cannot be read, 77
 * cannot run here. A subcommand prints results on stdout and errors on stderr. `run` also has other
 * exit statuses: that of the program that it ran, or 126 or 127 if it could not start the program.
 */
#ifndef ST_COMMANDS_H_
#define ST_COMMANDS_H_

#include "symtuner.h"

enum { ST_EXIT_FINE = 0, ST_EXIT_FINDINGS = 1, ST_EXIT_USAGE = 2, ST_EXIT_CANNOT = 77 };

/* Return the exit status of a command whose attempt to load a file ended with ${status}: USAGE if
 * the file cannot be read, FINDINGS if there is an error in it. */
static inline int st_exit_of(enum symtuner_status status)
{
    return status == SYMTUNER_OK    ? ST_EXIT_FINE
           : status == SYMTUNER_EIO ? ST_EXIT_USAGE
                                    : ST_EXIT_FINDINGS;
}

typedef int st_command(int argc, char **argv);

st_command st_cmd_agree, st_cmd_bench, st_cmd_check, st_cmd_decide, st_cmd_diff, st_cmd_doctor,
    st_cmd_env, st_cmd_run, st_cmd_table, st_cmd_top, st_cmd_tune, st_cmd_why, st_cmd_worker;

/* Print an error on stderr. Returns ${status}, an exit status or a bool, so that the caller can
 * write "return st_fail(...)". */
int st_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
