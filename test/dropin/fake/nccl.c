/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.c - an NCCL that only records its calls. It is compiled with -DVERSION=22809.
 * Its collectives are in collectives.c.
 *
 * It exports functions of NCCL, and ncclFromTheFuture, which the drop-in does not know. In some
 * places it calls itself through its exported names, as NCCL does: ncclBcast calls ncclBroadcast,
 * and ncclCommAbort calls ncclCommGetAsyncError. ncclGroupEnd makes the communicators that were
 * asked for in the group, and fails if a collective of the group has failed.
 *
 * READY=FOLDER in the environment is for ranks that are processes. They wait for each other in
 * ncclCommInitRank, and in ncclCommInitRankConfig without a config, as in NCCL. After this wait,
 * INIT=fail makes the call fail, and INIT=kill ends the process. If BOX is set, too, ranks of
 * communicators that do not block wait for each other in ncclCommGetAsyncError, after
 * ncclCommInitRankConfig and ncclCommSplit.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "test/dropin/fake/nccl.h"

struct fake_comm {
    int ranks, rank, device;
    unsigned long long key; /* identifies a communicator that does not block; 0: it blocks */
    int step;               /* how many non-blocking calls the rank has begun on it */
    bool fast;              /* it does not block */
};

static struct record record = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local int depth, pending, group_error;
static _Thread_local struct {
    void **where;
    void *what;
} later[64];

EXPORT struct record *fake_record(void);
EXPORT struct record *fake_record(void)
{
    return &record;
}

/* A step is a non-blocking call that all ranks make. Ranks tell each other by files which step they
 * have begun. If ${now} is set, this rank begins the step. Return whether rank ${rank} has begun
 * it. */
static bool announced(unsigned long long key, int step, int rank, bool now)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%016llx-%d.%d", getenv("READY"), key, rank, step);
    if (now)
        fclose(fopen(path, "w"));
    return access(path, F_OK) == 0;
}

/* Return the state of the communicator: have all ranks begun this rank's step? A rank that has
 * aborted has begun step 0. */
static int state_of(const struct fake_comm *c)
{
    bool all = true, gone = false;

    for (int r = 0; r < c->ranks; r++) {
        all &= announced(c->key, c->step, r, false);
        gone |= announced(c->key, 0, r, false);
    }
    return all ? 0 : gone ? NCCL_ABI_REMOTE_ERROR : NCCL_ABI_IN_PROGRESS;
}

static int begin_step(struct fake_comm *c)
{
    announced(c->key, ++c->step, c->rank, true);
    return NCCL_ABI_IN_PROGRESS;
}

static int wait_for_all(const struct nccl_abi_id *id, int ranks, int rank)
{
    const char *folder = getenv("READY"), *init = getenv("INIT");
    unsigned long long key = st_hash(ST_HASH_START, id, sizeof *id);
    char path[512];

    if (!folder)
        return 0;
    snprintf(path, sizeof path, "%s/%016llx-%d", folder, key, rank);
    fclose(fopen(path, "w"));
    for (int r = 0; r < ranks; r++) {
        snprintf(path, sizeof path, "%s/%016llx-%d", folder, key, r);
        while (access(path, F_OK) != 0)
            usleep(1000);
    }
    pthread_mutex_lock(&record.lock); /* lock the record, because ranks may be threads */
    clock_gettime(CLOCK_MONOTONIC, &record.met);
    pthread_mutex_unlock(&record.lock);
    if (init && strcmp(init, "kill") == 0)
        raise(SIGKILL);
    return init && strcmp(init, "fail") == 0 ? 3 : 0;
}

static int give(void **where, int ranks, int rank)
{
    struct fake_comm *comm = calloc(1, sizeof *comm);

    comm->ranks = ranks;
    comm->rank = comm->device = rank;
    if (depth == 0) {
        *where = comm;
        return 0;
    }
    later[pending].where = where;
    later[pending++].what = comm;
    return 0;
}

EXPORT int ncclGetVersion(int *version);
EXPORT int ncclGetVersion(int *version)
{
    *version = VERSION;
    return 0;
}

EXPORT const char *ncclGetErrorString(int result);
EXPORT const char *ncclGetErrorString(int result)
{
    return result ? "an error" : "no error";
}

