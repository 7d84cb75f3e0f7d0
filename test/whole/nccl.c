/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.c - an NCCL that works, for ranks that are threads of one process and GPUs in host memory.
 *
 * It is the libnccl.so.2 of the programs here. A rank's operations wait in a queue, and run when all
 * ranks of the communicator have put theirs there. A call waits for its stream and ends before it
 * (or ncclGroupEnd) returns; real ones return at once. Values are numbers that a double holds
 * exactly.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* nccl.h declares these only for other compilers, or in later releases */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **p);
EXPORT long whole_nccl_ran(void); /* collectives, counted once for each rank */

enum { RANKS = 8, QUEUE = 64, OPERATORS = 16 };

enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, WINDOW, SPLIT };

struct op {
    enum kind kind;
    const void *send;
    void *recv; /* of a window or a split: where its handle goes */
    size_t count;
    int type, reduction, color, key, device;
    bool scaled; /* by */
    double scale;
};

struct team {
    unsigned char id[NCCL_UNIQUE_ID_BYTES];
    int ranks, joined, left;
    struct op queue[RANKS][QUEUE];
    unsigned long put[RANKS], done;
    struct team *next;
};

struct ncclComm {
    struct team *team;
    int rank, device;
    struct {
        bool used;
        const void *scalar; /* NULL: it is */
        double value;
    } made[OPERATORS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct team *teams;
static long ran; /* collectives, counted once for each rank */

static _Thread_local int depth, waits;
static _Thread_local struct {
    struct team *team;
    unsigned long until; /* 0: until all ranks have joined the team */
} wait_for[256];

long whole_nccl_ran(void)
{
    return __atomic_load_n(&ran, __ATOMIC_RELAXED);
}

/* ---- values ---------------------------------------------------------------------------------- */

static size_t size_of(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return type >= 0 && type < 10 ? sizes[type] : 0;
}

static double get(const void *p, size_t i, int type)
{
    return type == ncclInt8      ? ((const signed char *)p)[i]
           : type == ncclUint8   ? ((const unsigned char *)p)[i]
           : type == ncclInt32   ? ((const int *)p)[i]
           : type == ncclFloat32 ? (double)((const float *)p)[i]
                                 : ((const double *)p)[i];
}

static void put(void *p, size_t i, int type, double value)
{
    if (type == ncclInt8)
        ((signed char *)p)[i] = (signed char)value;
    else if (type == ncclUint8)
        ((unsigned char *)p)[i] = (unsigned char)value;
    else if (type == ncclInt32)
        ((int *)p)[i] = (int)value;
    else if (type == ncclFloat32)
        ((float *)p)[i] = (float)value;
    else
        ((double *)p)[i] = value;
}

static double both(double a, double b, int reduction)
{
    return reduction == ncclProd  ? a * b
           : reduction == ncclMax ? (a > b ? a : b)
           : reduction == ncclMin ? (a < b ? a : b)
                                  : a + b;
}

/* ---- operations, with the lock held ---------------------------------------------------------- */

static double addend(const struct op *op, size_t i)
{
    return get(op->send, i, op->type) * (op->scaled ? op->scale : 1);
}

/* Reduce ${count} elements, from ${first} on, of all ranks into memory of this function's own. */
static void *reduced(const struct op *const *op, int ranks, size_t first, size_t count)
{
    void *sum = malloc(count * 8 + 8);

    for (size_t i = 0; i < count; i++) {
        double value = addend(op[0], first + i);

        for (int r = 1; r < ranks; r++)
            value = both(value, addend(op[r], first + i), op[0]->reduction);
        put(sum, i, op[0]->type, op[0]->reduction == ncclAvg ? value / ranks : value);
    }
    return sum;
}

static void all_reduce(const struct op *const *op, int ranks)
{
    void *sum = reduced(op, ranks, 0, op[0]->count);

    for (int r = 0; r < ranks; r++)
        memcpy(op[r]->recv, sum, op[0]->count * size_of(op[0]->type));
    free(sum);
}

static void reduce_scatter(const struct op *const *op, int ranks)
{
    void *sum[RANKS];

    for (int r = 0; r < ranks; r++) /* a part may lie in place, over another rank's input */
        sum[r] = reduced(op, ranks, (size_t)r * op[0]->count, op[0]->count);
    for (int r = 0; r < ranks; r++) {
        memcpy(op[r]->recv, sum[r], op[0]->count * size_of(op[0]->type));
        free(sum[r]);
    }
}

static void all_gather(const struct op *const *op, int ranks)
{
    size_t bytes = op[0]->count * size_of(op[0]->type);

    for (int r = 0; r < ranks; r++)
        for (int s = 0; s < ranks; s++)
            memmove((char *)op[r]->recv + (size_t)s * bytes, op[s]->send, bytes);
}

static void window(const struct op *const *op, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        const void **base = calloc((size_t)ranks, sizeof *base);

        for (int s = 0; s < ranks; s++)
            base[s] = op[s]->send;
        *(const void ***)op[r]->recv = base;
    }
}

static ncclComm_t comm_of(struct team *team, int rank, int device)
{
    ncclComm_t comm = calloc(1, sizeof *comm);

    *comm = (struct ncclComm){.team = team, .rank = rank, .device = device};
    return comm;
}

static void split(const struct op *const *op, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        struct team *team = NULL;
        int before = 0;

        *(ncclComm_t *)op[r]->recv = NULL;
        if (op[r]->color == NCCL_SPLIT_NOCOLOR)
            continue;
        for (int s = 0; s < ranks; s++) {
            bool same = op[s]->color == op[r]->color;

            before += same && (op[s]->key < op[r]->key || (op[s]->key == op[r]->key && s < r));
            if (same && s < r && team == NULL)
                team = (*(ncclComm_t *)op[s]->recv)->team;
        }
        if (team == NULL)
            team = calloc(1, sizeof *team);
        team->ranks = ++team->joined;
        *(ncclComm_t *)op[r]->recv = comm_of(team, before, op[r]->device);
    }
}

