/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - runs the user's program as a child process: the program gets the signals that this
 * command gets, and this command ends in the same way as the program. */
#ifndef ST_RUN_PROGRAM_H_
#define ST_RUN_PROGRAM_H_

#include <stdbool.h>

#include "cli/doctor/doctor.h"

enum { ST_RUN_NOT_EXECUTABLE = 126, ST_RUN_NOT_FOUND = 127 };

/* How a program has ended. */
struct st_run_end {
    int status; /* its exit status, or 128 plus the signal that killed it */
    int signal; /* the signal that killed it, or 0                        */
};

/* Look ${program} up in PATH, unless it has a "/", and write its path into ${file_out}. Returns
 * false if there is no such file that may be executed. */
bool st_run_find(const char *program, char file_out[ST_PATH]);

/* Run ${argv}, looked up in PATH, and wait for its end. If the program cannot be started, prints
 * the reason, sets ${status} of ${end_out} to ST_RUN_NOT_FOUND or ST_RUN_NOT_EXECUTABLE, and
 * returns false. All signals stay blocked, so that the caller can finish its work even while
 * somebody ends the job. */
bool st_run_program(char *const argv[], struct st_run_end *end_out);

/* Let this process die by ${number}, the signal that killed the program, but without a core file of
 * its own. Shells and launchers check how a command has ended. For example, after Ctrl-C a bash
 * script ends only if the command that it ran was killed by a signal. Returns only if the signal
 * does not kill this process, as in the first process of a container. */
void st_run_die(int number);

#endif
