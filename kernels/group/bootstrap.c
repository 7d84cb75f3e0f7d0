/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.c - exchanges small data between the ranks of a communicator. */
#include "kernels/group/bootstrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/group/nccl_wait.h"
#include "kernels/shared/layout.h"

struct verdict {
    uint64_t failed, alike, number;
    char why[AR_WHY];
};

_Static_assert(sizeof(struct verdict) <= AR_INFO_BYTES, "one rank may send a whole verdict");

ncclResult_t ar_endpoint_open(struct ar_endpoint *endpoint, const struct ar_nccl *nccl,
                              ncclComm_t comm, uint64_t limit_ns, char *why)
{
    size_t bytes;
    cudaError_t error;
    ncclResult_t result;

    memset(endpoint, 0, sizeof *endpoint);
    endpoint->comm = comm;
    endpoint->limit_ns = limit_ns;
    endpoint->number = (uint64_t)getpid() << 42 ^ ar_now_ns() ^ (uintptr_t)comm;
    result = ar_comm_wait(nccl, endpoint, ncclInProgress, "not a usable communicator", why);
    if (result != ncclSuccess)
        return result;
    if (nccl->ncclCommCount(comm, &endpoint->ranks) != ncclSuccess ||
        nccl->ncclCommCuDevice(comm, &endpoint->device) != ncclSuccess)
        return ar_why(why, AR_WHY, ncclInvalidArgument, "not a usable communicator");
    bytes = AR_INFO_BYTES * (size_t)(endpoint->ranks + 1);
    endpoint->received = malloc(bytes);
    if (endpoint->received == NULL)
        return ar_why(why, AR_WHY, ncclSystemError, "no memory to talk to the other ranks");
    error = cudaSetDevice(endpoint->device);
    if (error == cudaSuccess && cudaMalloc((void **)&endpoint->memory, bytes) != cudaSuccess) {
        cudaGetLastError();
        endpoint->on_host = true;
        error = cudaHostAlloc((void **)&endpoint->memory, bytes,
                              cudaHostAllocMapped | cudaHostAllocPortable);
    }
    if (error != cudaSuccess) {
        cudaGetLastError();
        return ar_why(why, AR_WHY, ncclUnhandledCudaError,
                      "allocate memory to talk to the other ranks: %s", cudaGetErrorString(error));
    }
    if (cudaStreamCreateWithFlags(&endpoint->stream, cudaStreamNonBlocking) != cudaSuccess) {
        cudaGetLastError();
        endpoint->stream = NULL; /* use the default stream, behind the caller's work there */
    }
    return ncclSuccess;
}

void ar_endpoint_close(struct ar_endpoint *endpoint)
{
    if (endpoint->timed_out[0] != 0)
        return;
    free(endpoint->received);
    endpoint->received = NULL;
    if (endpoint->memory == NULL)
        return;
    cudaSetDevice(endpoint->device);
    if (endpoint->stream != NULL)
        cudaStreamDestroy(endpoint->stream);
    if (endpoint->on_host)
        cudaFreeHost(endpoint->memory);
    else
        cudaFree(endpoint->memory);
    endpoint->memory = NULL;
}

static cudaError_t say(struct ar_endpoint *endpoint, const void *mine, size_t bytes)
{
    cudaError_t error = cudaSetDevice(endpoint->device);

    if (error == cudaSuccess && endpoint->on_host)
        memcpy(endpoint->memory, mine, bytes);
    else if (error == cudaSuccess)
        error = cudaMemcpyAsync(endpoint->memory, mine, bytes, cudaMemcpyHostToDevice,
                                endpoint->stream);
    return error;
}

/* Wait until the all-gather on the endpoint's stream has ended, but no longer than the time limit.
 * Returns false if it has not ended. Call this function before any call that waits for the stream
 * without a limit, such as a copy to memory that is not pinned. This function does not report
 * errors of the stream; the next call does.
 *
 * If a rank is lost, the all-gather never ends. NCCL may notice that the rank is lost, but NCCL's
 * kernel still waits for the rank. A rank is also lost after an error on its nonblocking
 * communicator, because that communicator then refuses all further calls. */
static bool await(const struct ar_nccl *nccl, struct ar_endpoint *endpoint, const char *call)
{
    uint64_t start = 0;
    cudaError_t error;

    while ((error = cudaStreamQuery(endpoint->stream)) == cudaErrorNotReady) {
        ncclResult_t state = ncclSuccess;

        cudaGetLastError();
        if (nccl->ncclCommGetAsyncError(endpoint->comm, &state) == ncclSuccess &&
            state != ncclSuccess && state != ncclInProgress) {
            snprintf(endpoint->timed_out, sizeof endpoint->timed_out,
                     "%s: %s; ncclCommAbort ends it", call, nccl->ncclGetErrorString(state));
            return false;
        }
        if (ar_comm_poll(endpoint, &start, call) != ncclInProgress)
            return false;
    }
    if (error != cudaSuccess)
        cudaGetLastError();
    return true;
}

