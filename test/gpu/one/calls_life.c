/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_life.c - makes calls on two communicators in opposite order, calls that only rank 0 makes
 * until the communicator is aborted, calls during which a rank is killed, and many communicators
 * one after the other.
 */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/gpu/one/calls.h"
#include "test/random.h"

enum { LONGEST = 1 << 16 /* floats */, GIVE_UP_S = 60 };

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const struct rank *r, const char *what, long at)
{
    fprintf(stderr, "nccl_calls: rank %d: %s, at %ld\n", r->rank, what, at);
    exit(1);
}

/* Fill ${p} with ${value}, and wait for ${stream}, on which no call may wait for another rank. */
static void fill(float *p, float value, size_t count, cudaStream_t stream)
{
    static float here[LONGEST];

    for (size_t i = 0; i < count; i++)
        here[i] = value;
    CUDA(cudaMemcpyAsync(p, here, count * sizeof *p, cudaMemcpyHostToDevice, stream));
    CUDA(cudaStreamSynchronize(stream));
}

/* Stop the program if ${stream} is not idle in time, or if something on it has failed. */
static void wait(const struct rank *r, cudaStream_t stream, const char *what, long at)
{
    double end = seconds() + GIVE_UP_S;
    cudaError_t state;

    while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady)
        if (seconds() > end)
            fail(r, what, at);
    if (state != cudaSuccess)
        fail(r, cudaGetErrorString(state), at);
}

/* ---- opposite order -------------------------------------------------------------------------- */

void opposite_calls(struct rank *r)
{
    enum { SOME = 16 }; /* rounds between two checks */
    const double start = seconds();
    struct t_random random = {job->seed * 2 + 1};
    float sum = 0, last[2], *in, *out[2];
    cudaStream_t stream[2];
    ncclComm_t comm[2];

    CUDA(cudaMalloc((void **)&in, LONGEST * sizeof *in));
    for (int c = 0; c < 2; c++) {
        comm[c] = join(r);
        CUDA(cudaMalloc((void **)&out[c], LONGEST * sizeof *in));
        CUDA(cudaStreamCreateWithFlags(&stream[c], cudaStreamNonBlocking));
    }
    fill(in, (float)(r->rank + 1), LONGEST, stream[0]);
    for (int k = 0; k < job->ranks; k++)
        sum += (float)(k + 1);
    pthread_barrier_wait(&job->all);
    for (long i = 0; i < job->rounds; i += SOME) {
        size_t count[2] = {0, 0};

        for (int k = 0; k < SOME; k++) {
            for (int c = 0; c < 2; c++)
                count[c] = 1 + (size_t)(t_next(&random) >> 32) % (LONGEST >> t_below(&random, 14));
            for (int c = 0; c < 2; c++) {
                int which = c ^ (r->rank & 1);

                NCCL(ncclAllReduce(in, out[which], count[which], ncclFloat32, ncclSum, comm[which],
                                   stream[which]));
            }
        }
        for (int c = 0; c < 2; c++) {
            wait(r, stream[c], "two communicators in opposite order hang", i);
            CUDA(cudaMemcpyAsync(&last[c], out[c] + count[c] - 1, sizeof *last,
                                 cudaMemcpyDeviceToHost, stream[c]));
            CUDA(cudaStreamSynchronize(stream[c]));
            if (last[c] != sum)
                fail(r, "a wrong sum", i);
        }
    }
    pthread_barrier_wait(&job->all);
    for (int c = 0; c < 2; c++) {
        NCCL(ncclCommDestroy(comm[c]));
        CUDA(cudaFree(out[c]));
        CUDA(cudaStreamDestroy(stream[c]));
    }
    CUDA(cudaFree(in));
    if (r->rank == 0)
        printf("opposite: %ld rounds of two communicators on %d ranks, %.0f s\n", job->rounds,
               job->ranks, seconds() - start);
}

/* ---- aborts ---------------------------------------------------------------------------------- */

struct late {
    ncclComm_t comm;
    int ms;
};

static void *abort_later(void *at)
{
    struct late *late = at;

    usleep((useconds_t)late->ms * 1000);
    NCCL(ncclCommAbort(late->comm));
    return NULL;
}

