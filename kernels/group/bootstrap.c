/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.c - see bootstrap.h. */
#include "kernels/group/bootstrap.h"

#include <stdio.h>
#include <string.h>

#include "kernels/group/nccl_wait.h"
#include "kernels/shared/layout.h"

struct verdict {
    uint64_t failed, alike;
    char why[AR_WHY];
};

_Static_assert(sizeof(struct verdict) <= AR_CARD_BYTES, "a verdict fits a card");

ncclResult_t ar_voice_open(struct ar_voice *voice, const struct ar_nccl *nccl, ncclComm_t comm,
                           uint64_t limit_ns, char *why)
{
    size_t bytes;
    cudaError_t error;
    ncclResult_t result;

    memset(voice, 0, sizeof *voice);
    voice->comm = comm;
    voice->limit_ns = limit_ns;
    result = ar_comm_wait(nccl, voice, ncclInProgress, "not a usable communicator", why);
    if (result != ncclSuccess)
        return result;
    if (nccl->ncclCommCount(comm, &voice->ranks) != ncclSuccess ||
        nccl->ncclCommCuDevice(comm, &voice->device) != ncclSuccess) {
        snprintf(why, AR_WHY, "not a usable communicator");
        return ncclInvalidArgument;
    }
    bytes = AR_CARD_BYTES * (size_t)(voice->ranks + 1);
    error = cudaSetDevice(voice->device);
    if (error == cudaSuccess && cudaMalloc((void **)&voice->memory, bytes) != cudaSuccess) {
        cudaGetLastError();
        voice->on_host = true;
        error = cudaHostAlloc((void **)&voice->memory, bytes,
                              cudaHostAllocMapped | cudaHostAllocPortable);
    }
    if (error != cudaSuccess) {
        cudaGetLastError();
        snprintf(why, AR_WHY, "memory to talk to the other ranks: %s", cudaGetErrorString(error));
        return ncclUnhandledCudaError;
    }
    if (cudaStreamCreateWithFlags(&voice->stream, cudaStreamNonBlocking) != cudaSuccess) {
        cudaGetLastError();
        voice->stream = NULL; /* the default one does, only not beside the caller's work */
    }
    return ncclSuccess;
}

void ar_voice_close(struct ar_voice *voice)
{
    if (voice->memory == NULL || voice->late[0] != 0)
        return;
    cudaSetDevice(voice->device);
    if (voice->stream != NULL)
        cudaStreamDestroy(voice->stream);
    if (voice->on_host)
        cudaFreeHost(voice->memory);
    else
        cudaFree(voice->memory);
    voice->memory = NULL;
}

static cudaError_t say(struct ar_voice *voice, const void *mine, size_t bytes)
{
    cudaError_t error = cudaSetDevice(voice->device);

    if (error == cudaSuccess && voice->on_host)
        memcpy(voice->memory, mine, bytes);
    else if (error == cudaSuccess)
        error = cudaMemcpyAsync(voice->memory, mine, bytes, cudaMemcpyHostToDevice, voice->stream);
    return error;
}

/* A communicator that does not block refuses every call after an error: the rank that had one is
 * not in this gather, which then never ends. Comes before any call that waits for the stream, and a
 * copy to memory that is not pinned is one. */
static cudaError_t await(struct ar_voice *voice, const char *call)
{
    cudaError_t error;
    uint64_t start = 0;

    while ((error = cudaStreamQuery(voice->stream)) == cudaErrorNotReady)
        if (ar_comm_linger(voice, &start, call) != ncclInProgress)
            break;
    return error;
}

static cudaError_t hear(struct ar_voice *voice, void *all, size_t bytes, const char *call)
{
    cudaError_t error = cudaSetDevice(voice->device);

    if (error == cudaSuccess && voice->threaded)
        error = await(voice, call);
    if (error == cudaSuccess && !voice->on_host)
        error = cudaMemcpyAsync(all, voice->memory + bytes, bytes * (size_t)voice->ranks,
                                cudaMemcpyDeviceToHost, voice->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(voice->stream);
    if (error == cudaSuccess && voice->on_host)
        memcpy(all, voice->memory + bytes, bytes * (size_t)voice->ranks);
    return error;
}

ncclResult_t ar_voices_meet(const struct ar_nccl *nccl, struct ar_voice *const *voices, int n,
                            const void *mine, void *all, size_t bytes, char *why)
{
    static const char call[] = "talk to the other ranks: ncclAllGather";
    cudaError_t error = cudaSuccess, latest;
    ncclResult_t result;

    for (int i = 0; i < n; i++) /* a copy would wait for a gather that never ends */
        if (voices[i]->late[0] != 0)
            return ar_comms_late(voices, n, voices[i], why);
    for (int i = 0; i < n; i++) { /* after an error, too: the others are in the gather */
        latest = say(voices[i], (const char *)mine + bytes * (size_t)i, bytes);
        error = error == cudaSuccess ? latest : error;
    }
    result = ar_comms_start(nccl, voices, n, call, why);
    if (result == ncclSuccess) {
        for (int i = 0; i < n && (result == ncclSuccess || result == ncclInProgress); i++)
            result = nccl->ncclAllGather(voices[i]->memory, voices[i]->memory + bytes, bytes,
                                         ncclUint8, voices[i]->comm, voices[i]->stream);
        result = ar_comms_end(nccl, voices, n, result, call, why);
    }
    for (int i = 0; i < n && result == ncclSuccess; i++) {
        latest = hear(voices[i], all, bytes, call);
        error = error == cudaSuccess ? latest : error;
        if (voices[i]->late[0] != 0)
            result = ar_comms_late(voices, n, voices[i], why);
    }
    if (error != cudaSuccess)
        cudaGetLastError();
    if (result != ncclSuccess || error == cudaSuccess)
        return result;
    snprintf(why, AR_WHY, "talk to the other ranks: %s", cudaGetErrorString(error));
    return ncclUnhandledCudaError;
}

ncclResult_t ar_voices_agree(const struct ar_nccl *nccl, struct ar_voice *const *voices, int n,
                             ncclResult_t result, uint64_t alike, char *why, bool *met)
{
    struct verdict mine[AR_MAX_RANKS], all[AR_MAX_RANKS];
    char trouble[AR_WHY];
    ncclResult_t meeting;

    memset(mine, 0, sizeof mine);
    for (int i = 0; i < n; i++) {
        mine[i].failed = result != ncclSuccess;
        mine[i].alike = alike;
        if (result != ncclSuccess)
            memcpy(mine[i].why, why, AR_WHY);
    }
    meeting = ar_voices_meet(nccl, voices, n, mine, all, sizeof *mine, trouble);
    *met = meeting == ncclSuccess;
    if (meeting != ncclSuccess) {
        if (result == ncclSuccess)
            memcpy(why, trouble, AR_WHY);
        return result == ncclSuccess ? meeting : result;
    }
    for (int r = 0; r < voices[0]->ranks; r++)
        if (all[r].failed) {
            snprintf(why, AR_WHY, "rank %d: %.*s", r, AR_WHY - 24, all[r].why);
            return result != ncclSuccess ? result : ncclRemoteError;
        }
    for (int r = 1; r < voices[0]->ranks; r++)
        if (all[r].alike != all[0].alike) {
            snprintf(why, AR_WHY, "ranks 0 and %d differ in what they ask for", r);
            return ncclInvalidUsage;
        }
    return ncclSuccess;
}
