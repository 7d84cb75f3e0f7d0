/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - shared by the files of the measuring process: one job, one thread per rank.
 *
 * Threads: all ranks run the same steps. A time is that of the slowest rank, and every rank gets
 * the same number, so that all ranks choose alike. Errors: they end the process.
 */
#ifndef ST_WORKER_H_
#define ST_WORKER_H_

#include <pthread.h>

#include "cli/gpu/cuda.h"

enum { ST_RANKS_MAX = 16, ST_WAY_SIZE = 48 };

struct st_rank {
    int rank, device;
    void *context, *stream, *start, *stop, *comm, *handle;
    char *send[2], *recv[2]; /* [0] plain buffers, [1] windows */
    void *window[2];
    char *host;
};

struct st_job {
    struct st_cuda cuda;
    struct st_nccl nccl;
    struct st_ar ar;
    int ranks, coll, dtype; /* as NCCL numbers them */
    int size;               /* bytes of an element */
    bool measure, own;
    const char *modes;
    const char *ways; /* "BYTES:KERNEL/CTAS/THREADS,..."; "": search for good ones */
    uint64_t low, high;
    unsigned seed;
    struct st_nccl_id id;
    pthread_barrier_t barrier;
    double us[ST_RANKS_MAX];
    struct st_rank rank[ST_RANKS_MAX];
};

extern struct st_job job;

void st_worker_stop(const char *what, const char *why) __attribute__((noreturn));
void st_worker_cuda(int result, const char *what);

/* Run ${mode} once on fresh data and check the result; a wrong element ends the process. */
void st_worker_check(struct st_rank *r, char mode, uint64_t bytes);

/* Microseconds per call on the slowest rank, measured for at least ${least_us}. */
double st_worker_time(struct st_rank *r, char mode, uint64_t bytes, double least_us);

/* What the library would run for this call, as "KERNEL/CTAS/THREADS"; false if it would refuse. */
bool st_worker_plan(struct st_rank *r, uint64_t bytes, struct st_ar_plan *plan_out,
                    char way[ST_WAY_SIZE]);

/* Mode k for one size. */
void st_worker_ways(struct st_rank *r, uint64_t bytes);

#endif
