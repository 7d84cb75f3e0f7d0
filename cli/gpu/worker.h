/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - what the files of the measuring process share. The process does one job, with a thread
 * for each rank.
 *
 * Threads: all ranks run the same steps. A measured time is that of the slowest rank; every rank
 * gets this same number, so that all ranks choose alike. Errors: they end the process.
 */
#ifndef ST_WORKER_H_
#define ST_WORKER_H_

#include <pthread.h>

#include "cli/gpu/cuda.h"

enum { ST_RANKS_MAX = 16, ST_WAY_SIZE = 48 };

struct st_rank {
    int rank, device;
    void *context, *stream, *start, *stop, *comm;
    symtuner_ar *handle;
    char *send[2], *recv[2]; /* [0] plain buffers, [1] symmetric windows */
    void *window[2];
    char *host;
};

struct st_job {
    struct st_cuda cuda;
    struct st_nccl nccl;
    struct st_ar ar;
    int ranks, coll, dtype; /* coll and dtype: NCCL's numbers */
    int size;               /* bytes of an element            */
    bool measure; /* the command is `measure` */
    bool own;     /* a mode needs libsymtuner_ar.so */
    const char *modes;
    const char *ways; /* "BYTES:KERNEL/CTAS/THREADS,..."; "": search for good ways */
    uint64_t low, high;
    unsigned seed;
    struct st_nccl_id id;
    pthread_barrier_t barrier;
    double us[ST_RANKS_MAX]; /* [rank]: the rank's measured time, for slowest() in worker.c */
    struct st_rank rank[ST_RANKS_MAX];
};

extern struct st_job job;

void st_worker_stop(const char *what, const char *why) __attribute__((noreturn));

/* Run one call in ${mode}, a letter that worker.c explains, and check the result. A wrong element
 * ends the process. */
void st_worker_check(struct st_rank *r, char mode, uint64_t bytes);

/* Time ${mode} for at least about ${least_us} microseconds. Returns microseconds per call on the
 * slowest rank. */
double st_worker_time(struct st_rank *r, char mode, uint64_t bytes, double least_us);

/* Ask libsymtuner_ar.so what it would run for a call of ${bytes}. Fills ${plan_out}, and
 * ${way} with "KERNEL/CTAS/THREADS". Returns false if the library would refuse the call. */
bool st_worker_plan(struct st_rank *r, uint64_t bytes, struct symtuner_ar_plan *plan_out,
                    char way[ST_WAY_SIZE]);

/* Mode 'k' for messages of ${bytes}: time several ways and print the times. The ways are those in
 * job.ways or, if that is "", good ones that a search finds. */
void st_worker_ways(struct st_rank *r, uint64_t bytes);

#endif
