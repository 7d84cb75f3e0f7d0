/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - puts ranks on several boxes (machines), each rank in a thread, for the fake NCCL of
 * test/whole/nccl.c. */
#include "test/kernels/nodes/net.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/kernels/fake/steps.h"

struct fake_net net;

static ncclUniqueId id;        /* the id of the communicator of all ranks */
static _Thread_local int self; /* the rank of this thread */

static void count(int *number)
{
    __atomic_add_fetch(number, 1, __ATOMIC_RELAXED);
}

/* ---- what the fake NCCL calls ---------------------------------------------------------------- */

static bool collective(const struct whole_call *call)
{
    const bool all = call->ranks == net.ranks;
    const int us = all ? net.slow_all_us : net.slow_some_us;

    fake_step(FAKE_NCCL, call->stream, call->send, call->recv, call->bytes);
    if (call->kind == WHOLE_ALL_REDUCE) {
        count(all ? &net.all_reduces : &net.some_reduces);
        usleep((unsigned)(us * (double)call->bytes / (1 << 20)) +
               (call->world == net.slow_rank ? 1000 : 0));
    }
    /* With adds_nothing, the fake NCCL moves data only in short all-gathers, because the ranks
     * exchange their settings in these. */
    return !net.adds_nothing || (call->kind == WHOLE_ALL_GATHER && call->bytes <= 4096);
}

static bool refuse(const struct whole_call *call)
{
    /* refuse_at is counted down without a lock, so only one rank may get there */
    return call->world == net.refuse_on && call->kind == WHOLE_ALL_REDUCE && net.refuse_at > 0 &&
           --net.refuse_at == 0;
}

static ncclResult_t split(int world, int number, const ncclConfig_t *config)
{
    count(&net.splits);
    if (config == NULL || config->blocking != 1)
        return ncclInvalidArgument;
    return number == net.no_split && world == net.split_fails ? ncclSystemError : ncclSuccess;
}

static bool window(int world)
{
    return world != net.no_window;
}

void net_reset(int ranks, int in_a_box)
{
    net = (struct fake_net){.ranks = ranks, .no_window = -1, .slow_rank = -1};
    for (int r = 0; r < ranks; r++)
        net.box_of[r] = r / in_a_box;
    whole_nccl = (struct whole_nccl){.limit_s = 20,
                                     .collective = collective,
                                     .refuse = refuse,
                                     .split = split,
                                     .window = window};
    ncclGetUniqueId(&id);
}

ncclComm_t net_comm(int rank)
{
    ncclComm_t comm;

    cudaSetDevice(rank);
    ncclCommInitRank(&comm, net.ranks, id, rank);
    return comm;
}

/* ---- ranks and their environment ------------------------------------------------------------- */

struct member {
    pthread_t thread;
    int rank;
    void (*body)(int rank);
};

static void *run_member(void *at)
{
    const struct member *member = at;

    self = member->rank;
    member->body(member->rank);
    return NULL;
}

void net_threads(void (*body)(int rank))
{
    struct member member[NET_RANKS];

    for (int r = 0; r < net.ranks; r++) {
        member[r] = (struct member){.rank = r, .body = body};
        pthread_create(&member[r].thread, NULL, run_member, &member[r]);
    }
    for (int r = 0; r < net.ranks; r++)
        pthread_join(member[r].thread, NULL);
}

char *__real_getenv(const char *name);
char *__wrap_getenv(const char *name);

char *__wrap_getenv(const char *name)
{
    static _Thread_local char box[16];
    const char *set = net.set[self];
    size_t n = strlen(name);

    if (strcmp(name, "NCCL_HOSTID") == 0) {
        snprintf(box, sizeof box, "box%d", net.box_of[self]);
        return box;
    }
    if (set != NULL && strncmp(set, name, n) == 0 && set[n] == '=')
        return (char *)(uintptr_t)set + n + 1;
    return __real_getenv(name);
}
