/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - the file in which a job counts its NCCL calls, and who prints the sums: one
 * `symtuner run` for each job and box.
 *
 * A `symtuner run` inside another one uses the file of the outer one, which also prints. If a
 * launcher such as mpirun or srun starts one `symtuner run` for each rank, these share a file,
 * named after the launcher's process, and the last one to end prints. Each `symtuner run` holds a
 * lock on its file, and the kernel releases the lock even after SIGKILL. So a file without a lock
 * is left over, and the next run removes it.
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
    struct st_tally *tally; /* NULL: no file                                       */
    char path[ST_RUN_PATH];
    int lock;    /* the file, opened                                    */
    bool shared; /* with the runs of other ranks                        */
    bool first;  /* the first one in the job, which says what is set    */
};

/* Find or make the file. Returns false, with the reason in ${error}, if that fails. Also returns
 * false, with "" in ${error}, if an outer `symtuner run` has a file. */
bool st_run_job_begin(struct st_run_job *job_out, char error[ST_RUN_ERROR]);

/* Leave the job. If this process is the last one in it, call ${print}, unless that is NULL. */
void st_run_job_end(struct st_run_job *job,
                    void (*print)(const struct st_tally *tally, FILE *out));

#endif
