/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - see net.h. */
#include "test/kernels/nodes/net.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/shared/dtypes.h"
#include "test/kernels/fake/steps.h"

#define EXPORT __attribute__((visibility("default"))) /* the library finds it by dlsym */

/* nccl.h declares these only for other compilers, or in later releases */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p);

struct fake_net net;

enum { TEAMS = 64 };
enum kind { GATHER = 1, WINDOW, REDUCE, SCATTER, SPLIT };

struct op {
    enum kind kind;
    const void *send;
    void *recv;
    size_t count;
    int type, op, color, key;
    ncclWindow_t *window;
    ncclComm_t *comm;
};

struct team {
    int ranks, world[NET_RANKS];
    int here, round;
    struct op op[NET_RANKS];
    void *memory[NET_WINDOWS][NET_RANKS];
    int windows;
};

struct ncclComm {
    struct team *team;
    int rank, world, splits;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct team teams[TEAMS], *world = &teams[0];
static int teams_made;
static _Thread_local int self; /* the rank of this thread */

void net_reset(int ranks, int in_a_box)
{
    net = (struct fake_net){.ranks = ranks, .no_window = -1, .slow_rank = -1};
    for (int r = 0; r < ranks; r++)
        net.box_of[r] = r / in_a_box;
    memset(teams, 0, sizeof teams);
    teams_made = 1;
    world->ranks = ranks;
    for (int r = 0; r < ranks; r++)
        world->world[r] = r;
}

static void count(int *number, int more)
{
    __atomic_add_fetch(number, more, __ATOMIC_RELAXED);
}

static ncclComm_t comm_of(struct team *team, int rank)
{
    ncclComm_t comm = calloc(1, sizeof *comm);

    *comm = (struct ncclComm){team, rank, team->world[rank], 0};
    count(&net.live, 1);
    return comm;
}

ncclComm_t net_comm(int rank)
{
    return comm_of(world, rank);
}

struct seat {
    pthread_t thread;
    int rank;
    void (*body)(int rank);
};

static void *sit(void *at)
{
    const struct seat *seat = at;

    self = seat->rank;
    seat->body(seat->rank);
    return NULL;
}

void net_threads(void (*body)(int rank))
{
    struct seat seat[NET_RANKS];

    for (int r = 0; r < net.ranks; r++) {
        seat[r] = (struct seat){.rank = r, .body = body};
        pthread_create(&seat[r].thread, NULL, sit, &seat[r]);
    }
    for (int r = 0; r < net.ranks; r++)
        pthread_join(seat[r].thread, NULL);
}

/* ---- the environment of a rank --------------------------------------------------------------- */

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

/* ---- what the last rank to come does; with the lock held ---------------------------------------- */

static float bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;

