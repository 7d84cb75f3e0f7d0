/* SPDX-License-Identifier: Apache-2.0 */
/* local_group.c - symtuner_ar_create_local: all ranks are in this process, and NCCL is not used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/group/links.h"
#include "kernels/host/create.h"
#include "kernels/host/destroy.h"
#include "kernels/host/rank.h"
#include "kernels/order/capture.h"
#include "kernels/order/first.h"
#include "kernels/scratch/arena.h"
#include "kernels/scratch/grow.h"
#include "kernels/scratch/peer_arena.h"

/* Enable peer access between every pair of GPUs of the group. Returns false if a pair cannot have
 * it. *links_out says which links connect the GPUs. */
static bool open_peers(symtuner_ar **handles, int n, int *links_out, char *why, size_t why_size)
{
    *links_out = AR_LINKS_NVLINK;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            int from = handles[i]->device, to = handles[j]->device, can = 0;
            char a[AR_BUS_ID_SIZE], b[AR_BUS_ID_SIZE];
            cudaError_t error;

            if (from == to)
                continue;
            if (cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || !can) {
                snprintf(why, why_size, "GPU %d cannot reach the memory of GPU %d", from, to);
                return false;
            }
            error = cudaSetDevice(from);
            if (error == cudaSuccess)
                error = cudaDeviceEnablePeerAccess(to, 0);
            cudaGetLastError();
            if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled) {
                snprintf(why, why_size, "peer access from GPU %d to GPU %d: %s", from, to,
                         cudaGetErrorString(error));
                return false;
            }
            if (cudaDeviceGetPCIBusId(a, sizeof a, from) == cudaSuccess &&
                cudaDeviceGetPCIBusId(b, sizeof b, to) == cudaSuccess &&
                ar_links_between(a, b) != AR_LINKS_NVLINK)
                *links_out = AR_LINKS_PCIE;
        }
    }
    return true;
}

/* Make the scratch of all ranks in GPU memory. If ${grows}, make only the small arena of each rank
 * now; the other arenas are made when a call first needs them. */
static ncclResult_t peer_arenas(symtuner_ar **handles, int n,
                                const struct symtuner_ar_config *config, bool grows)
{
    char why[AR_WHY];
    ncclResult_t result;

    if (grows && !ar_grow_local(handles, n))
        return ar_fail(handles[0], ncclSystemError, "out of memory");
    for (int i = 0; i < n; i++)
        ar_arena_sizes(handles[i], config, false);
    result = ar_local_arena_make(handles, n, 0, grows ? AR_ARENA_SMALL + 1 : AR_ARENAS, why);
    return result == ncclSuccess ? result : ar_fail(handles[0], result, "%s", why);
}

/* Give all handles the same values. on_device is the number of ranks on the GPU that has the most
 * ranks, because the blocks of all these ranks must be resident there at once. sms and budget are
 * the lowest values of any rank. tma says whether all GPUs can run the kernels with TMA. */
static void count_neighbours(symtuner_ar **handles, int n)
{
    int most = 1, sms = handles[0]->sms, budget = handles[0]->budget;
    bool tma = true;

    for (int i = 0; i < n; i++) {
        int same = 0;

        for (int j = 0; j < n; j++)
            same += handles[j]->device == handles[i]->device;
        most = same > most ? same : most;
        sms = handles[i]->sms < sms ? handles[i]->sms : sms;
        budget = handles[i]->budget < budget ? handles[i]->budget : budget;
        tma = tma && handles[i]->tma;
    }
    for (int i = 0; i < n; i++) {
        handles[i]->on_device = most;
        handles[i]->sms = sms;
        handles[i]->budget = budget;
        handles[i]->tma = tma;
    }
}

/* Return the bytes of bulk scratch: the least that ar_scratch_bulk() returns for any GPU of the
 * group. */
static uint64_t least_bulk(symtuner_ar **handles, int n)
{
    uint64_t least = UINT64_MAX, own;

    for (int i = 0; i < n; i++) {
        cudaSetDevice(handles[i]->device);
        own = ar_scratch_bulk();
        least = own < least ? own : least;
    }
    return least;
}

/* All ranks of a local group. One thread creates them all. */
struct local {
    symtuner_ar **handles;
    int n;
};

static ncclResult_t exchange_probes(void *ranks, struct ar_probe *all)
{
    const struct local *l = ranks;

    for (int i = 0; i < l->n; i++)
        all[i] = l->handles[i]->probe;
    return ncclSuccess;
}

static ncclResult_t probe(symtuner_ar **handles, int n, const struct ar_options *options)
{
    struct local ranks = {handles, n};
    struct ar_probe_group group = {exchange_probes, &ranks, 0};
    char bus[AR_BUS_ID_SIZE] = "";

    for (int i = 0; i < n; i++) {
        cudaDeviceGetPCIBusId(bus, sizeof bus, handles[i]->device);
        group.key = ar_probe_key(group.key, bus);
    }
    return ar_probe_run(handles, n, &group, options->probe_file);
}

