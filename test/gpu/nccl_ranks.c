/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_ranks.c - checks NCCL's collectives with one process per GPU. Each process has an
 * environment of its own.
 *
 *   nccl_ranks [--ranks N] [--limit SECONDS] [--max-ctas N] [--chdir RANK:FOLDER]
 *              [RANK:NAME=VALUE ...]
 *
 * Each rank makes a communicator, and after the first calls a second one. With each communicator it
 * checks sums and gathers of 1 KiB, 64 KiB and 4 MiB, on symmetric windows and in plain memory.
 * --max-ctas sets ncclConfig's maxCTAs for the first communicator. Exit 0: all right; 1: wrong or
 * failed; 3: not done within the limit (a hang), and all ranks were killed; 77: no GPUs, or no
 * symmetric windows.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/must.h"

enum { MAX_RANKS = 16, MOST = 4 << 20, HANG = 3, SKIP = 77 };

static struct {
    int ranks, limit, max_ctas;
    char **setting;
    int settings;
    const char *folder[MAX_RANKS];
} job = {.ranks = 2, .limit = 60};

struct rank {
    int me;
    ncclComm_t comm;
    cudaStream_t stream;
    float *send, *recv, *host;
};

/* Return a small integer, so that sums over 16 ranks are exact. */
static float value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13) % 64);
}

static float expected(int gather, size_t i, size_t part)
{
    float sum = 0;

    if (gather)
        return value((int)(i / part), i % part);
    for (int k = 0; k < job.ranks; k++)
        sum += value(k, i);
    return sum;
}

