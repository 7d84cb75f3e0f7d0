/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - runs the user's program in place of this command: signals reach it, and its end
 * becomes ours. */
#ifndef ST_RUN_PROGRAM_H_
#define ST_RUN_PROGRAM_H_

#include <stdbool.h>

enum { ST_RUN_NOT_EXECUTABLE = 126, ST_RUN_NOT_FOUND = 127 };

/* Run ${argv}, looked up in PATH, and wait for its end. ${status_out} becomes its exit status, or
 * 128 plus the signal that killed it. Returns false if it cannot be started: then the reason is
 * printed, and ${status_out} is one of the two above. All signals stay blocked, so that what the
 * caller does next is done even if the job is being ended. */
bool st_run_program(char *const argv[], int *status_out);

#endif
