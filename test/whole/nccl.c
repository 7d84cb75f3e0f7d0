/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.c - an NCCL that really computes, for ranks that are threads of one process. Its GPUs are
 * those of cuda.c. Each thread drives one rank.
 *
 * It is the libnccl.so.2 of the programs in this folder. It is also the NCCL of check-nodes, which
 * has boxes (test/kernels/nodes/net.h). A collective call puts a function into its stream and
 * returns. The function waits until all ranks of the communicator have come to this call; the last
 * rank moves the values. Calls in a group start at the end of the group.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/whole/cuda.h"
#include "test/whole/team.h"
#include "test/whole/values.h"

#define EXPORT __attribute__((visibility("default")))

/* nccl.h declares the first two without (void), so in C they have no prototype there. Only later
 * releases declare the other two. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **p);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **p);

enum { QUEUE = 64 };

/* The calls of the group that is open. */
static _Thread_local int depth, queued;
static _Thread_local struct queued {
    ncclComm_t comm;
    struct op op;
    cudaStream_t stream;
} queue[QUEUE];

/* ---- launches -------------------------------------------------------------------------------- */

static void on_stream(void *what)
{
    /* work on a copy, because a graph may run this call again */
    struct turn turn = *(const struct turn *)what;

    if (whole_nccl.lag_us != 0)
        usleep((unsigned)whole_nccl.lag_us);
    team_run(&turn);
}

static ncclResult_t launch_collective(struct turn *turn, cudaStream_t stream)
{
    enum cudaStreamCaptureStatus capture;
    const struct op *op = &turn->op;
    const struct whole_call call = {.kind = op->kind,
                                    .ranks = turn->team->ranks,
                                    .world = op->world,
                                    .send = op->send,
                                    .recv = op->recv,
                                    .bytes = op->count * whole_size(op->type),
                                    .stream = stream};

    if (whole_nccl.refuse != NULL && whole_nccl.refuse(&call))
        return ncclSystemError;
    cudaStreamIsCapturing(stream, &capture);
    if (capture == cudaStreamCaptureStatusNone)
        turn->number = team_turn(turn->team, turn->rank);
    if (whole_nccl.collective != NULL)
        turn->op.still = !whole_nccl.collective(&call);
    if (whole_host(stream, on_stream, turn, sizeof *turn) != cudaSuccess)
        return ncclUnhandledCudaError;
    return whole_nccl.hung ? ncclSystemError : ncclSuccess;
}

static ncclResult_t launch(const struct queued *q)
{
    struct turn turn = {q->comm->team, q->comm->rank, -1, q->op};

    if (whole_nccl.hung)
        return ncclSystemError;
    turn.op.device = q->comm->device;
    turn.op.world = q->comm->world;
    if (turn.op.kind <= WHOLE_ALL_GATHER)
        return launch_collective(&turn, q->stream);
    turn.number = team_turn(turn.team, turn.rank);
    return team_run(&turn) ? ncclSuccess : ncclSystemError;
}

static ncclResult_t submit(ncclComm_t comm, struct op op, cudaStream_t stream)
{
    const struct queued q = {comm, op, stream};

    if (depth == 0)
        return launch(&q);
    if (queued == QUEUE)
        return ncclInternalError;
    queue[queued++] = q;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;

    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth > 0)
        return ncclSuccess;
    for (int i = 0; i < queued && result == ncclSuccess; i++)
        result = launch(&queue[i]);
    queued = 0;
    return result == ncclSuccess && whole_nccl.unblocked ? ncclInProgress : result;
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
    struct team *team = team_join(&id, ranks);
    int device;

    cudaGetDevice(&device);
    *comm = team != NULL ? team_comm(team, rank, device, rank) : NULL;
    return team != NULL ? ncclSuccess : ncclSystemError;
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
    const int number = ++comm->splits;
    ncclResult_t result = submit(
        comm, (struct op){.kind = WHOLE_SPLIT, .recv = made, .color = color, .key = key}, NULL);

    if (result == ncclSuccess && whole_nccl.split != NULL)
        result = whole_nccl.split(comm->world, number, config);
    if (result == ncclSuccess || whole_nccl.hung)
        return result;
    ncclCommDestroy(*made);
    *made = NULL;
    return result;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    team_live(-1);
    free(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    team_abort(comm->team);
    team_windows_free(comm->team, comm->rank, NULL);
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
    team_live(1);
    return *p != NULL ? ncclSuccess : ncclSystemError;
}

EXPORT ncclResult_t ncclMemFree(void *p)
{
    team_live(-1);
    free(p);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes,
                                           ncclWindow_t *made, int flags)
{
    (void)flags;
    return submit(comm,
                  (struct op){.kind = WHOLE_WINDOW, .send = buffer, .recv = made, .count = bytes},
                  NULL);
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t made)
{
    team_windows_free(comm->team, comm->rank, made);
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

/* As in NCCL, the numbers of operators differ between ranks. */
static int first_operator(ncclComm_t comm)
{
    return ncclNumOps + OPERATORS * comm->rank;
}

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm)
{
    for (int i = 0; i < OPERATORS; i++)
        if (!comm->made[i].used) {
            struct scalar *made = &comm->made[i];

            made->used = true;
            made->on_gpu = residence == ncclScalarDevice ? scalar : NULL;
            if (made->on_gpu == NULL)
                memcpy(made->value, scalar, whole_size((int)type));
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

static ncclResult_t submit_collective(enum whole_kind kind, const void *send, void *recv,
                                      size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                                      ncclComm_t comm, cudaStream_t stream)
{
    const int i = (int)reduction - first_operator(comm);
    struct op op = {.kind = kind,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = (int)type,
                    .reduction = (int)reduction};

    if (reduction >= ncclNumOps) {
        if (i < 0 || i >= OPERATORS || !comm->made[i].used)
            return ncclInvalidArgument;
        op.reduction = ncclSum;
        op.scalar = comm->made[i];
    }
    return submit(comm, op, stream);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return submit_collective(WHOLE_ALL_REDUCE, send, recv, count, type, op, comm, stream);
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
                                      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream)
{
    return submit_collective(WHOLE_REDUCE_SCATTER, send, recv, count, type, op, comm, stream);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                  ncclComm_t comm, cudaStream_t stream)
{
    return submit_collective(WHOLE_ALL_GATHER, send, recv, count, type, ncclSum, comm, stream);
}