static void run(struct rank *r, int gather, size_t bytes)
{
    size_t count = bytes / sizeof(float), part = count / (size_t)job.ranks;
    size_t in = gather ? part : count;

    for (size_t i = 0; i < in; i++)
        r->host[i] = value(r->me, i);
    CUDA(cudaMemcpy(r->send, r->host, in * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(r->recv, 0xff, bytes));
    CUDA(cudaDeviceSynchronize());
    if (gather)
        NCCL(ncclAllGather(r->send, r->recv, part, ncclFloat, r->comm, r->stream));
    else
        NCCL(ncclAllReduce(r->send, r->recv, count, ncclFloat, ncclSum, r->comm, r->stream));
    CUDA(cudaStreamSynchronize(r->stream));
    CUDA(cudaMemcpy(r->host, r->recv, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < (gather ? part * (size_t)job.ranks : count); i++)
        if (r->host[i] != expected(gather, i, part)) {
            fprintf(stderr, "rank %d, %zu bytes: element %zu is %g, not %g\n", r->me, bytes, i,
                    (double)r->host[i], (double)expected(gather, i, part));
            exit(1);
        }
}

static void run_all(struct rank *r)
{
    for (int gather = 0; gather < 2; gather++)
        for (size_t bytes = 1 << 10; bytes <= MOST; bytes <<= 6)
            run(r, gather, bytes);
}

static void communicator(struct rank *r, ncclUniqueId id, int max_ctas)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclWindow_t window[2] = {NULL, NULL};

    if (max_ctas)
        config.maxCTAs = max_ctas;
    NCCL(ncclCommInitRankConfig(&r->comm, job.ranks, id, r->me, &config));
    run_all(r); /* this run uses plain memory */
    NCCL(ncclCommWindowRegister(r->comm, r->send, MOST, &window[0], NCCL_WIN_COLL_SYMMETRIC));
    NCCL(ncclCommWindowRegister(r->comm, r->recv, MOST, &window[1], NCCL_WIN_COLL_SYMMETRIC));
    if (!window[0] || !window[1])
        exit(SKIP);
    run_all(r);
    NCCL(ncclCommWindowDeregister(r->comm, window[0]));
    NCCL(ncclCommWindowDeregister(r->comm, window[1]));
}

/* Read "RANK:" at the start of a word. Returns the rank, or -1. Sets ${rest} to what follows. */
static int rank_of(char *word, char **rest)
{
    long rank = strtol(word, rest, 10);

    if (*rest == word || **rest != ':' || rank < 0 || rank >= MAX_RANKS)
        return -1;
    ++*rest;
    return (int)rank;
}

/* Run rank ${me}. The process must not have used CUDA or NCCL before. */
static void be_rank(int me, int *from, int (*to)[2])
{
    struct rank r = {.me = me};
    ncclUniqueId id[2];
    char *rest;

    for (int i = 0; i < job.settings; i++)
        if (rank_of(job.setting[i], &rest) == me)
            putenv(rest);
    if (job.folder[me] && chdir(job.folder[me]) != 0)
        exit(2);
    CUDA(cudaSetDevice(me));
    for (int i = 0; me == 0 && i < 2; i++)
        NCCL(ncclGetUniqueId(&id[i]));
    for (int k = 1; me == 0 && k < job.ranks; k++)
        if (write(to[k][1], id, sizeof id) != sizeof id)
            exit(1);
    if (me != 0 && read(from[0], id, sizeof id) != sizeof id)
        exit(1);
    CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    NCCL(ncclMemAlloc((void **)&r.send, MOST));
    NCCL(ncclMemAlloc((void **)&r.recv, MOST));
    r.host = malloc(MOST);
    for (int i = 0; i < 2; i++) {
        communicator(&r, id[i], i == 0 ? job.max_ctas : 0);
        if (i == 1)
            NCCL(ncclCommDestroy(r.comm));
    }
    exit(0);
}

static void read_options(int argc, char **argv)
{
    char *rest;

    job.setting = malloc((size_t)argc * sizeof *job.setting);
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        int *number = strcmp(argv[i], "--ranks") == 0      ? &job.ranks
                      : strcmp(argv[i], "--limit") == 0    ? &job.limit
                      : strcmp(argv[i], "--max-ctas") == 0 ? &job.max_ctas
                                                           : NULL;

        if (number) {
            *number = atoi(next);
            i++;
        } else if (strcmp(argv[i], "--chdir") == 0 && i + 1 < argc &&
                   rank_of(argv[i + 1], &rest) >= 0) {
            job.folder[rank_of(argv[i + 1], &rest)] = rest;
            i++;
        } else if (rank_of(argv[i], &rest) >= 0 && strchr(rest, '=')) {
            job.setting[job.settings++] = argv[i];
        } else {
            fprintf(stderr, "nccl_ranks: what is \"%s\"? write RANK:NAME=VALUE\n", argv[i]);
            exit(2);
        }
    }
    if (job.ranks < 2 || job.ranks > MAX_RANKS) {
        fprintf(stderr, "nccl_ranks: --ranks is 2 to %d\n", MAX_RANKS);
        exit(2);
    }
}

/* Wait for all ranks, but at most job.limit seconds. Returns the worst exit status. */
static int wait_all(pid_t *pid)
{
    time_t end = time(NULL) + job.limit;
    int worst = 0, left = job.ranks, status;

    while (left > 0) {
        pid_t done = waitpid(-1, &status, WNOHANG);

        if (done > 0) {
            int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;

            worst = worst == 0 || code == 1 ? code : worst;
            left--;
        } else if (time(NULL) >= end || (worst != 0 && worst != SKIP && time(NULL) >= end - 1)) {
            worst = worst ? worst : HANG;
            break;
        } else {
            usleep(20000);
        }
    }
    for (int k = 0; k < job.ranks; k++)
        kill(pid[k], SIGKILL);
    return worst;
}

int main(int argc, char **argv)
{
    pid_t pid[MAX_RANKS];
    int to[MAX_RANKS][2];
    int worst;

    read_options(argc, argv);
    for (int k = 0; k < job.ranks; k++)
        if (pipe(to[k]) != 0)
            return 2;
    for (int k = 0; k < job.ranks; k++) {
        pid[k] = fork();
        if (pid[k] == 0)
            be_rank(k, to[k], to);
    }
    worst = wait_all(pid);
    printf("nccl_ranks: %d ranks: %s\n", job.ranks,
           worst == 0      ? "right"
           : worst == HANG ? "HANG"
           : worst == SKIP ? "no symmetric windows here"
                           : "failed");
    return worst;
}
