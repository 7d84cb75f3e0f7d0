/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.c - when a handle is made, measure how long the steps of an all-reduce take.
 *
 * The ranks measure in several rounds. In each round every rank times a few calls in a row, for
 * each step (enum ar_way, model.h) and each length of message. When a job starts, calls may stall
 * for tens of ms. A stall usually spoils only some of the rounds. So of the times that a rank
 * measures for one step and length, it keeps the shortest. Of the ranks' times, the longest counts.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/group/bootstrap.h"
#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/nodes/nodes.h"

/* In a round a rank makes 1 + TIMES calls of each step and length, so 30 in all rounds. The first
 * of them is not timed: NCCL may connect the ranks in it, and after it the ranks begin at about the
 * same time. TIMES is small, because one stall spoils the time of all TIMES calls. But it is at
 * least 2, so that one call is launched while another one runs. */
enum { ROUNDS = 10, TIMES = 2 };

/* How long kernels in the box wait for each other, and how long a rank waits for calls of NCCL.
 * This is shorter than the handle's time limit may be (the drop-in sets a day), because while the
 * ranks measure, none of them does anything else. */
#define MOST_NS UINT64_C(60000000000)

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* NCCL has refused a call of this rank, or a call does not end, perhaps because NCCL has refused
 * the call of another rank. In both cases no later call on this communicator can succeed. If it is
 * our communicator between the boxes, abort it, which ends the calls that wait. The ranks can then
 * still report the failure to each other on h->comm. But if it is h->comm, which belongs to the
 * program, the other ranks cannot reach this rank any more. */
static void give_up(symtuner_ar *h, enum ar_way way, const char *why)
{
    if (way == AR_WAY_NETWORK) {
        h->nccl->ncclCommAbort(h->nodes->across.comm);
        h->nodes->across.comm = NULL;
        return;
    }
    memcpy(h->endpoint.timed_out, why, AR_WHY);
    h->stuck = true;
}

/* Launch the step ${way} once, for a message of ${bytes} at ${buffer}. */
static ncclResult_t launch(symtuner_ar *h, enum ar_way way, char *buffer, uint64_t bytes, char *why)
{
    static const char call[] = "ncclAllReduce at the start";
    const struct ar_nodes *nodes = h->nodes;
    const uint64_t part = bytes / (uint64_t)nodes->boxes.ranks / 4;
    char *mine = buffer + 4 * part * (uint64_t)nodes->boxes.at;
    struct ar_endpoint *ranks = way == AR_WAY_NCCL ? &h->endpoint : &h->nodes->across;
    ncclResult_t result, gathered;

    if (way == AR_WAY_BOX) { /* even if the first call fails, others wait for the second */
        result = symtuner_ar_reduce_scatter(buffer, mine, part, ncclFloat, ncclSum, nodes->box,
                                            nodes->network);
        if (result != ncclSuccess)
            snprintf(why, AR_WHY, "in its box: %.*s", AR_WHY - 20, symtuner_ar_error(nodes->box));
        gathered =
            symtuner_ar_all_gather(mine, buffer, part, ncclFloat, nodes->box, nodes->network);
        if (result != ncclSuccess || gathered == ncclSuccess)
            return result;
        snprintf(why, AR_WHY, "in its box: %.*s", AR_WHY - 20, symtuner_ar_error(nodes->box));
        return gathered;
    }
    if (ranks->comm == NULL) /* give_up has aborted it */
        return ncclRemoteError;
    result = h->nccl->ncclAllReduce(
        way == AR_WAY_NCCL ? buffer : mine, way == AR_WAY_NCCL ? buffer : mine,
        way == AR_WAY_NCCL ? bytes / 4 : part, ncclFloat, ncclSum, ranks->comm, nodes->network);
    result = ar_comm_wait(h->nccl, ranks, result, call, why);
    if (result != ncclSuccess)
        give_up(h, way, why);
    return result;
}