/* Rank 0 makes a call, and the other ranks do not. Then another thread aborts the communicator. */
void aborted_calls(struct rank *r)
{
    struct t_random random = {job->seed * 2 + 1};
    double slowest = 0;
    float *p;
    cudaStream_t stream;

    CUDA(cudaMalloc((void **)&p, LONGEST * sizeof *p));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (long i = 0; i < job->aborts; i++) {
        struct late late = {join(r), 1 + t_below(&random, 20)};
        size_t count = 1 + (size_t)(t_next(&random) >> 32) % LONGEST;
        pthread_t thread;
        double start;

        fill(p, (float)(r->rank + 1), LONGEST, stream);
        NCCL(ncclAllReduce(p, p, count, ncclFloat32, ncclSum, late.comm, stream));
        wait(r, stream, "a call before the abort hangs", i);
        pthread_barrier_wait(&job->all);
        if (r->rank == 0)
            NCCL(ncclAllReduce(p, p, count, ncclFloat32, ncclSum, late.comm, stream));
        start = seconds();
        if (pthread_create(&thread, NULL, abort_later, &late) != 0)
            fail(r, "no thread", i);
        wait(r, stream, "a call of an aborted communicator hangs", i);
        pthread_join(thread, NULL);
        start = seconds() - start - late.ms * 1e-3;
        slowest = start > slowest ? start : slowest;
        pthread_barrier_wait(&job->all);
    }
    CUDA(cudaFree(p));
    CUDA(cudaStreamDestroy(stream));
    if (r->rank == 0)
        printf("aborts: %ld, the slowest ended %.0f ms after the abort\n", job->aborts,
               slowest * 1e3);
}

/* ---- a rank that is killed ------------------------------------------------------------------- */

static void *abort_after_death(void *at)
{
    struct late *late = at;

    while (!atomic_load(&job->died))
        usleep(100);
    return abort_later(late);
}

/* All ranks make calls without waiting for them, and one rank is killed. A program such as PyTorch
 * then aborts the communicators of the other ranks. Their calls must end. */
void killed_call(struct rank *r)
{
    struct t_random random = {job->seed * 2 + 1};
    const long calls = 1 + t_below(&random, 50);
    struct late late = {join(r), 1 + t_below(&random, 50)};
    cudaStream_t stream;
    pthread_t thread;
    double start;
    float *p;

    alarm(2 * GIVE_UP_S);
    CUDA(cudaMalloc((void **)&p, LONGEST * sizeof *p));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    fill(p, 1, LONGEST, stream);
    NCCL(ncclAllReduce(p, p, LONGEST, ncclFloat32, ncclMax, late.comm, stream));
    wait(r, stream, "the first call hangs", 0);
    pthread_barrier_wait(&job->all);
    for (long i = 0; i < 2 * calls; i++) {
        size_t count = 1 + (size_t)(t_next(&random) >> 32) % LONGEST;

        if (r->rank == job->victim && i == calls) {
            atomic_store(&job->died, 1);
            raise(SIGKILL);
        }
        if (ncclAllReduce(p, p, count, ncclFloat32, ncclMax, late.comm, stream) != ncclSuccess)
            break; /* NCCL has noticed the death */
    }
    if (pthread_create(&thread, NULL, abort_after_death, &late) != 0)
        fail(r, "no thread", 0);
    while (!atomic_load(&job->died))
        usleep(100);
    start = seconds();
    wait(r, stream, "a call whose rank was killed hangs", 0);
    pthread_join(thread, NULL);
    job->ended[r->rank] = seconds() - start - late.ms * 1e-3;
}

/* ---- many communicators ---------------------------------------------------------------------- */

/* Return how many pages of this process are in memory. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long all = 0, here = 0;

    if (!file || fscanf(file, "%ld %ld", &all, &here) != 2)
        here = 0;
    if (file)
        fclose(file);
    return here;
}

void many_comms(struct rank *r)
{
    const double start = seconds();
    size_t free_then = 0, free_now, total;
    long then = 0, warm = job->comms / 5;
    cudaStream_t stream;
    float *p;

    CUDA(cudaMalloc((void **)&p, LONGEST * sizeof *p));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (long i = 0; i < job->comms; i++) {
        ncclComm_t comm = join(r);

        fill(p, (float)(r->rank + 1), 256, stream);
        for (int k = 0; k < 3; k++)
            NCCL(ncclAllReduce(p, p, 256, ncclFloat32, ncclMax, comm, stream));
        wait(r, stream, "a call hangs", i);
        pthread_barrier_wait(&job->all);
        NCCL(ncclCommDestroy(comm));
        pthread_barrier_wait(&job->all);
        if (i == warm) {
            then = resident();
            CUDA(cudaMemGetInfo(&free_then, &total));
        }
    }
    CUDA(cudaMemGetInfo(&free_now, &total));
    if (r->rank == 0)
        printf("communicators: %ld, %.0f s; after the first %ld each left %.1f KiB in the process "
               "and %.1f KiB on the GPU\n",
               job->comms, seconds() - start, warm + 1,
               (double)(resident() - then) * (double)sysconf(_SC_PAGESIZE) / 1024 /
                   (double)(job->comms - warm - 1),
               ((double)free_then - (double)free_now) / 1024 / (double)(job->comms - warm - 1));
    CUDA(cudaFree(p));
    CUDA(cudaStreamDestroy(stream));
}
