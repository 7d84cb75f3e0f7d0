/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - the file in which a job counts its NCCL calls, and who prints the sums: one
 * `symtuner run` for each job and box.
 *
 * Under another `symtuner run` the file of that one is used, and it prints. If a launcher such as
 * mpirun or srun starts one `symtuner run` for each rank, they share a file, named after the
 * launcher's process, and the last one to end prints. Each `symtuner run` holds a lock on its file,
 * which the kernel takes back even after SIGKILL: a file without a lock is left over, and the next
 * run removes it.
 *
 * Units      none. Ownership  st_run_job_end gives everything back. Threads: one.
 * Errors     without a file nothing is counted; the job runs all the same.
 */
#ifndef ST_RUN_JOB_H_
#define ST_RUN_JOB_H_

#include <stdbool.h>

#include "dropin/tally.h"

enum { ST_RUN_PATH = 400, ST_RUN_ERROR = 600 };

struct st_run_job {
    struct st_tally *tally; /* NULL: no file                                       */
    char path[ST_RUN_PATH];
    int lock;    /* the file, opened                                    */
    bool shared; /* with the runs of other ranks                        */
    bool first;  /* nobody was there before: this one says what is set  */
};

/* Find or make the file. Returns false, with the reason in ${error}, if there is none, and false
 * with "" if an outer `symtuner run` has one. */
bool st_run_job_begin(struct st_run_job *job_out, char error[ST_RUN_ERROR]);

/* Leave the job. ${print} is called if this process is the last one in it. */
void st_run_job_end(struct st_run_job *job, void (*print)(const struct st_tally *tally));

#endif