EXPORT int ncclGetUniqueId(struct nccl_abi_id *id);
int ncclGetUniqueId(struct nccl_abi_id *id)
{
    static atomic_int number;
    /* LONG_ID is the number of the one id that is full to its end. In other ids NCCL leaves the end
     * empty. */
    const char *full = getenv("LONG_ID");
    FILE *file = fopen("/dev/urandom", "r");
    size_t read;

    memset(id, 0, sizeof *id);
    read = fread(id, atomic_fetch_add(&number, 1) + 1 == (full ? atoi(full) : 0) ? sizeof *id : 40,
                 1, file);

    fclose(file);
    return read == 1 ? 0 : 3;
}

EXPORT int ncclFromTheFuture(int x);
EXPORT int ncclFromTheFuture(int x)
{
    record_add(&record, "FromTheFuture:%d ", x);
    return 0;
}

EXPORT int ncclCommCount(struct fake_comm *comm, int *count);
EXPORT int ncclCommCount(struct fake_comm *comm, int *count)
{
    *count = comm->ranks;
    return 0;
}

EXPORT int ncclCommUserRank(struct fake_comm *comm, int *rank);
EXPORT int ncclCommUserRank(struct fake_comm *comm, int *rank)
{
    *rank = comm->rank;
    return 0;
}

EXPORT int ncclCommCuDevice(struct fake_comm *comm, int *device);
EXPORT int ncclCommCuDevice(struct fake_comm *comm, int *device)
{
    *device = comm->device;
    return 0;
}

int ncclGroupStart(void)
{
    record_add(&record, "GroupStart ");
    depth++;
    return 0;
}

int ncclGroupEnd(void)
{
    int result = __atomic_exchange_n(&record.end, 0, __ATOMIC_RELAXED);

    record_add(&record, "GroupEnd ");
    if (depth == 0)
        return 5;
    if (--depth == 0) {
        if (record.ends)
            record.ends();
        while (pending > 0) {
            pending--;
            *later[pending].where = later[pending].what;
        }
        result = result ? result : group_error;
        group_error = 0;
    }
    return result;
}

int ncclGroupSimulateEnd(void *info)
{
    (void)info;
    record_add(&record, "GroupSimulateEnd ");
    if (--depth == 0)
        group_error = 0;
    return 0;
}

static int init(void **comm, int ranks, struct nccl_abi_id id, int rank)
{
    int result = depth == 0 ? wait_for_all(&id, ranks, rank) : 0;

    if (record.wait && depth == 0)
        record.wait();
    return result ? result : give(comm, ranks, rank);
}

int ncclCommInitRank(void **comm, int ranks, struct nccl_abi_id id, int rank)
{
    return init(comm, ranks, id, rank);
}

int ncclCommInitRankConfig(void **comm, int ranks, struct nccl_abi_id id, int rank, void *config)
{
    struct nccl_abi_config *c = config;
    int result = c ? give(comm, ranks, rank) : init(comm, ranks, id, rank);

    if (c && c->blocking == 0 && depth == 0)
        ((struct fake_comm *)*comm)->fast = true;
    if (c && c->blocking == 0 && getenv("BOX")) {
        struct fake_comm *made = *comm;

        made->key = st_hash(ST_HASH_START, &id, sizeof id);
        return begin_step(made);
    }
    return c && c->blocking == 0 ? NCCL_ABI_IN_PROGRESS : result;
}

int ncclCommInitRankScalable(void **comm, int ranks, int rank, int ids, struct nccl_abi_id *id,
                             void *config)
{
    (void)ids, (void)config, (void)id;
    return give(comm, ranks, rank);
}

int ncclCommInitAll(void **comms, int n, const int *devices)
{
    for (int i = 0; i < n; i++) {
        give(&comms[i], n, i);
        if (devices && depth == 0)
            ((struct fake_comm *)comms[i])->device = devices[i];
    }
    return 0;
}

/* A child communicator that does not block. The program gets it when it calls ncclCommGetAsyncError
 * with the parent. */
static struct {
    void *parent, **where, *what;
} child;

/* The child of each color has half of the parent's ranks, or all of them if WHOLE is in the
 * environment. As in NCCL, the call returns before the child is made only if the parent does not
 * block. */
