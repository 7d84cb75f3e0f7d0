/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce.c - NCCL's symmetric memory in C: allocate, register, reduce in place, deregister,
 * free.
 *
 * usage: allreduce GPUS threads|processes
 *
 * Every rank checks every element; the exit status is 1 when one is wrong or a call fails.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#define MAX_GPUS 16

static int gpus;
static ncclUniqueId id;

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "rank %d: %s: %s\n", rank, #call, cudaGetErrorString(error_));         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

#define NCCL(call)                                                                                 \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "rank %d: %s: %s\n", rank, #call, ncclGetErrorString(result_));        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* Reduce a message of ${bytes} on one rank. It has small integers, so that float sums are exact. */
static int reduce_one(int rank, ncclComm_t comm, cudaStream_t stream, size_t bytes)
{
    size_t count = bytes / sizeof(float);
    float *host = malloc(bytes);
    void *memory = NULL;
    ncclWindow_t window;

    if (host == NULL)
        return 1;
    NCCL(ncclMemAlloc(&memory, bytes));
    NCCL(ncclCommWindowRegister(comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
    for (size_t i = 0; i < count; i++)
        host[i] = (float)((i + (size_t)rank) % 11);
    CUDA(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice));
    NCCL(ncclAllReduce(memory, memory, count, ncclFloat, ncclSum, comm, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        float want = 0;

        for (int r = 0; r < gpus; r++)
            want += (float)((i + (size_t)r) % 11);
        if (host[i] != want) {
            fprintf(stderr, "rank %d: %zu bytes: element %zu is %g, not %g\n", rank, bytes, i,
                    host[i], want);
            return 1;
        }
    }
    NCCL(ncclCommWindowDeregister(comm, window));
    NCCL(ncclMemFree(memory));
    free(host);
    return 0;
}

static int run_rank(int rank)
{
    static const size_t sizes[] = {4096, 1 << 20, 64 << 20};
    ncclComm_t comm;
    cudaStream_t stream;
    int bad = 0;

    CUDA(cudaSetDevice(rank));
    CUDA(cudaStreamCreate(&stream));
    NCCL(ncclCommInitRank(&comm, gpus, id, rank));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && !bad; i++)
        bad = reduce_one(rank, comm, stream, sizes[i]);
    NCCL(ncclCommDestroy(comm));
    CUDA(cudaStreamDestroy(stream));
    printf("rank %d of %d: %s\n", rank, gpus, bad ? "WRONG" : "3 sizes right");
    fflush(stdout);
    return bad;
}

static void *thread(void *rank)
{
    return run_rank((int)(intptr_t)rank) ? (void *)1 : NULL;
}

static int run_threads(void)
{
    pthread_t threads[MAX_GPUS];
    int bad = ncclGetUniqueId(&id) != ncclSuccess;

    for (int r = 0; r < gpus && !bad; r++)
        bad |= pthread_create(&threads[r], NULL, thread, (void *)(intptr_t)r);
    for (int r = 0; r < gpus && !bad; r++) {
        void *result;

        pthread_join(threads[r], &result);
        bad |= result != NULL;
    }
    return bad;
}

/* Fork the processes before any of them uses CUDA. Rank 0 sends its unique id to the others through
 * pipes. */
static int run_processes(void)
{
    int pipes[MAX_GPUS][2], bad = 0;
    pid_t pids[MAX_GPUS];

    for (int r = 1; r < gpus; r++)
        if (pipe(pipes[r]) != 0)
            return 1;
    for (int r = 0; r < gpus; r++) {
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        if (r == 0) {
            bad = ncclGetUniqueId(&id) != ncclSuccess;
            for (int to = 1; to < gpus; to++)
                bad |= write(pipes[to][1], &id, sizeof id) != (ssize_t)sizeof id;
        } else {
            bad = read(pipes[r][0], &id, sizeof id) != (ssize_t)sizeof id;
        }
        _exit(bad || run_rank(r));
    }
    for (int r = 0; r < gpus; r++) {
        int status;

        waitpid(pids[r], &status, 0);
        bad |= status != 0;
    }
    return bad;
}

int main(int argc, char **argv)
{
    gpus = argc == 3 ? atoi(argv[1]) : 0;
    if (gpus < 2 || gpus > MAX_GPUS ||
        (strcmp(argv[2], "threads") != 0 && strcmp(argv[2], "processes") != 0)) {
        fprintf(stderr, "usage: allreduce GPUS threads|processes    (2 to %d GPUs)\n", MAX_GPUS);
        return 2;
    }
    return strcmp(argv[2], "threads") == 0 ? run_threads() : run_processes();
}