/* Make the handle of rank ${i}, on its GPU. */
static ncclResult_t start_rank(symtuner_ar **handles, int i, int ranks, int device,
                               const struct symtuner_ar_config *config,
                               const struct ar_options *options)
{
    symtuner_ar *h = handles[i] = calloc(1, sizeof *h);

    if (h == NULL)
        return ar_fail(NULL, ncclSystemError, "out of memory");
    h->ranks = ranks;
    h->group = i == 0 ? ar_group_number(h) : handles[0]->group;
    h->me = i;
    h->device = device;
    return ar_rank_start(h, config, options);
}

/* Give the ranks the same rules and limits, and scratch that all ranks can reach. */
static ncclResult_t settle(symtuner_ar **handles, int n, struct symtuner_ar_config *config,
                           const struct ar_options *options)
{
    struct ar_members m = {.n = n};
    char why[160] = "";
    uint64_t place = 0;
    int links;
    bool peer;
    ncclResult_t result;

    memcpy(m.handles, handles, (size_t)n * sizeof *handles);
    /* Compare the rules: their file may have changed after the first rank read it. */
    for (int i = 1; i < n; i++)
        if (ar_rules_hash(handles[i]) != ar_rules_hash(handles[0])) {
            ar_rules_drop(handles, n, i);
            break;
        }
    count_neighbours(handles, n);
    for (int i = 0; i < n; i++)
        place = handles[i]->place > place ? handles[i]->place : place;
    for (int i = 0; i < n; i++)
        ar_first_place(handles[i], place);
    if (config->bulk_bytes == 0)
        config->bulk_bytes = least_bulk(handles, n);
    peer = config->transport != SYMTUNER_AR_HOST && open_peers(handles, n, &links, why, sizeof why);
    if (!peer && config->transport == SYMTUNER_AR_PEER)
        return ar_fail(handles[0], ncclInvalidUsage, "%s", why);
    if (!peer)
        links = AR_LINKS_HOST;
    else if (options->links >= 0)
        links = options->links;
    for (int i = 0; i < n; i++)
        handles[i]->links = links;
    if (peer) {
        result = peer_arenas(handles, n, config, !ar_probe_wanted(handles[0], options));
        if (result == ncclSuccess)
            result = ar_ipc_share(&m);
    } else {
        for (int i = 0; i < n; i++) {
            ar_arena_sizes(handles[i], config, true);
            snprintf(handles[i]->no_peer, sizeof handles[i]->no_peer, "%s", why);
        }
        result = ar_arena_host(handles, n, NULL, true);
    }
    return result == ncclSuccess && ar_probe_wanted(handles[0], options)
               ? probe(handles, n, options)
               : result;
}

static ncclResult_t create(symtuner_ar **handles_out, const int *devices, int nranks,
                           const struct symtuner_ar_config *given)
{
    symtuner_ar *handles[AR_MAX_RANKS] = {NULL}, *failed;
    struct symtuner_ar_config config;
    struct ar_options options;
    int device = 0, visible = 0, i;
    uint64_t gpus = 0;
    ncclResult_t result;

    if (handles_out == NULL || devices == NULL)
        return ar_fail(NULL, ncclInvalidArgument, "%s is NULL",
                       handles_out == NULL ? "handles_out" : "devices");
    if (nranks < 1 || nranks > AR_MAX_RANKS)
        return ar_fail(NULL, ncclInvalidArgument, "a local group has 1 to %d ranks, not %d",
                       AR_MAX_RANKS, nranks);
    result = ar_config_check(given, &config, &options);
    if (result != ncclSuccess)
        return result;
    if (cudaGetDeviceCount(&visible) != cudaSuccess || cudaGetDevice(&device) != cudaSuccess) {
        cudaGetLastError();
        return ar_fail(NULL, ncclUnhandledCudaError, "no usable CUDA device on this machine");
    }
    for (i = 0; i < nranks; i++)
        if (devices[i] < 0 || devices[i] >= visible)
            return ar_fail(NULL, ncclInvalidArgument, "devices[%d] = %d; this process sees %d GPUs",
                           i, devices[i], visible);
    for (i = 0; i < nranks; i++)
        gpus |= AR_GPU(devices[i]);
    ar_deferred_free(gpus);
    for (i = 0; i < nranks && result == ncclSuccess; i++)
        result = start_rank(handles, i, nranks, devices[i], &config, &options);
    failed = handles[i - 1];
    if (result == ncclSuccess) {
        result = settle(handles, nranks, &config, &options);
        failed = handles[0];
    }
    if (result != ncclSuccess && failed != NULL)
        ar_fail(NULL, result, "%s", failed->error);
    if (result == ncclSuccess && nranks == 1)
        ar_first_leave(handles[0]); /* a handle of a single rank never launches a kernel */
    for (i = 0; i < nranks; i++)
        if (result == ncclSuccess)
            handles_out[i] = handles[i];
        else if (handles[i] != NULL)
            ar_rank_free(handles[i]);
    cudaSetDevice(device); /* back to the GPU that was current before */
    return result;
}

ncclResult_t symtuner_ar_create_local(symtuner_ar **handles_out, const int *devices, int nranks,
                                      const struct symtuner_ar_config *given)
{
    /* While another thread captures a graph, CUDA lets this thread allocate and map memory only in
     * capture mode relaxed. */
    enum cudaStreamCaptureMode mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    ncclResult_t result = create(handles_out, devices, nranks, given);

    ar_capture_mode(mode);
    return result;
}