static void (*const run[])(const struct op *const *op, int ranks) = {
    [ALL_REDUCE] = all_reduce, [REDUCE_SCATTER] = reduce_scatter,
    [ALL_GATHER] = all_gather, [WINDOW] = window,
    [SPLIT] = split,
};

/* Run the operations that all ranks have put into the queue. */
static void advance(struct team *team)
{
    const struct op *op[RANKS];

    for (;; team->done++) {
        for (int r = 0; r < team->ranks; r++) {
            if (team->put[r] == team->done)
                return;
            op[r] = &team->queue[r][team->done % QUEUE];
            if (op[r]->kind != op[0]->kind || op[r]->count != op[0]->count ||
                op[r]->type != op[0]->type || op[r]->reduction != op[0]->reduction) {
                fprintf(stderr, "nccl: ranks 0 and %d make different calls\n", r);
                abort(); /* the real one would hang or give wrong sums */
            }
        }
        if (op[0]->kind <= ALL_GATHER)
            __atomic_add_fetch(&ran, team->ranks, __ATOMIC_RELAXED);
        run[op[0]->kind](op, team->ranks);
        pthread_cond_broadcast(&changed);
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void end_waits(void)
{
    for (int i = 0; i < waits; i++)
        while (wait_for[i].until == 0 ? wait_for[i].team->joined < wait_for[i].team->ranks
                                      : wait_for[i].team->done < wait_for[i].until)
            pthread_cond_wait(&changed, &lock);
    waits = 0;
}

static void will_wait(struct team *team, unsigned long until)
{
    wait_for[waits].team = team;
    wait_for[waits++].until = until;
    if (depth == 0)
        end_waits();
}

static ncclResult_t submit(ncclComm_t comm, struct op op)
{
    struct team *team = comm->team;

    pthread_mutex_lock(&lock);
    team->queue[comm->rank][team->put[comm->rank]++ % QUEUE] = op;
    advance(team);
    will_wait(team, team->put[comm->rank]);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* Operators have other numbers on each rank, as in NCCL. */
static int first_operator(ncclComm_t comm)
{
    return ncclNumOps + OPERATORS * comm->rank;
}

static ncclResult_t submit_on(cudaStream_t stream, ncclComm_t comm, struct op op)
{
    int i = op.reduction - first_operator(comm);

    if (cudaStreamSynchronize(stream) != cudaSuccess)
        return ncclUnhandledCudaError;
    if (op.reduction < ncclNumOps)
        return submit(comm, op);
    if (i < 0 || i >= OPERATORS || !comm->made[i].used)
        return ncclInvalidArgument;
    op.reduction = ncclSum;
    op.scaled = true;
    op.scale = comm->made[i].scalar ? get(comm->made[i].scalar, 0, op.type) : comm->made[i].value;
    return submit(comm, op);
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth == 0) {
        pthread_mutex_lock(&lock);
        end_waits();
        pthread_mutex_unlock(&lock);
    }
    return ncclSuccess;
}

/* ---- communicators --------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclGetVersion(int *version)
{
    *version = 23007;
    return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "an error";
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static long number;

    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "whole-%d-%ld", (int)getpid(),
             __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED));
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    struct team *team;
    int device;

    cudaGetDevice(&device);
    pthread_mutex_lock(&lock);
    for (team = teams; team != NULL && memcmp(team->id, &id, sizeof id) != 0;)
        team = team->next;
    if (team == NULL) {
        team = calloc(1, sizeof *team);
        memcpy(team->id, &id, sizeof id);
        team->ranks = ranks;
        team->next = teams;
        teams = team;
    }
    team->joined++;
    pthread_cond_broadcast(&changed);
    *comm = comm_of(team, rank, device);
    will_wait(team, 0);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    (void)config;
    return ncclCommInitRank(comm, ranks, id, rank);
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made,
                                  ncclConfig_t *config)
{
    (void)config;
    return submit(
        comm, (struct op){
                  .kind = SPLIT, .recv = made, .color = color, .key = key, .device = comm->device});
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    free(comm); /* a team stays: another rank may still be in it */
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return ncclCommDestroy(comm);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    (void)comm;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->team->ranks;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    (void)comm;
    *error = ncclSuccess;
    return ncclSuccess;
}

/* ---- memory ---------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *p != NULL ? ncclSuccess : ncclSystemError;
}

EXPORT ncclResult_t ncclMemFree(void *p)
{
    free(p);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes,
                                           ncclWindow_t *made, int flags)
{
    (void)flags;
    return submit(comm, (struct op){.kind = WINDOW, .send = buffer, .recv = made, .count = bytes});
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t made)
{
    (void)comm;
    free(made);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t made, size_t offset, int rank, void **p)
{
    *p = ((char **)made)[rank] + offset;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t made, size_t offset, void **p)
{
    (void)made, (void)offset;
    *p = NULL;
    return ncclSuccess;
}

/* ---- collectives ----------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm)
{
    for (int i = 0; i < OPERATORS; i++)
        if (!comm->made[i].used) {
            comm->made[i].used = true;
            comm->made[i].scalar = residence == ncclScalarDevice ? scalar : NULL;
            comm->made[i].value = residence == ncclScalarDevice ? 0 : get(scalar, 0, type);
            *op = (ncclRedOp_t)(first_operator(comm) + i);
            return ncclSuccess;
        }
    return ncclInternalError;
}

EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    comm->made[(int)op - first_operator(comm)].used = false;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return submit_on(stream, comm,
                     (struct op){ALL_REDUCE, send, recv, count, (int)type, (int)op, 0, 0, 0, 0, 0});
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream)
{
    return submit_on(
        stream, comm,
        (struct op){REDUCE_SCATTER, send, recv, count, (int)type, (int)op, 0, 0, 0, 0, 0});
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    return submit_on(stream, comm,
                     (struct op){ALL_GATHER, send, recv, count, (int)type, 0, 0, 0, 0, 0, 0});
}
