/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c - a small fake of NCCL. */
#include "test/kernels/fake/nccl.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/kernels/fake/cuda.h"

#define EXPORT __attribute__((visibility("default"))) /* so that dlsym finds the function */

/* nccl.h does not declare these functions for every compiler or in every release */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **p);

struct fake_nccl fake_nccl;

enum kind { NONE, GATHER, WINDOW, REDUCE };

struct op {
    enum kind kind;
    const void *send; /* for a window: address of its memory */
    char *recv;
    size_t bytes;
    ncclWindow_t *window;
    cudaStream_t stream;
};

/* The state of each rank's communicator, if it was made with blocking = 0. */
static struct {
    bool made, busy, joined; /* joined: waits for the other ranks in round ${round} */
    int left, round;
    ncclResult_t end;
    struct op op; /* the caller's operation; until it ends, its results are in data and window */
    char data[FAKE_RANKS * FAKE_CARD];
    ncclWindow_t window;
} state_of[FAKE_RANKS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct op waiting[FAKE_RANKS];
static bool gone[FAKE_RANKS];
static void *memory[FAKE_WINDOWS][FAKE_RANKS];
static int rounds, windows;
static int team; /* bit r: rank r has asked for the multicast team */

static _Thread_local struct op mine[FAKE_RANKS]; /* the calls of the open group, by rank */
static _Thread_local int depth;
static _Thread_local bool refused;

void fake_nccl_reset(int ranks)
{
    char said[FAKE_CARD];

    memcpy(said, fake_nccl.said, sizeof said);
    fake_nccl =
        (struct fake_nccl){.ranks = ranks, .no_memory = -1, .no_window = -1, .no_multicast = -1};
    memcpy(fake_nccl.said, said, sizeof said);
    memset(waiting, 0, sizeof waiting);
    memset(gone, 0, sizeof gone);
    memset(state_of, 0, sizeof state_of);
    windows = rounds = team = 0;
}

/* ---- blocking = 0; callers of these functions hold the lock ---------------------------------- */

/* Count a call on the communicator of ${rank}, and return whether it is the one that ends oddly. */
static bool is_odd(int rank)
{
    return rank == fake_nccl.odd_rank && ++fake_nccl.calls == fake_nccl.odd_call;
}

static void begin(int rank)
{
    bool odd = is_odd(rank);

    state_of[rank].busy = true;
    state_of[rank].joined = false;
    state_of[rank].left = odd && fake_nccl.odd_end == ncclInProgress ? -1 : fake_nccl.polls;
    state_of[rank].end = odd && state_of[rank].left > 0 ? fake_nccl.odd_end : ncclSuccess;
    state_of[rank].op.kind = NONE;
}

static void begin_once(int rank)
{
    if (!state_of[rank].made)
        begin(rank);
    state_of[rank].made = true;
}

/* Begin a collective call of ${rank}. Let it wait for the other ranks, or, if the test wants that,
 * stay in progress for ever. */
static void begin_op(int rank, struct op op)
{
    bool endless = rank == fake_nccl.odd_rank && fake_nccl.calls + 1 == fake_nccl.odd_call &&
                   fake_nccl.odd_end == ncclSuccess;

    begin(rank);
    state_of[rank].op = op;
    state_of[rank].window = NULL;
    if (op.kind == WINDOW)
        *op.window = (ncclWindow_t)(uintptr_t)0xbad;
    if (state_of[rank].left < 0)
        return;
    if (endless)
        fake.endless = op.stream;
    op.recv = state_of[rank].data;
    op.window = &state_of[rank].window;
    waiting[rank] = op;
    state_of[rank].joined = true;
    state_of[rank].round = rounds;
}

static void deliver(int rank, bool good)
{
    const struct op *op = &state_of[rank].op;

    if (good && op->kind == GATHER)
        memcpy(op->recv, state_of[rank].data, op->bytes * (size_t)fake_nccl.ranks);
    if (op->kind == WINDOW)
        *op->window = good ? state_of[rank].window : NULL;
    if (op->kind == WINDOW && !good && state_of[rank].window != NULL)
        __atomic_sub_fetch(&fake_nccl.live, 1, __ATOMIC_RELAXED);
}

static ncclResult_t poll_one(int rank)
{
    if (state_of[rank].left < 0 && fake_nccl.odd_end != ncclInProgress)
        state_of[rank].left = 0; /* the test now lets the call end */
    if (state_of[rank].left != 0) {
        state_of[rank].left -= state_of[rank].left > 0;
        return ncclInProgress;
    }
    if (state_of[rank].joined && state_of[rank].round == rounds)
        return ncclInProgress;
    if (state_of[rank].busy && state_of[rank].joined && fake_nccl.hung)
        state_of[rank].end = ncclSystemError;
    if (state_of[rank].busy)
        deliver(rank, state_of[rank].end == ncclSuccess);
    state_of[rank].busy = false;
    return state_of[rank].end;
}

/* Return ncclSuccess if a call may begin on ${comm}. If another call is in progress, this breaks
 * the communicator, as in NCCL. */
static ncclResult_t is_free(ncclComm_t comm)
{
    int rank = (int)(uintptr_t)comm - 1;
    ncclResult_t result;

    if (fake_nccl.polls == 0)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    begin_once(rank);
    result = state_of[rank].busy ? ncclInvalidArgument : state_of[rank].end;
    if (state_of[rank].busy) {
        fake_nccl.early++;
        state_of[rank].left = 0;
        state_of[rank].joined = false;
        state_of[rank].end = result;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Return the result of a call that does not wait for other ranks. If ${comm} does not block, begin
 * the call. */
static ncclResult_t alone(ncclComm_t comm)
{
    int rank = (int)(uintptr_t)comm - 1;

    if (fake_nccl.polls == 0 || state_of[rank].end != ncclSuccess)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    begin(rank);
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

/* ---- collective calls ------------------------------------------------------------------------ */

static void do_gather(void)
{
    int number = ++fake_nccl.gathers;

    if (number == fake_nccl.keep)
        memcpy(fake_nccl.said, waiting[1].send, waiting[1].bytes);
    if (number == fake_nccl.say)
        waiting[1].send = fake_nccl.said;
    for (int r = 0; r < fake_nccl.ranks; r++)
        for (int s = 0; s < fake_nccl.ranks; s++)
            memcpy(waiting[r].recv + (size_t)s * waiting[0].bytes, waiting[s].send,
                   waiting[0].bytes);
}

static void do_windows(void)
{
    for (int r = 0; r < fake_nccl.ranks; r++) {
        memory[windows][r] = (void *)(uintptr_t)waiting[r].send;
        *waiting[r].window = NULL;
        if (fake_nccl.no_symmetric || r == fake_nccl.no_window)
            continue;
        *waiting[r].window = (ncclWindow_t)memory[windows];
        fake_nccl.live++;
    }
    windows++;
}

/* Run a collective call once all ranks have joined it. If a rank has ended or joined another call,
 * that can no longer happen: then set ${hung}. Callers hold the lock. */
static void look(void)
{
    int here = 0, same = 0, left = 0;

    for (int r = 0; r < fake_nccl.ranks; r++) {
        here += waiting[r].kind != NONE;
        left += waiting[r].kind == NONE && gone[r];
        same += waiting[r].kind == waiting[0].kind && waiting[r].bytes == waiting[0].bytes;
    }
    if (here == 0 || here + left < fake_nccl.ranks)
        return;
    if (same < fake_nccl.ranks || left != 0)
        fake_nccl.hung = true;
    else if (waiting[0].kind == GATHER)
        do_gather();
    else
        do_windows();
    memset(waiting, 0, sizeof waiting);
    rounds++;
    pthread_cond_broadcast(&changed);
}

static ncclResult_t join(void)
{
    bool any = false, lost = false, reduces = false;
    int round;

    pthread_mutex_lock(&lock);
    round = rounds;
    for (int r = 0; r < fake_nccl.ranks; r++)
        if (mine[r].kind == REDUCE) {
            begin(r);
            reduces = true;
        } else if (mine[r].kind != NONE) {
            if (fake_nccl.polls != 0)
                begin_op(r, mine[r]);
            else
                waiting[r] = mine[r];
            if (fake_nccl.polls == 0 && is_odd(r))
                fake.endless = mine[r].stream;
            any = true;
            lost |= mine[r].kind == WINDOW && r == fake_nccl.no_window;
        }
    memset(mine, 0, sizeof mine);
    if (any)
        look();
    if (fake_nccl.polls != 0) {
        pthread_mutex_unlock(&lock);
        return any || reduces ? ncclInProgress : ncclSuccess;
    }
    while (any && round == rounds)
        pthread_cond_wait(&changed, &lock);
    lost |= any && fake_nccl.hung;
    pthread_mutex_unlock(&lock);
    return lost ? ncclSystemError : ncclSuccess;
}

static ncclResult_t submit(ncclComm_t comm, struct op op)
{
    ncclResult_t result = is_free(comm);

    if (result != ncclSuccess) {
        refused = depth > 0;
        return result;
    }
    if (fake_nccl.refuses || (op.kind == WINDOW && fake_nccl.refuses_windows)) {
        refused = depth > 0;
        return ncclInvalidArgument;
    }
    mine[(uintptr_t)comm - 1] = op;
    if (depth > 0) /* the library must take both as success; NCCL itself returns ncclSuccess */
        return fake_nccl.polls % 2 != 0 ? ncclInProgress : ncclSuccess;
    return join();
}

struct member {
    pthread_t thread;
    int rank;
    void (*body)(int rank);
};

static void *run_member(void *at)
{
    const struct member *member = at;

    member->body(member->rank);
    pthread_mutex_lock(&lock);
    gone[member->rank] = true;
    look();
    pthread_mutex_unlock(&lock);
    return NULL;
}

void fake_nccl_threads(void (*body)(int rank))
{
    struct member member[FAKE_RANKS];

    memset(gone, 0, sizeof gone);
    for (int r = 0; r < fake_nccl.ranks; r++) {
        member[r] = (struct member){.rank = r, .body = body};
        ck_assert_int_eq(pthread_create(&member[r].thread, NULL, run_member, &member[r]), 0);
    }
    for (int r = 0; r < fake_nccl.ranks; r++)
        pthread_join(member[r].thread, NULL);
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = fake_nccl.version != 0 ? fake_nccl.version : 22901;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
    *n = fake_nccl.ranks;
    return (int)(uintptr_t)c <= fake_nccl.ranks ? is_free(c) : ncclInvalidArgument;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    int rank = (int)(uintptr_t)c - 1;

    if (rank < 0 || rank >= fake_nccl.ranks)
        return ncclInvalidArgument;
    *state = fake.endless != NULL && rank == fake_nccl.odd_rank ? fake_nccl.odd_end : ncclSuccess;
    if (fake_nccl.polls == 0)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    begin_once(rank);
    *state = poll_one(rank);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t c, int *d)
{
    *d = fake_nccl.one_gpu ? 0 : (int)(uintptr_t)c - 1;
    return is_free(c);
}

/* The library asks for the rank before it reads its rules. So from here on the environment is that
 * of the rank's own process. */
EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
    *rank = (int)(uintptr_t)c - 1;
    if (fake_nccl.rule_of[*rank])
        setenv("SYMTUNER_RULE", fake_nccl.rule_of[*rank], 1);
    else if (getenv("SYMTUNER_RULE"))
        unsetenv("SYMTUNER_RULE");
    if (fake_nccl.machine_of_last && *rank == fake_nccl.ranks - 1)
        setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
    return is_free(c);
}

EXPORT const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclSystemError ? "fake system" : r == ncclRemoteError ? "fake remote" : "fake";
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    __atomic_add_fetch(&fake_nccl.depth, 1, __ATOMIC_RELAXED);
    depth++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    bool bad = refused;

    __atomic_sub_fetch(&fake_nccl.depth, 1, __ATOMIC_RELAXED);
    if (--depth > 0)
        return ncclSuccess;
    refused = false;
    if (bad)
        memset(mine, 0, sizeof mine);
    return bad ? ncclInvalidArgument : join();
}

EXPORT ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    int device;

    cudaGetDevice(&device);
    if (device == fake_nccl.no_memory)
        return ncclUnhandledCudaError;
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    fake_nccl.allocated[device] += bytes; /* no two threads use one GPU, so no lock is needed */
    __atomic_add_fetch(&fake_nccl.live, 1, __ATOMIC_RELAXED);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclMemFree(void *p)
{
    ck_assert_ptr_null(fake.endless); /* NCCL would wait for the kernel that never ends */
    __atomic_sub_fetch(&fake_nccl.live, 1, __ATOMIC_RELAXED);
    free(p);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t bytes,
                                           ncclWindow_t *window, int flags)
{
    (void)flags;
    return submit(comm, (struct op){.kind = WINDOW, .send = p, .bytes = bytes, .window = window});
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w)
{
    int own, current;

    (void)w, fake_prohibited(); /* the call may wait for the GPU */
    ck_assert_ptr_null(fake.endless);
    cudaGetDevice(&current);
    ncclCommCuDevice(c, &own); /* this also counts the call; NCCL goes on even after an error */
    ck_assert_int_eq(current, own);
    __atomic_sub_fetch(&fake_nccl.live, 1, __ATOMIC_RELAXED);
    return alone(c);
}

EXPORT ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p)
{
    *p = (char *)((void **)window)[rank] + offset;
    return ncclSuccess;
}

/* As in 2.30.7: the first rank that asks creates the communicator's multicast team, and then waits
 * until all ranks have asked. This happens at once, even in an open group. */
EXPORT ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **p)
{
    struct timespec until;
    int rank;

    *p = NULL, fake_prohibited(); /* the call allocates memory */
    __atomic_add_fetch(&fake_nccl.asks, 1, __ATOMIC_RELAXED);
    if (!fake_nccl.multicast)
        return ncclSuccess;
    cudaGetDevice(&rank); /* each rank has a GPU of its own here */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    pthread_mutex_lock(&lock);
    team |= 1 << rank;
    pthread_cond_broadcast(&changed);
    while (team != (1 << fake_nccl.ranks) - 1 && !fake_nccl.hung)
        if (pthread_cond_timedwait(&changed, &lock, &until) != 0)
            fake_nccl.hung = true;
    pthread_mutex_unlock(&lock);
    if (rank != fake_nccl.no_multicast && !fake_nccl.hung)
        *p = (char *)((void **)window)[rank] + ((size_t)1 << 40) + offset;
    return *p == NULL ? ncclSystemError : ncclSuccess;
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    ck_assert(fake.endless == NULL || stream != fake.endless);
    return submit(comm, (struct op){GATHER, send, recv, count, NULL, stream});
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream)
{
    __atomic_add_fetch(&fake_nccl.scatters, 1, __ATOMIC_RELAXED);
    return ncclAllReduce(send, recv, count, type, op, comm, stream);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = is_free(comm);

    (void)send, (void)recv, (void)count, (void)type, (void)stream;
    fake_nccl.reduce_op = (int)op;
    __atomic_add_fetch(&fake_nccl.reduces, 1, __ATOMIC_RELAXED);
    if (result == ncclSuccess && depth > 0 && fake_nccl.polls != 0) {
        mine[(uintptr_t)comm - 1].kind = REDUCE;
        return ncclSuccess;
    }
    return result == ncclSuccess ? alone(comm) : result;
}
