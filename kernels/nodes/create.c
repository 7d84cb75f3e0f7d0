/* SPDX-License-Identifier: Apache-2.0 */
/* create.c - make and free h->nodes: split the communicator, make a group in the box, measure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/bootstrap.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/nodes/nodes.h"

/* Multiprocessors that our kernels in the box leave free, so that NCCL's kernels between the boxes
 * run beside them. The number was not measured. NCCL runs one block per channel, and over most
 * networks it has up to 16 channels. */
enum { LEFT_TO_NCCL = 20 };

ncclResult_t ar_nodes_agree(symtuner_ar *h, ncclResult_t result, char *why, bool *lost)
{
    struct ar_endpoint *endpoint = &h->endpoint;
    bool met;

    result = ar_bootstrap_agree(h->nccl, &endpoint, 1, result, 0, why, &met);
    *lost = *lost || !met;
    return result;
}

/* Split h->comm: all ranks that pass the same ${color} become a communicator, in the order of
 * ${key}. *out is the communicator of this rank. */
static ncclResult_t split(symtuner_ar *h, int color, int key, ncclComm_t *out, char *why)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t result;

    config.blocking = 1;
    *out = NULL;
    result = h->nccl->ncclCommSplit(h->comm, color, key, out, &config);
    if (result == ncclSuccess && *out != NULL)
        return ncclSuccess;
    snprintf(why, AR_WHY, "ncclCommSplit: %s",
             result == ncclSuccess ? "no communicator" : h->nccl->ncclGetErrorString(result));
    return result == ncclSuccess ? ncclInternalError : result;
}

static ncclResult_t start(symtuner_ar *h, const struct ar_boxes *boxes, char *why)
{
    struct ar_nodes *nodes = calloc(1, sizeof *nodes);
    cudaError_t error;

    if (nodes == NULL) {
        snprintf(why, AR_WHY, "out of memory");
        return ncclSystemError;
    }
    h->nodes = nodes;
    nodes->boxes = *boxes;
    cudaSetDevice(h->device);
    error = cudaStreamCreateWithFlags(&nodes->network, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&nodes->reduced, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&nodes->rested, cudaEventDisableTiming);
    for (int i = 0; i < 2 && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&nodes->added[i], cudaEventDisableTiming);
    if (error == cudaSuccess)
        return ncclSuccess;
    cudaGetLastError();
    snprintf(why, AR_WHY, "make streams and events: %s", cudaGetErrorString(error));
    return ncclUnhandledCudaError;
}

/* Make the group of this rank's box. Fails if NCCL would run all calls of the group. */
static ncclResult_t open_box(symtuner_ar *h, const struct symtuner_ar_config *given, char *why)
{
    struct ar_nodes *nodes = h->nodes;
    struct symtuner_ar_config config = *given;
    ncclResult_t result;

    config.size = sizeof config;
    if (h->budget > h->sms - LEFT_TO_NCCL)
        config.max_ctas = h->sms > 2 * LEFT_TO_NCCL ? h->sms - LEFT_TO_NCCL : h->sms / 2;
    else
        config.max_ctas = h->budget;
    result = symtuner_ar_create(&nodes->box, &nodes->box_comm, 1, &config);
    if (result != ncclSuccess) {
        nodes->box = NULL;
        snprintf(why, AR_WHY, "in its box: %.*s", AR_WHY - 20, symtuner_ar_error(NULL));
        return result;
    }
    if (nodes->box->gate == NULL)
        return ncclSuccess;
    snprintf(why, AR_WHY, "in its box: %.*s", AR_WHY - 20, nodes->box->gate);
    return ncclInvalidUsage;
}

static ncclResult_t make(symtuner_ar *h, const struct ar_boxes *boxes, bool asked,
                         const struct symtuner_ar_config *config, char *why, bool *lost)
{
    ncclResult_t result = ar_nodes_agree(h, start(h, boxes, why), why, lost);
    struct ar_nodes *nodes = h->nodes;

    if (result != ncclSuccess)
        return result;
    nodes->asked = asked;
    result = split(h, boxes->box, boxes->at, &nodes->box_comm, why);
    result = ar_nodes_agree(h, result, why, lost);
    if (result != ncclSuccess)
        return result;
    nodes->across = (struct ar_endpoint){.device = h->device,
                                         .ranks = boxes->count,
                                         .limit_ns = h->timeout_ns,
                                         .abort = &h->mailbox->abort};
    result = split(h, boxes->at, boxes->box, &nodes->across.comm, why);
    result = ar_nodes_agree(h, result, why, lost);
    if (result != ncclSuccess)
        return result;
    result = ar_nodes_agree(h, open_box(h, config, why), why, lost);
    return result == ncclSuccess && asked ? ar_nodes_measure(h, why, lost) : result;
}