static cudaError_t receive(const struct ar_nccl *nccl, struct ar_endpoint *endpoint, void *all,
                           size_t bytes, const char *call)
{
    cudaError_t error = cudaSetDevice(endpoint->device);

    if (error == cudaSuccess && !await(nccl, endpoint, call))
        return cudaErrorNotReady;
    if (error == cudaSuccess && !endpoint->on_host)
        error = cudaMemcpyAsync(all, endpoint->memory + bytes, bytes * (size_t)endpoint->ranks,
                                cudaMemcpyDeviceToHost, endpoint->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(endpoint->stream);
    if (error == cudaSuccess && endpoint->on_host)
        memcpy(all, endpoint->memory + bytes, bytes * (size_t)endpoint->ranks);
    return error;
}

ncclResult_t ar_bootstrap_exchange(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                   int n, const void *mine, void *all, size_t bytes, char *why)
{
    static const char call[] = "talk to the other ranks: ncclAllGather";
    cudaError_t error = cudaSuccess, latest;
    ncclResult_t result;

    /* After a timeout, an all-gather that may never end is still on the stream. say() would wait
     * for it, so fail here. */
    for (int i = 0; i < n; i++)
        if (endpoints[i]->timed_out[0] != 0)
            return ar_comms_timed_out(endpoints, n, endpoints[i], why);
    /* Even if a copy fails, take part in the all-gather, because the other ranks wait in it. */
    for (int i = 0; i < n; i++) {
        latest = say(endpoints[i], (const char *)mine + bytes * (size_t)i, bytes);
        error = error == cudaSuccess ? latest : error;
    }
    result = ar_comms_start(nccl, endpoints, n, call, why);
    if (result == ncclSuccess) {
        for (int i = 0; i < n && (result == ncclSuccess || result == ncclInProgress); i++)
            result = nccl->ncclAllGather(endpoints[i]->memory, endpoints[i]->memory + bytes, bytes,
                                         ncclUint8, endpoints[i]->comm, endpoints[i]->stream);
        result = ar_comms_end(nccl, endpoints, n, result, call, why);
    }
    for (int i = 0; i < n && result == ncclSuccess; i++) {
        latest = receive(nccl, endpoints[i], i == 0 ? all : endpoints[i]->received, bytes, call);
        error = error == cudaSuccess ? latest : error;
        endpoints[i]->stranger |=
            i > 0 && memcmp(all, endpoints[i]->received, bytes * (size_t)endpoints[i]->ranks) != 0;
        if (endpoints[i]->timed_out[0] != 0)
            result = ar_comms_timed_out(endpoints, n, endpoints[i], why);
    }
    if (error != cudaSuccess)
        cudaGetLastError();
    if (result != ncclSuccess || error == cudaSuccess)
        return result;
    return ar_why(why, AR_WHY, ncclUnhandledCudaError, "talk to the other ranks: %s",
                  cudaGetErrorString(error));
}

ncclResult_t ar_bootstrap_agree(const struct ar_nccl *nccl, struct ar_endpoint *const *endpoints,
                                int n, ncclResult_t result, uint64_t alike, char *why, bool *met)
{
    struct verdict mine[AR_MAX_RANKS], *all = endpoints[0]->received;
    char trouble[AR_WHY];
    ncclResult_t meeting;

    memset(mine, 0, sizeof mine);
    for (int i = 0; i < n; i++) {
        mine[i].failed = result != ncclSuccess;
        mine[i].alike = alike;
        mine[i].number = endpoints[i]->number;
        if (result != ncclSuccess)
            memcpy(mine[i].why, why, AR_WHY);
    }
    meeting = ar_bootstrap_exchange(nccl, endpoints, n, mine, all, sizeof *mine, trouble);
    *met = meeting == ncclSuccess;
    if (meeting != ncclSuccess) {
        if (result == ncclSuccess)
            memcpy(why, trouble, AR_WHY);
        return result == ncclSuccess ? meeting : result;
    }
    for (int r = 0; r < endpoints[0]->ranks; r++)
        if (all[r].failed)
            return ar_why(why, AR_WHY, result != ncclSuccess ? result : ncclRemoteError,
                          "rank %d: %.*s", r, AR_WHY - 24, all[r].why);
    for (int r = 1; r < endpoints[0]->ranks; r++)
        if (all[r].alike != all[0].alike)
            return ar_why(why, AR_WHY, ncclInvalidUsage,
                          "ranks 0 and %d differ in what they ask for", r);
    return ncclSuccess;
}