    memcpy(&f, &wide, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t wide;

    memcpy(&wide, &f, sizeof wide);
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

#define COMBINE(op, x, y)                                                                          \
    ((op) == AR_PROD  ? (x) * (y)                                                                  \
     : (op) == AR_MAX ? ((x) > (y) ? (x) : (y))                                                    \
     : (op) == AR_MIN ? ((x) < (y) ? (x) : (y))                                                    \
                      : (x) + (y))
#define ADD(name, type, load, store)                                                               \
    static void add_##name(void *to, const void *from, size_t n, int op)                           \
    {                                                                                              \
        type *a = to;                                                                              \
        const type *b = from;                                                                      \
                                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            a[i] = store(COMBINE(op, load(a[i]), load(b[i])));                                     \
    }                                                                                              \
    static void share_##name(void *to, size_t n, int ranks)                                        \
    {                                                                                              \
        type *a = to;                                                                              \
                                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            a[i] = store(load(a[i]) / (type)ranks);                                                \
    }
ADD(f32, float, (float), (float))
ADD(f64, double, (double), (double))
ADD(i32, int32_t, (int32_t), (int32_t))
ADD(u64, uint64_t, (uint64_t), (uint64_t))
ADD(u8, uint8_t, (uint8_t), (uint8_t))
ADD(bf16, uint16_t, bf16, to_bf16)

static const struct {
    void (*add)(void *, const void *, size_t, int);
    void (*share)(void *, size_t, int);
} adders[AR_DTYPES] = {
    [AR_F32] = {add_f32, share_f32}, [AR_F64] = {add_f64, share_f64},
    [AR_I32] = {add_i32, share_i32}, [AR_U64] = {add_u64, share_u64},
    [AR_U8] = {add_u8, share_u8},    [AR_BF16] = {add_bf16, share_bf16},
};

static void do_reduce(struct team *t)
{
    const struct op *first = &t->op[0];
    size_t bytes = first->count * (size_t)ar_dtype_bytes(first->type);
    void *sum;

    if (net.adds_nothing)
        return;
    sum = malloc(bytes);
    memcpy(sum, first->send, bytes);
    for (int r = 1; r < t->ranks; r++)
        adders[first->type].add(sum, t->op[r].send, first->count, first->op);
    if (first->op == AR_AVG)
        adders[first->type].share(sum, first->count, t->ranks);
    for (int r = 0; r < t->ranks; r++)
        memcpy(t->op[r].recv, sum, bytes);
    free(sum);
}

static void do_gather(struct team *t)
{
    if (net.adds_nothing && t->op[0].count > 4096)
        return; /* a long call of a box; what ranks tell each other is shorter */
    for (int r = 0; r < t->ranks; r++)
        for (int s = 0; s < t->ranks; s++)
            memcpy((char *)t->op[r].recv + (size_t)s * t->op[0].count, t->op[s].send,
                   t->op[0].count);
}

static void do_windows(struct team *t)
{
    for (int r = 0; r < t->ranks; r++) {
        t->memory[t->windows][r] = (void *)(uintptr_t)t->op[r].send;
        *t->op[r].window = NULL;
        if (t->world[r] == net.no_window)
            continue;
        *t->op[r].window = (ncclWindow_t)t->memory[t->windows];
        count(&net.live, 1);
    }
    t->windows++;
}

/* Make the communicator of rank ${r}'s color, for all its ranks in the order of their keys. */
static void do_split(struct team *t, int r)
{
    struct team *part = &teams[teams_made++];
    int last = -1;

    for (;;) {
        int next = -1;

        for (int s = 0; s < t->ranks; s++)
            if (t->op[s].color == t->op[r].color && t->op[s].key > last &&
                (next < 0 || t->op[s].key < t->op[next].key))
                next = s;
        if (next < 0)
            break;
        last = t->op[next].key;
        part->world[part->ranks++] = t->world[next];
        *t->op[next].comm = (ncclComm_t)(uintptr_t)part->ranks; /* until all are known */
    }
    for (int s = 0; s < t->ranks; s++)
        if (t->op[s].color == t->op[r].color)
            *t->op[s].comm = comm_of(part, (int)(uintptr_t)*t->op[s].comm - 1);
}

static void do_splits(struct team *t)
{
    for (int r = 0; r < t->ranks; r++)
        if (*t->op[r].comm == NULL)
            do_split(t, r);
}

static void run(struct team *t)
{
    for (int r = 1; r < t->ranks; r++)
        if (t->op[r].kind != t->op[0].kind || t->op[r].count != t->op[0].count)
            net.hung = true;
    if (net.hung)
        return;
    if (t->op[0].kind == GATHER)
        do_gather(t);
    else if (t->op[0].kind == REDUCE)
        do_reduce(t);
    else if (t->op[0].kind == SCATTER)
        net.hung = !net.adds_nothing; /* the long calls of a box, which only take time here */
    else if (t->op[0].kind == WINDOW)
        do_windows(t);
    else
        do_splits(t);
}

static ncclResult_t join(ncclComm_t comm, struct op op)
{
    struct team *t = comm->team;
    struct timespec until;
    int round;
    bool hung;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20; /* more than a busy machine needs */
    pthread_mutex_lock(&lock);
    round = t->round;
    t->op[comm->rank] = op;
    if (++t->here == t->ranks) {
        run(t);
        t->here = 0;
        t->round++;
        pthread_cond_broadcast(&changed);
    }
    while (t->round == round && !net.hung)
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0)
            net.hung = true;
    hung = net.hung;
    pthread_mutex_unlock(&lock);
    return hung ? ncclSystemError : ncclSuccess;
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = 22901;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
    *n = c->team->ranks;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
    *rank = c->rank;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t c, int *device)
{
    *device = net.gpus != 0 ? c->world % net.gpus : c->world;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    (void)c;
    *state = ncclSuccess;
    return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t r)
{
    (void)r;
    return "fake";
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    return ncclSuccess;
}

/* A communicator that does not block says so at the end of a group. Our ranks have a thread each,
 * so each call has blocked all the same. */
EXPORT ncclResult_t ncclGroupEnd(void)
{
    return net.splits_late ? ncclInProgress : ncclSuccess;
}

EXPORT ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    count(&net.live, 1);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclMemFree(void *p)
{
    count(&net.live, -1);
    free(p);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t bytes,
                                           ncclWindow_t *window, int flags)
{
    (void)flags;
    return join(comm, (struct op){.kind = WINDOW, .send = p, .count = bytes, .window = window});
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w)
{
    (void)c, (void)w;
    count(&net.live, -1);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p)
{
    *p = (char *)((void **)window)[rank] + offset;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t n, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    n *= (size_t)ar_dtype_bytes((int)type);
    fake_step(FAKE_NCCL, stream, send, recv, n);
    return join(comm, (struct op){.kind = GATHER, .send = send, .recv = recv, .count = n});
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t n, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    const bool all = comm->team->ranks == net.ranks;
    const int us = all ? net.slow_all_us : net.slow_some_us;
    const size_t bytes = n * (size_t)ar_dtype_bytes((int)type);

    count(all ? &net.all_reduces : &net.some_reduces, 1);
    fake_step(FAKE_NCCL, stream, send, recv, bytes);
    usleep((unsigned)(us * (double)bytes / (1 << 20)));
    if (comm->world == net.slow_rank)
        usleep(1000);
    return join(comm, (struct op){.kind = REDUCE,
                                  .send = send,
                                  .recv = recv,
                                  .count = n,
                                  .type = (int)type,
                                  .op = (int)op});
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t n, ncclDataType_t type,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    fake_step(FAKE_NCCL, stream, send, recv, n * (size_t)ar_dtype_bytes((int)type));
    return join(comm, (struct op){.kind = SCATTER,
                                  .send = send,
                                  .recv = recv,
                                  .count = n,
                                  .type = (int)type,
                                  .op = (int)op});
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                                  ncclConfig_t *config)
{
    const int number = comm->splits++ + 1;
    ncclResult_t result;

    count(&net.splits, 1);
    *out = NULL;
    if (config == NULL || config->splitShare != 1 || config->blocking != 1)
        return ncclInvalidArgument; /* ncclCommAbort of the parent must end the parts, too */
    result = join(comm, (struct op){.kind = SPLIT, .color = color, .key = key, .comm = out});
    if (result != ncclSuccess || number != net.no_split || comm->rank != net.split_fails)
        return result;
    ncclCommDestroy(*out);
    *out = NULL;
    return ncclSystemError;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    count(&net.live, -1);
    free(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm)
{
    (void)scalar, (void)type, (void)residence, (void)comm;
    *op = (ncclRedOp_t)AR_OPS;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    (void)op, (void)comm;
    return ncclSuccess;
}
