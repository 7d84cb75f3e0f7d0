/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - runs a child process with a time limit. The child is either another program, or
 * "symtuner worker", which measures. Each measurement needs a process of its own, because NCCL
 * reads most of its settings once per process.
 *
 * Units      seconds. Ownership  the caller frees ${output}. Threads: one child at a time.
 */
#ifndef ST_CHILD_H_
#define ST_CHILD_H_

#include <stdbool.h>
#include <stddef.h>

enum st_child_end { ST_CHILD_DONE, ST_CHILD_FAILED, ST_CHILD_TIMEOUT, ST_CHILD_STOPPED };

enum { ST_CHILD_NOT_FOUND = 127 }; /* ${status} if the program was not found */

struct st_child {
    const char *program;          /* its name, looked up in PATH; NULL: "symtuner worker"       */
    const char *const *arguments; /* without the program's name; the last pointer is NULL       */
    const char *const *set;       /* environment: NAME=VALUE sets, NAME unsets; NULL at the end */
    int limit_s;                  /* the child is killed after this many seconds                */
    char *output;                 /* filled: all that the child printed on stdout               */
    char error[400];              /* filled: the end of what the child printed on stderr        */
    int status;                   /* filled: exit status, or 128 + the signal that killed it    */
};

/* Run a child and wait until it has ended. A child that waits inside the driver may not end even
 * after SIGKILL. In that case give up after a few seconds: ${status} is -1, and ${error} says so.
 * Returns
 *   DONE     if its exit status is 0
 *   TIMEOUT  if it was killed because the limit had passed
 *   STOPPED  if it was killed because this process got SIGINT or SIGTERM
 *   FAILED   if it ended in another way or could not be started */
enum st_child_end st_child_run(struct st_child *child);

/* Return the time in seconds of a clock that never goes back. */
double st_child_now(void);

/* Catch SIGINT and SIGTERM from now on: they no longer end this process, but make
 * st_child_stop_asked return true. */
void st_child_catch_signals(void);
bool st_child_stop_asked(void);

#endif
