/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - check-threads: the threads of several groups create, use, abort, discard and destroy
 * handles at the same time, while graphs with their calls come and go. The threads keep the rules
 * of include/symtuner_ar.h. The program ends with an error if a call fails that should not, or if
 * something is never freed. The sanitizers find what is used after it was freed, and data that two
 * threads use without a lock.
 *
 * TEST_ROUNDS is the number of handles that each rank makes. TEST_SEED sets the random numbers, but
 * not the order in which threads run. With the defaults the program takes about 2 s.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/threads/gpu.h"
#include "test/kernels/threads/member.h"
#include "test/whole/cuda.h"
#include "test/whole/nccl.h"

enum { GROUPS = 5, ROUNDS = 12, LIMIT_S = 300 }; /* LIMIT_S: if threads wait for ever */

/* Two groups of communicators share at most one GPU. If two of them shared two GPUs, their ranks
 * could wait for each other for ever: a rank in symtuner_ar_destroy waits until its GPU is idle,
 * and there a kernel of the other group may wait for a rank that is in symtuner_ar_destroy, too. */
static struct group groups[GROUPS] = {{.ranks = 2, .gpu = {0, 1}, .ipc = "auto"},
                                      {.ranks = 3, .gpu = {2, 3, 4}, .ipc = "1"},
                                      {.ranks = 4, .gpu = {5, 6, 7, 0}, .boxes = true},
                                      {.ranks = 2, .gpu = {0, 2}, .local = true},
                                      {.ranks = 3, .gpu = {1, 3, 3}, .local = true, .ipc = "1"}};
static struct member members[GROUPS][MOST_RANKS];
static _Thread_local const struct member *self;

/* ---- the environment of each thread ---------------------------------------------------------- */

char *__real_getenv(const char *name);
char *__wrap_getenv(const char *name);

char *__wrap_getenv(const char *name)
{
    static const char *const boxes[] = {"box0", "box1"};
    static const char rule[] = "kernels network-pieces=2";

    if (self == NULL || strncmp(name, "TEST_", 5) == 0)
        return __real_getenv(name);
    if (strcmp(name, "SYMTUNER_LOG") == 0)
        return (char *)(uintptr_t) "off";
    if (strcmp(name, "SYMTUNER_MACHINE") == 0)
        return (char *)(uintptr_t) "gpu=NVIDIA H200; links=nvlink; multicast=no";
    if (strcmp(name, "NCCL_HOSTID") == 0)
        return (char *)(uintptr_t)boxes[self->group->boxes ? self->rank / 2 : 0];
    if (strcmp(name, "SYMTUNER_RULE") == 0)
        return self->group->boxes ? (char *)(uintptr_t)rule : NULL;
    if (strcmp(name, "SYMTUNER_AR_IPC") == 0)
        return (char *)(uintptr_t)self->group->ipc;
    if (strncmp(name, "SYMTUNER_", 9) == 0)
        return NULL;
    return __real_getenv(name);
}

/* ---------------------------------------------------------------------------------------------- */

/* NCCL's long collectives move nothing, because the library exchanges only short data by them. */
static bool moves(const struct whole_call *call)
{
    return call->kind == WHOLE_ALL_GATHER && call->bytes <= 4096;
}

static void *run(void *member)
{
    self = member;
    return self->group->local ? member_of_local(member) : member_of_comm(member);
}

static void start(struct group *g, struct member *all, uint64_t seed)
{
    g->number = (int)(g - groups);
    pthread_barrier_init(&g->all, NULL, (unsigned)g->ranks);
    for (int r = 0; r < g->ranks; r++) {
        all[r] = (struct member){.group = g, .rank = r, .lives = (int)t_rounds(ROUNDS)};
        all[r].script.state = seed + 1000 * (uint64_t)g->number;
        all[r].own.state = all[r].script.state + (uint64_t)r + 1;
        pthread_create(&all[r].thread, NULL, run, &all[r]);
    }
}

/* A thread that owns no handle frees what waits for graphs, again and again. */
static void *sweep(void *ended)
{
    symtuner_ar *none = NULL;

    for (int i = 0; i < 5000; i++) /* while the other threads make their first handles */
        symtuner_ar_use_nccl(dlopen(NULL, RTLD_NOW));
    while (!atomic_load((atomic_bool *)ended)) {
        symtuner_ar_destroy(&none, 1);
        usleep(30);
    }
    symtuner_ar_destroy(&none, 1);
    return NULL;
}

int main(void)
{
    static atomic_bool ended;
    pthread_t sweeper;

    whole_cuda.fills = 4096;
    whole_cuda.no_copies = 1;
    whole_nccl.collective = moves;
    whole_nccl.limit_s = 60;
    setenv("WHOLE_NO_MEMOPS", "1", 1);
    alarm(LIMIT_S);
    graphs_start();
    pthread_create(&sweeper, NULL, sweep, &ended);
    for (int g = 0; g < GROUPS; g++)
        start(&groups[g], members[g], t_seed());
    for (int g = 0; g < GROUPS; g++)
        for (int r = 0; r < groups[g].ranks; r++)
            pthread_join(members[g][r].thread, NULL);
    graphs_stop();
    atomic_store(&ended, true);
    pthread_join(sweeper, NULL);
    if (fake.live == 0 && whole_nccl.live == 0 && whole_cuda.prohibited == 0 && !whole_nccl.hung)
        return 0;
    fprintf(stderr,
            "check-threads: %d things of CUDA and %d of NCCL are not freed; %d calls could end a "
            "capture%s\n",
            fake.live, whole_nccl.live, whole_cuda.prohibited, whole_nccl.hung ? "; hung" : "");
    return 1;
}
