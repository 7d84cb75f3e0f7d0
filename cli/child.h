/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - runs a child process with a time limit: this command once more, to measure (NCCL reads
 * most of its settings once per process), or another program.
 *
 * Units      seconds. Ownership  the caller frees ${output}. Threads: one child at a time.
 */
#ifndef ST_CHILD_H_
#define ST_CHILD_H_

#include <stdbool.h>
#include <stddef.h>

enum st_child_end { ST_CHILD_DONE, ST_CHILD_FAILED, ST_CHILD_TIMEOUT, ST_CHILD_STOPPED };

enum { ST_CHILD_NOT_FOUND = 127 }; /* as a status: there is no such program */

struct st_child {
    const char *program;          /* looked for in PATH; NULL is "symtuner worker"              */
    const char *const *arguments; /* after the program; NULL at the end                         */
    const char *const *set;       /* NAME=VALUE, or NAME alone to remove it; NULL at the end    */
    int limit_s;
    char *output;                 /* what it printed on stdout                                  */
    char error[400];              /* the end of what it said on stderr                          */
    int status;                   /* its exit status                                            */
};

/* Run it to its end. STOPPED: SIGINT or SIGTERM arrived, and the child was killed. */
enum st_child_end st_child_run(struct st_child *child);

/* Seconds of a clock that only goes forward. */
double st_child_now(void);

/* From now on SIGINT and SIGTERM only set what st_child_stop_asked returns. */
void st_child_catch_signals(void);
bool st_child_stop_asked(void);

#endif
