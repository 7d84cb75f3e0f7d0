/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_job.c - tests cli/run/job.c: two ranks of a job end at the same time. Meanwhile other
 * processes begin and end runs, and so look for files that killed runs have left behind. In every
 * round exactly one of the two ranks must print the summary. Before the rounds, runs that have only
 * one free file descriptor must fail and leave no file behind.
 *
 * usage: run_job ROUNDS
 */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run/job.h"

enum { RANKS = 2, OTHERS = 3 };

static int printed[2], begun[2], go[2]; /* pipes */

static void put(int *pipe_of)
{
    if (write(pipe_of[1], "x", 1) != 1)
        _exit(1);
}

static void get(int *pipe_of)
{
    char byte;

    if (read(pipe_of[0], &byte, 1) != 1)
        _exit(1);
}

static void print(const struct st_tally *tally, FILE *out)
{
    (void)tally, (void)out;
    put(printed);
}

static void rank(void)
{
    char error[ST_RUN_ERROR];
    struct st_run_job job;

    setenv("LOCAL_RANK", "0", 1);
    if (!st_run_job_begin(&job, error)) {
        fprintf(stderr, "run_job: %s\n", error);
        _exit(1);
    }
    put(begun);
    get(go);
    st_run_job_end(&job, print);
    _exit(0);
}

static void other(void)
{
    char error[ST_RUN_ERROR];
    struct st_run_job job;

    for (;;)
        if (st_run_job_begin(&job, error))
            st_run_job_end(&job, NULL);
}

static int begin_with_one_descriptor(void)
{
    char error[ST_RUN_ERROR];
    struct st_run_job job;
    struct rlimit limit;
    int one = dup(STDERR_FILENO);

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)one + 1;
    close(one);
    setrlimit(RLIMIT_NOFILE, &limit);
    if (!st_run_job_begin(&job, error) && strstr(error, "Too many open files"))
        return 0;
    fprintf(stderr, "run_job: one descriptor: %s\n", error);
    return 1;
}

/* Returns whether a run fails as it must if there is only one free file descriptor. */
static bool fails_cleanly(const char *local_rank)
{
    char pattern[200];
    glob_t found;
    int status;
    pid_t child = fork();

    if (child == 0) {
        if (local_rank)
            setenv("LOCAL_RANK", local_rank, 1);
        _exit(begin_with_one_descriptor());
    }
    snprintf(pattern, sizeof pattern, "{/dev/shm,/tmp}/symtuner-job-%u-{%d,of-%d}-*",
             (unsigned)geteuid(), (int)child, (int)getpid());
    if (waitpid(child, &status, 0) != child || status != 0)
        return false;
    if (glob(pattern, GLOB_BRACE, NULL, &found) != 0)
        return true;
    fprintf(stderr, "run_job: %s is left\n", found.gl_pathv[0]);
    globfree(&found);
    return false;
}

int main(int argc, char **argv)
{
    int rounds = argc == 2 ? atoi(argv[1]) : 0, wrong = 0;
    pid_t others[OTHERS];

    unsetenv(ST_TALLY_VARIABLE);
    unsetenv("LOCAL_RANK");
    if (rounds < 1 || pipe(printed) != 0 || pipe(begun) != 0 || pipe(go) != 0)
        return 2;
    if (!fails_cleanly(NULL) || !fails_cleanly("0"))
        return 1;
    for (int i = 0; i < OTHERS; i++)
        if ((others[i] = fork()) == 0)
            other();
    for (int round = 0; round < rounds; round++) {
        int failed = 0, status;
        pid_t child[RANKS];

        for (int i = 0; i < RANKS; i++)
            if ((child[i] = fork()) == 0)
                rank();
        for (int i = 0; i < RANKS; i++)
            get(begun);
        for (int i = 0; i < RANKS; i++)
            put(go);
        for (int i = 0; i < RANKS; i++)
            failed |= waitpid(child[i], &status, 0) != child[i] || status != 0;
        put(printed); /* puts a mark into the pipe, so that the reading below never waits */
        get(printed);
        for (int more = 0;; more++) {
            fd_set set;
            struct timeval now = {0, 0};

            FD_ZERO(&set);
            FD_SET(printed[0], &set);
            if (select(printed[0] + 1, &set, NULL, NULL, &now) != 1) {
                wrong += more != 1 || failed;
                break;
            }
            get(printed);
        }
    }
    for (int i = 0; i < OTHERS; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
    printf("run_job: %d of %d jobs had not one summary\n", wrong, rounds);
    return wrong > 0;
}
