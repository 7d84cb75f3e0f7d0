/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - runs the user's program in place of this command: the program gets the signals that
 * this command gets, and its exit status becomes that of this command. */
#ifndef ST_RUN_PROGRAM_H_
#define ST_RUN_PROGRAM_H_

#include <stdbool.h>

enum { ST_RUN_NOT_EXECUTABLE = 126, ST_RUN_NOT_FOUND = 127 };

/* Run ${argv}, looked up in PATH, and wait for its end. ${status_out} becomes its exit status, or
 * 128 plus the signal that killed it. If the program cannot be started, prints the reason, sets
 * ${status_out} to ST_RUN_NOT_FOUND or ST_RUN_NOT_EXECUTABLE, and returns false. All signals stay
 * blocked, so that the caller can finish its work even while somebody ends the job. */
bool st_run_program(char *const argv[], int *status_out);

#endif
