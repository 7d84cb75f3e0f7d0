/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - makes calls of NCCL's collectives with one process per rank, for the drop-in on real
 * GPUs.
 *
 * usage: nccl_calls [--ranks N] [--calls N] [--most BYTES] [--opposite ROUNDS] [--aborts N]
 *                   [--comms N] [--kills N] [--seed N] [--split COLOURS] [--only COLLECTIVE]
 *                   [--box RANKS] [--windows 1]
 *
 * With --box N, every N ranks have their own value of NCCL_HOSTID, so NCCL takes them for a machine
 * of their own. With --windows 1, all buffers of the random calls are symmetric windows. That needs
 * NCCL 2.30.3, because earlier releases add up 8-bit and 16-bit numbers wrongly there
 * ("nccl-ll-unaligned" in symtuner doctor).
 *
 * The program knows nothing of symtuner. Ranks share GPUs if there are fewer GPUs than ranks; NCCL
 * allows that only with hosts.c preloaded, or, from 2.30.3 on, with NCCL_MULTI_RANK_GPU_ENABLE=1.
 * Exit 0: all was right. 1: something was wrong. 77: no GPU.
 */
#include "test/gpu/one/calls.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/number.h"

struct job *job;

ncclComm_t join(const struct rank *r)
{
    ncclComm_t comm;

    pthread_barrier_wait(&job->all);
    if (r->rank == 0)
        NCCL(ncclGetUniqueId(&job->id));
    pthread_barrier_wait(&job->all);
    NCCL(ncclCommInitRank(&comm, job->ranks, job->id, r->rank));
    return comm;
}

/* What the process of one rank does. */
static int run(int rank)
{
    struct rank r = {.rank = rank};
    char text[16];
    int gpus = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* write each line at once, so that the results so far can be seen even if the next part
     * hangs */
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1); /* hosts.c reads it */
    if (job->box) {
        snprintf(text, sizeof text, "box%d", rank / job->box);
        setenv("NCCL_HOSTID", text, 1);
    }
    /* Let the ranks start CUDA one after the other, because MPS refuses clients that begin at the
     * same time. */
    for (int turn = 0; turn < job->ranks; turn++) {
        if (turn == rank && cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0)
            CUDA(cudaSetDevice(rank % gpus));
        pthread_barrier_wait(&job->all);
    }
    if (gpus == 0) {
        printf("nccl_calls: no GPU\n");
        return 77;
    }
    if (job->victim >= 0) {
        killed_call(&r);
        return 0;
    }
    if (job->calls)
        random_calls(&r);
    if (job->rounds)
        opposite_calls(&r);
    if (job->comms)
        many_comms(&r);
    if (job->aborts)
        aborted_calls(&r);
    return 0;
}

/* Read one option. Ends the program if it is wrong. */
static void set(const char *name, const char *text)
{
    const struct {
        const char *name;
        long *to;
    } counts[] = {{"--calls", &job->calls},
                  {"--opposite", &job->rounds},
                  {"--aborts", &job->aborts},
                  {"--comms", &job->comms},
                  {"--kills", &job->kills},
                  {"--windows", &job->windows},
                  {"--seed", &job->seed}};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strcmp(name, counts[i].name) == 0) {
            *counts[i].to = number_must("nccl_calls", name, text, 1, INT_MAX);
            return;
        }
    if (strcmp(name, "--ranks") == 0) {
        job->ranks = number_must("nccl_calls", name, text, 2, MAX_RANKS);
    } else if (strcmp(name, "--box") == 0) {
        job->box = number_must("nccl_calls", name, text, 1, MAX_RANKS);
    } else if (strcmp(name, "--split") == 0) {
        job->colours = number_must("nccl_calls", name, text, 1, MAX_RANKS);
    } else if (strcmp(name, "--only") == 0 && kind_named(text) >= 0) {
        job->only = kind_named(text);
    } else if (strcmp(name, "--only") == 0) {
        fprintf(stderr, "nccl_calls: --only %s: no such collective; one is all-reduce\n", text);
        exit(2);
    } else if (strcmp(name, "--most") == 0) {
        job->most = (size_t)number_must("nccl_calls", name, text, 1, 32 << 20);
    } else {
        fprintf(stderr, "nccl_calls: %s: no such option\n", name);
        exit(2);
    }
}

/* Fork the ranks and wait for them. Return 0, or the exit status of the first that failed. */
static int all_ranks(void)
{
    pthread_barrierattr_t shared;
    pid_t child[MAX_RANKS];
    int worst = 0;

    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&job->all, &shared, (unsigned)job->ranks);
    for (int r = 0; r < job->ranks; r++) {
        child[r] = fork();
        if (child[r] == 0)
            exit(run(r));
    }
    for (int n = 0, status; n < job->ranks; n++) {
        pid_t pid = wait(&status);
        int victim = job->victim >= 0 && pid == child[job->victim];
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;

        if (victim)
            code = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 1;
        for (int r = 0; r < job->ranks && code != 0; r++)
            /* end the other ranks, because they would wait for the rank that failed */
            kill(child[r], SIGKILL);
        worst = worst == 0 ? code : worst;
    }
    return worst;
}

/* Kill a rank in each of job->kills rounds, each with new processes. */
static int kill_ranks(void)
{
    double slowest = 0;

    for (long i = 0; i < job->kills; i++, job->seed++) {
        int worst;

        job->victim = (int)(job->seed % job->ranks);
        atomic_store(&job->died, 0);
        memset(job->ended, 0, sizeof job->ended);
        if ((worst = all_ranks()) != 0) {
            if (worst != 77)
                fprintf(stderr, "nccl_calls: rank %d was to be killed, seed %ld: status %d\n",
                        job->victim, job->seed, worst);
            return worst;
        }
        for (int r = 0; r < job->ranks; r++)
            slowest = job->ended[r] > slowest ? job->ended[r] : slowest;
    }
    printf("kills: %ld, the slowest of the other ranks ended %.0f ms after the abort\n", job->kills,
           slowest * 1e3);
    return 0;
}

int main(int argc, char **argv)
{
    int worst = 0;

    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job == MAP_FAILED)
        return 1;
    *job = (struct job){.ranks = 2, .seed = 1, .most = 64 << 10, .only = -1, .victim = -1};
    for (int i = 1; i < argc; i += 2)
        set(argv[i], i + 1 < argc ? argv[i + 1] : "");
    if (!job->calls && !job->rounds && !job->aborts && !job->comms && !job->kills) {
        fprintf(stderr,
                "nccl_calls: nothing to do; give --calls, --opposite, --aborts, --comms or "
                "--kills\n");
        return 2;
    }
    if (job->calls || job->rounds || job->aborts || job->comms)
        worst = all_ranks();
    return worst || !job->kills ? worst : kill_ranks();
}