/* Wait until the stream nodes->network is idle, but wait no longer than the time limit. */
static ncclResult_t await(symtuner_ar *h, enum ar_way way, char *why)
{
    static const char call[] = "measure at the start";
    struct ar_endpoint ranks = h->endpoint;
    cudaError_t error;
    uint64_t start = 0;

    if (way != AR_WAY_BOX && ranks.limit_ns > MOST_NS) /* kernels in the box end by themselves */
        ranks.limit_ns = MOST_NS;
    while ((error = cudaStreamQuery(h->nodes->network)) == cudaErrorNotReady)
        if (ar_comm_poll(&ranks, &start, call) != ncclInProgress) {
            memcpy(why, ranks.timed_out, AR_WHY);
            give_up(h, way, why);
            return ncclRemoteError;
        }
    if (error == cudaSuccess && ar_status(h->nodes->box) == ncclSuccess)
        return ncclSuccess;
    if (error == cudaSuccess) {
        snprintf(why, AR_WHY, "in its box: %.*s", AR_WHY - 20, symtuner_ar_error(h->nodes->box));
        return ar_status(h->nodes->box);
    }
    cudaGetLastError();
    snprintf(why, AR_WHY, "%s: %s", call, cudaGetErrorString(error));
    return ncclUnhandledCudaError;
}

/* Run round ${number}, counted from 0.
 *
 * After an error this rank still makes the other calls of the round, because without them the calls
 * of the other ranks would never end. But it does not wait until they end. It makes no calls on a
 * communicator that give_up has aborted, and returns at once if give_up has set h->stuck. If this
 * rank could not launch a kernel in the box, the kernels of the other ranks of the box wait for it,
 * and fail after MOST_NS. */
static ncclResult_t measure(symtuner_ar *h, int number, char *buffer, char *why)
{
    ncclResult_t result = ncclSuccess, latest;
    char trouble[AR_WHY];

    for (int w = 0; w < AR_WAYS; w++)
        for (int i = 0; i < AR_NODES_SIZES; i++) {
            float us, *least = &h->nodes->figures.us[w][i];
            double start = 0;

            for (int k = 0; k <= TIMES; k++) {
                latest = launch(h, (enum ar_way)w, buffer, ar_nodes_size[i], trouble);
                if (result == ncclSuccess && latest == ncclSuccess && (k == 0 || k == TIMES))
                    latest = await(h, (enum ar_way)w, trouble);
                if (result == ncclSuccess && latest != ncclSuccess) {
                    result = latest;
                    memcpy(why, trouble, AR_WHY);
                }
                if (h->stuck)
                    return result;
                start = k == 0 ? now_us() : start;
            }
            us = (float)((now_us() - start) / TIMES);
            *least = number == 0 || us < *least ? us : *least;
        }
    return result;
}

ncclResult_t ar_nodes_measure(symtuner_ar *h, char *why, bool *lost)
{
    struct ar_endpoint *endpoint = &h->endpoint;
    struct ar_nodes_figures *figures = &h->nodes->figures;
    const struct ar_nodes_figures *all = (const struct ar_nodes_figures *)endpoint->received;
    char *buffer = NULL;
    const uint64_t limit = h->nodes->box->timeout_ns;
    ncclResult_t result = ncclSuccess;

    cudaSetDevice(h->device);
    if (cudaMalloc((void **)&buffer, ar_nodes_size[AR_NODES_SIZES - 1]) != cudaSuccess ||
        cudaMemsetAsync(buffer, 0, ar_nodes_size[AR_NODES_SIZES - 1], h->nodes->network) !=
            cudaSuccess ||
        cudaStreamSynchronize(h->nodes->network) != cudaSuccess) {
        cudaGetLastError();
        snprintf(why, AR_WHY, "no memory to measure with");
        result = ncclUnhandledCudaError;
    }
    result = ar_nodes_agree(h, result, why, lost);
    if (result == ncclSuccess) {
        h->nodes->box->timeout_ns = limit < MOST_NS ? limit : MOST_NS;
        /* After each round, agree on its result. If a rank failed, no rank begins another round. */
        for (int n = 0; n < ROUNDS && result == ncclSuccess; n++)
            result = ar_nodes_agree(h, measure(h, n, buffer, why), why, lost);
        h->nodes->box->timeout_ns = limit;
    }
    if (result == ncclSuccess) {
        result = ar_bootstrap_exchange(h->nccl, &endpoint, 1, figures, endpoint->received,
                                       sizeof *figures, why);
        *lost = *lost || result != ncclSuccess;
    }
    for (int r = 0; r < h->ranks && result == ncclSuccess; r++)
        ar_nodes_slower(figures, &all[r]);
    h->nodes->box->eager.used = false; /* the next call need not wait: all calls have ended */
    if (buffer != NULL && !h->stuck)
        cudaFree(buffer);
    return result;
}
