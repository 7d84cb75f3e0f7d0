/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nccl.c - see fake_nccl.h. */
#include "test/ar/fake_nccl.h"

#include <check.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/ar/fake_cuda.h"

#define EXPORT __attribute__((visibility("default"))) /* the library asks dlsym */

/* nccl.h has these for other compilers or later releases only */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p);

struct fake_nccl fake_nccl;

enum kind { NONE, GATHER, WINDOW };

struct op {
    enum kind kind;
    const void *send; /* window: the memory */
    char *recv;
    size_t bytes;
    ncclWindow_t *window;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct op waiting[FAKE_RANKS];
static bool gone[FAKE_RANKS];
static int rounds;
static void *memory[FAKE_WINDOWS][FAKE_RANKS];
static int windows;

static _Thread_local struct op mine[FAKE_RANKS]; /* of the open group */
static _Thread_local int depth;
static _Thread_local bool refused;

void fake_nccl_reset(int ranks)
{
    char said[FAKE_CARD];

    memcpy(said, fake_nccl.said, sizeof said);
    fake_nccl = (struct fake_nccl){.ranks = ranks, .no_memory = -1, .no_window = -1};
    memcpy(fake_nccl.said, said, sizeof said);
    memset(waiting, 0, sizeof waiting);
    memset(gone, 0, sizeof gone);
    windows = rounds = 0;
}

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

/* With the lock: do what all have come for, or find out that they never will. */
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
    bool any = false, lost = false;
    int round;

    pthread_mutex_lock(&lock);
    round = rounds;
    for (int r = 0; r < fake_nccl.ranks; r++)
        if (mine[r].kind != NONE) {
            waiting[r] = mine[r];
            any = true;
            lost |= mine[r].kind == WINDOW && r == fake_nccl.no_window;
        }
    memset(mine, 0, sizeof mine);
    if (any)
        look();
    while (any && round == rounds)
        pthread_cond_wait(&changed, &lock);
    lost |= any && fake_nccl.hung;
    pthread_mutex_unlock(&lock);
    return lost ? ncclSystemError : ncclSuccess;
}

static ncclResult_t submit(ncclComm_t comm, struct op op)
{
    if (fake_nccl.refuses || (op.kind == WINDOW && fake_nccl.refuses_windows)) {
        refused = depth > 0;
        return ncclInvalidArgument;
    }
    mine[(uintptr_t)comm - 1] = op;
    return depth > 0 ? ncclSuccess : join();
}

struct seat {
    pthread_t thread;
    int rank;
    void (*body)(int rank);
};

static void *sit(void *at)
{
    const struct seat *seat = at;

    seat->body(seat->rank);
    pthread_mutex_lock(&lock);
    gone[seat->rank] = true;
    look();
    pthread_mutex_unlock(&lock);
    return NULL;
}

void fake_nccl_threads(void (*body)(int rank))
{
    struct seat seat[FAKE_RANKS];

    memset(gone, 0, sizeof gone);
    for (int r = 0; r < fake_nccl.ranks; r++) {
        seat[r] = (struct seat){.rank = r, .body = body};
        ck_assert_int_eq(pthread_create(&seat[r].thread, NULL, sit, &seat[r]), 0);
    }
    for (int r = 0; r < fake_nccl.ranks; r++)
        pthread_join(seat[r].thread, NULL);
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = 22901;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
    *n = fake_nccl.ranks;
    return (int)(uintptr_t)c <= fake_nccl.ranks ? ncclSuccess : ncclInvalidArgument;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t c, int *d)
{
    *d = (int)(uintptr_t)c - 1;
    return ncclSuccess;
}

/* Asked before the rank reads its rules: from here on we are in its process. */
EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
    *rank = (int)(uintptr_t)c - 1;
    if (fake_nccl.rule_of[*rank])
        setenv("SYMTUNER_RULE", fake_nccl.rule_of[*rank], 1);
    else if (getenv("SYMTUNER_RULE"))
        unsetenv("SYMTUNER_RULE");
    return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclSystemError ? "fake system error" : "fake";
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
    depth--;
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
    __atomic_add_fetch(&fake_nccl.live, 1, __ATOMIC_RELAXED);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclMemFree(void *p)
{
    ck_assert_ptr_null(fake.endless); /* would wait for it */
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
    (void)c, (void)w;
    ck_assert_ptr_null(fake.endless);
    __atomic_sub_fetch(&fake_nccl.live, 1, __ATOMIC_RELAXED);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p)
{
    *p = (char *)((void **)window)[rank] + offset;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    ck_assert(fake.endless == NULL || stream != fake.endless);
    return submit(comm, (struct op){.kind = GATHER, .send = send, .recv = recv, .bytes = count});
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return ncclSuccess;
}