ncclResult_t ar_nodes_span(symtuner_ar *h, const struct ar_box_card *cards,
                           const struct symtuner_ar_config *config, char *gate, char *why)
{
    static const char span[] = "the ranks span several nodes";
    struct ar_boxes boxes;
    bool lost = false;
    ncclResult_t result;

    if (!ar_boxes_find(cards, h->ranks, h->me, &boxes, why)) {
        snprintf(gate, 2 * AR_WHY, "%s%.*s", span, AR_WHY, why);
        if (cards[0].asked && h->me == 0)
            ar_rules_warn(gate);
        return ncclSuccess;
    }
    if (boxes.count == 1)
        return ncclSuccess;
    result = make(h, &boxes, cards[0].asked, config, why, &lost);
    snprintf(gate, 2 * AR_WHY, result == ncclSuccess ? "%s" : "%s, not box by box: %.*s", span,
             AR_WHY, why);
    if (result == ncclSuccess || h->stuck || h->endpoint.timed_out[0] != 0)
        return result; /* after a timeout free nothing: NCCL may have kernels that never end */
    ar_nodes_close(h);
    ar_nodes_free(h);
    if (!lost && h->me == 0)
        ar_rules_warn(gate);
    return lost ? result : ncclSuccess;
}

/* Abort both communicators at once: if one is aborted first, NCCL waits for the other's kernels. */
static void *abort_comms(void *handle)
{
    symtuner_ar *h = handle;

    h->nccl->ncclGroupStart();
    h->nccl->ncclCommAbort(h->nodes->across.comm);
    h->nccl->ncclCommAbort(h->nodes->box_comm);
    h->nccl->ncclGroupEnd();
    return NULL;
}

void ar_nodes_abort(symtuner_ar *h)
{
    struct ar_nodes *nodes = h->nodes;

    if (__atomic_exchange_n(&nodes->aborted, true, __ATOMIC_ACQ_REL))
        return;
    symtuner_ar_abort(nodes->box);
    nodes->box->comm_gone = true;
    nodes->has_aborter = pthread_create(&nodes->aborter, NULL, abort_comms, h) == 0;
    if (!nodes->has_aborter)
        abort_comms(h);
}

/* Wait until ar_nodes_abort has done its work. */
static void await_abort(struct ar_nodes *nodes)
{
    if (nodes->has_aborter)
        pthread_join(nodes->aborter, NULL);
    nodes->has_aborter = false;
}

void ar_nodes_close(symtuner_ar *h)
{
    if (h->nodes != NULL)
        await_abort(h->nodes); /* before the memory of the windows is freed */
    if (h->nodes != NULL && h->nodes->box != NULL)
        symtuner_ar_destroy(&h->nodes->box, 1);
}

void ar_nodes_free(symtuner_ar *h)
{
    struct ar_nodes *nodes = h->nodes;

    if (nodes == NULL)
        return;
    h->nodes = NULL;
    cudaSetDevice(h->device);
    await_abort(nodes);
    if (nodes->across.comm != NULL && !nodes->aborted)
        h->nccl->ncclCommDestroy(nodes->across.comm);
    if (nodes->box_comm != NULL && !nodes->aborted)
        h->nccl->ncclCommDestroy(nodes->box_comm);
    if (nodes->network != NULL)
        cudaStreamDestroy(nodes->network);
    for (int i = 0; i < 2; i++)
        if (nodes->added[i] != NULL)
            cudaEventDestroy(nodes->added[i]);
    if (nodes->reduced != NULL)
        cudaEventDestroy(nodes->reduced);
    if (nodes->rested != NULL)
        cudaEventDestroy(nodes->rested);
    free(nodes);
}

int symtuner_ar_boxes_asked(void)
{
    const char *nodes = getenv("SYMTUNER_AR_NODES");

    return (nodes != NULL && strcmp(nodes, "1") == 0) || ar_rules_ask_boxes();
}
