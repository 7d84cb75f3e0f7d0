/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - the file in which a job counts its calls. On each box one `symtuner run` of the job
 * prints the sums.
 *
 * A `symtuner run` inside another one uses the file of the outer one, and the outer one prints. If
 * a launcher such as mpirun or srun starts one `symtuner run` for each rank, these runs share a
 * file, and the last run to end prints. The name of this file contains the launcher's process
 * number. Each `symtuner run` holds a lock on its file, and Linux releases the lock even after
 * SIGKILL. So a file without a lock is no longer used, and the next `symtuner run` removes it.
 *
 * Units      none. Ownership  st_run_job_end releases everything. Threads: one.
 * Errors     without a file nothing is counted; the job still runs.
 */
#ifndef ST_RUN_JOB_H_
#define ST_RUN_JOB_H_

#include <stdbool.h>
#include <stdio.h>

#include "dropin/tally.h"

enum { ST_RUN_PATH = 400, ST_RUN_ERROR = 600 };

struct st_run_job {
    struct st_tally *tally; /* the counters in the file; NULL: there is no file    */
    char path[ST_RUN_PATH];
    int lock;    /* the open file; the lock belongs to this descriptor           */
    bool shared; /* the runs of other ranks share the file                       */
    bool first;  /* this run is the job's first, and prints the plan (plan.h)    */
};

/* Find or make the file. Returns false, with the reason in ${error}, if that fails. Also returns
 * false, with "" in ${error}, if an outer `symtuner run` has a file. */
bool st_run_job_begin(struct st_run_job *job_out, char error[ST_RUN_ERROR]);

/* Stop using the file. If no other `symtuner run` uses it, call ${print} (which may be NULL) and
 * remove the file. */
void st_run_job_end(struct st_run_job *job,
                    void (*print)(const struct st_tally *tally, FILE *out));

#endif