int ncclCommSplit(void *comm, int color, int key, void **made, void *config)
{
    const struct nccl_abi_config *how = config;
    struct fake_comm *c = comm;

    (void)key;
    *made = NULL;
    if (c->fast && how && how->blocking == 0) {
        child.parent = comm;
        child.where = made;
        give(&child.what, c->ranks, c->rank);
        return NCCL_ABI_IN_PROGRESS;
    }
    if (c->key)
        return begin_step(c);
    if (record.wait && depth == 0)
        record.wait();
    if (color < 0)
        return 0;
    if (getenv("WHOLE"))
        give(made, c->ranks, c->rank);
    else
        give(made, c->ranks > 2 ? c->ranks / 2 : c->ranks, c->rank / 2);
    if (depth == 0)
        ((struct fake_comm *)*made)->device = c->device;
    return 0;
}

int ncclCommShrink(void *comm, int *without, int n, void **made, void *config, int flags)
{
    struct fake_comm *c = comm;

    (void)without, (void)config;
    record_add(&record, "Shrink:%d ", flags);
    return give(made, c->ranks - n, c->rank);
}

int ncclCommGrow(void *comm, int ranks, const struct nccl_abi_id *id, int rank, void **made,
                 void *config)
{
    (void)comm, (void)id, (void)config;
    return give(made, ranks, rank);
}

int ncclCommFinalize(void *comm)
{
    (void)comm;
    record_add(&record, "Finalize ");
    return 0;
}

int ncclCommDestroy(void *comm)
{
    record_add(&record, "Destroy ");
    free(comm);
    return 0;
}

int ncclCommAbort(void *comm)
{
    struct fake_comm *c = comm;
    int error = 0;

    if (getenv("BOX") && c->key)
        announced(c->key, 0, c->rank, true);
    ncclCommGetAsyncError(comm, &error);
    record_add(&record, "Abort:%d ", error);
    free(comm);
    return 0;
}

int ncclCommRevoke(void *comm, int flags)
{
    (void)comm;
    record_add(&record, "Revoke ");
    return flags ? 4 : 0;
}

int ncclCommSuspend(void *comm, int flags)
{
    (void)comm, (void)flags;
    record_add(&record, "Suspend ");
    return __atomic_exchange_n(&record.fail, 0, __ATOMIC_RELAXED);
}

int ncclCommGetAsyncError(void *comm, int *error)
{
    struct fake_comm *c = comm;

    *error = getenv("BOX") && c->key ? state_of(c) : record.async;
    if (child.what && child.parent == comm) {
        *child.where = child.what;
        child.what = NULL;
    }
    return 0;
}

int ncclCommWindowRegister(void *comm, void *buffer, size_t bytes, void **window, int flags)
{
    static atomic_long number;

    (void)comm, (void)buffer, (void)flags;
    record_add(&record, "WindowRegister:%zu ", bytes);
    if (record.window)
        record.window();
    if (depth == 0) {
        *window = (void *)(uintptr_t)(0x1000 + atomic_fetch_add(&number, 16));
        return 0;
    }
    later[pending].where = window;
    later[pending++].what = (void *)(uintptr_t)(0x1000 + atomic_fetch_add(&number, 16));
    return 0;
}

int ncclCommWindowDeregister(void *comm, void *window)
{
    (void)comm, (void)window;
    record_add(&record, "WindowDeregister ");
    return 0;
}

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int dtype, int residence, void *comm)
{
    (void)scalar, (void)dtype, (void)comm;
    record_add(&record, "RedOpCreate:%d ", residence);
    *op = 77;
    return 0;
}

int ncclRedOpDestroy(int op, void *comm)
{
    (void)comm;
    record_add(&record, "RedOpDestroy:%d ", op);
    return op == 77 ? 0 : 4;
}

int fake_run(const char *name, size_t count)
{
    int result = __atomic_exchange_n(&record.fail, 0, __ATOMIC_RELAXED);

    __atomic_add_fetch(&record.collectives, 1, __ATOMIC_RELAXED);
    record_add(&record, "%s:%zu ", name, count);
    if (depth > 0 && result)
        group_error = result;
    return result;
}
