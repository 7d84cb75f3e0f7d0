/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_team.c - runs the ranks of a test as threads or processes. If one rank fails, all are
 * ended. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/gpu/ar/fuzz_team.h"

static void (*body_of_all)(int rank);

struct team *team_make(int ranks, int apart)
{
    struct team *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (t == MAP_FAILED)
        return NULL;
    t->ranks = ranks;
    t->apart = apart;
    return t;
}

void team_meet(struct team *t)
{
    unsigned round = atomic_load(&t->round);

    if (atomic_fetch_add(&t->arrived, 1) + 1 == (unsigned)t->ranks) {
        atomic_store(&t->arrived, 0);
        atomic_fetch_add(&t->round, 1);
    }
    while (atomic_load(&t->round) == round) {
        if (atomic_load(&t->failed))
            _exit(1);
        sched_yield();
    }
}

void team_fail(struct team *t, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("%s\n", text);
    fflush(stdout);
    atomic_store(&t->failed, 1);
    _exit(1);
}

ncclResult_t team_comm(struct team *t, int g, int me, int nonblocking, ncclComm_t *comm_out)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t result = me == 0 ? ncclGetUniqueId(&t->id[g]) : ncclSuccess;

    team_meet(t);
    if (result != ncclSuccess || !nonblocking)
        return result == ncclSuccess ? ncclCommInitRank(comm_out, t->ranks, t->id[g], me) : result;
    config.blocking = 0;
    result = ncclCommInitRankConfig(comm_out, t->ranks, t->id[g], me, &config);
    return result == ncclInProgress ? ncclSuccess : result;
}

static void *run_thread(void *rank)
{
    body_of_all((int)(intptr_t)rank);
    return NULL;
}

static void run_here(struct team *t)
{
    pthread_t thread[MOST_RANKS];

    for (int r = 0; r < t->ranks; r++)
        pthread_create(&thread[r], NULL, run_thread, (void *)(intptr_t)r);
    for (int r = 0; r < t->ranks; r++)
        pthread_join(thread[r], NULL);
}

int team_run(struct team *t, void (*body)(int rank), int seconds, int forked)
{
    pid_t child[MOST_RANKS];
    int n = t->apart ? t->ranks : 1, left = n, bad = 0;
    time_t end = time(NULL) + seconds;

    fflush(stdout);
    body_of_all = body;
    if (!forked) {
        alarm((unsigned)seconds);
        run_here(t);
        alarm(0);
        return 0;
    }
    for (int k = 0; k < n; k++) {
        child[k] = fork();
        if (child[k] == 0) {
            if (t->apart)
                body(k);
            else
                run_here(t);
            fflush(stdout);
            _exit(0);
        }
    }
    while (left > 0) {
        int status;

        for (int k = 0; k < n; k++)
            if (child[k] > 0 && waitpid(child[k], &status, WNOHANG) == child[k]) {
                child[k] = 0;
                left--;
                if (status != 0 && WIFSIGNALED(status))
                    printf("rank or process %d ended by signal %d\n", k, WTERMSIG(status));
                bad |= status != 0;
            }
        if (time(NULL) > end && left > 0) {
            printf("not done within %d s\n", seconds);
            bad = 1;
            end += 5;
            for (int k = 0; k < n; k++)
                if (child[k] > 0)
                    kill(child[k], SIGKILL);
        } else if (bad && end > time(NULL) + 5) {
            atomic_store(&t->failed, 1);
            end = time(NULL) + 5; /* leave the other ranks 5 s to notice the failure */
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    fflush(stdout);
    return bad;
}

int team_gpus(int forked)
{
    pid_t child;
    int status = 0, gpus = 0;

    if (!forked)
        return cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0;
    child = fork();
    if (child == 0)
        _exit(cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 0;
    return WEXITSTATUS(status);
}
