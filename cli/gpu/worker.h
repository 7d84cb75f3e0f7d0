/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - what the files of the measuring process share. The process does one job, with a thread
 * for each rank.
 *
 * Threads: all ranks run the same steps. A measured time is that of the slowest rank; every rank
 * gets this same number, so that all ranks make the same choices. Errors: they end the process.
 */
#ifndef ST_WORKER_H_
#define ST_WORKER_H_

#include <pthread.h>

#include "cli/gpu/cuda.h"

enum { ST_RANKS_MAX = 16, ST_WAY_SIZE = 48 };

struct st_rank {
    int rank, device;
    void *context, *stream, *start, *stop, *comm;
    struct st_gemms {
        void *stream, *done, *handle; /* ${done}: an event recorded after the calls */
        st_address a, b, c;           /* c = a * b */
        int side, type;               /* rows of a matrix; cuBLAS's number of its type */
        double us;                    /* the time of one GEMM alone */
    } gemms;
    symtuner_ar *handle;
    char *send[2], *recv[2]; /* [0] plain buffers, [1] symmetric windows */
    void *window[2];
    char *host;
};

struct st_job {
    struct st_cuda cuda;
    struct st_nccl nccl;
    struct st_ar ar;
    struct st_cublas cublas;
    int ranks, coll, dtype; /* coll and dtype: NCCL's numbers */
    int size;               /* bytes of an element            */
    bool measure; /* the command is `measure` */
    bool own;     /* a mode needs libsymtuner_ar.so */
    const char *modes;
    const char *ways;   /* "BYTES:KERNEL/CTAS/THREADS,..."; "": search for good ways; "+" before
                         * the list: search, and measure the list's ways as well */
    const char *beside; /* "BYTES:GEMMS_US:CALLS,..."; "": measure calls alone */
    uint64_t low, high;
    unsigned seed;
    struct st_nccl_id id;
    pthread_barrier_t barrier;
    double us[ST_RANKS_MAX]; /* [rank]: the rank's measured time, for st_worker_slowest */
    struct st_rank rank[ST_RANKS_MAX];
};

extern struct st_job job;

void st_worker_stop(const char *what, const char *why) __attribute__((noreturn));

/* End the process if ${result} of a function of the CUDA driver or of NCCL is an error. */
void st_worker_cuda(int result, const char *what);
void st_worker_nccl(int result, const char *what);
#define CUDA(function, ...) st_worker_cuda(job.cuda.function(__VA_ARGS__), #function)
#define NCCL(function, ...) st_worker_nccl(job.nccl.function(__VA_ARGS__), #function)

/* Return the largest ${us} of all ranks. All ranks call this together. */
double st_worker_slowest(struct st_rank *r, double us);

/* Start one call in ${mode}, a letter that worker.c explains, on the rank's stream. */
void st_worker_call(struct st_rank *r, char mode, uint64_t bytes);

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

/* Fill ${names} with the ways to measure at size ${bytes}, at most ${ST_WORKER_WAYS}, and return
 * their number. st_worker_force_way makes the library run a way from now on, or, with NULL, its own
 * choice. */
enum { ST_WORKER_WAYS = 16 };
int st_worker_names(struct st_rank *r, uint64_t bytes, char names[ST_WORKER_WAYS][ST_WAY_SIZE]);
void st_worker_force_way(struct st_rank *r, const char *way);

/* beside.c: st_worker_gemms_start prepares the GEMMs of a rank. st_worker_beside measures all modes
 * beside GEMMs at one size and prints what a call adds. st_worker_beside_us times ${mode} once and
 * briefly: it returns the microseconds until GEMMs and calls are done, divided by the number of
 * calls. */
void st_worker_gemms_start(struct st_rank *r);
void st_worker_beside(struct st_rank *r, uint64_t bytes);
double st_worker_beside_us(struct st_rank *r, char mode, uint64_t bytes);

#endif
