/* SPDX-License-Identifier: Apache-2.0 */
/* create.c - make and free h->nodes: split the communicator, make a group in the box, measure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own_thread.h"
#include "kernels/group/bootstrap.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/nodes/nodes.h"

/* Multiprocessors that our kernels in the box leave free, so that NCCL's kernels between the boxes
 * run beside them. The number was not measured. NCCL runs one block per channel, and over most
 * networks it has up to 16 channels. */
enum { LEFT_TO_NCCL = 20 };

enum { LEAVE_MS = 1000 }; /* how long an abort waits until calls of other threads end */

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
    nodes->nccl = h->nccl;
    cudaSetDevice(h->device);
    nodes->network = h->copy_stream; /* for ar_nodes_measure; calls set it to another stream */
    error = cudaEventCreateWithFlags(&nodes->reduced, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&nodes->rested, cudaEventDisableTiming);
    for (int i = 0; i < 2 && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&nodes->added[i], cudaEventDisableTiming);
    if (error == cudaSuccess)
        return ncclSuccess;
    cudaGetLastError();
    snprintf(why, AR_WHY, "make events: %s", cudaGetErrorString(error));
    return ncclUnhandledCudaError;
}

/* Make this rank's handle for its box. Fails if NCCL would run all calls of that handle. */
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
    /* A call in the box is a part of a call of ${h}. ${h} already orders its graphs and its other
     * calls, so the handle in the box need not. */
    nodes->box->mixing = false;
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

/* Abort both communicators. This frees them, so first wait until no other thread is in a call that
 * uses them. Wait at most LEAVE_MS, because a call that waits in NCCL for a lost rank ends only
 * when its communicator is aborted. Abort the two in one NCCL group: if one were aborted first,
 * NCCL would wait for the kernels of the other. */
static void abort_both(struct ar_nodes *nodes)
{
    for (int ms = 0; ms < LEAVE_MS && __atomic_load_n(&nodes->inside, __ATOMIC_SEQ_CST) > 0; ms++)
        usleep(1000);
    nodes->nccl->ncclGroupStart();
    nodes->nccl->ncclCommAbort(nodes->across.comm);
    nodes->nccl->ncclCommAbort(nodes->box_comm);
    nodes->nccl->ncclGroupEnd();
}

/* The thread that aborts both communicators. NCCL frees and unmaps memory meanwhile. If another
 * thread is capturing a graph, CUDA allows this only in capture mode relaxed. */
static void *abort_thread(void *nodes)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaSetDevice(((struct ar_nodes *)nodes)->across.device);
    abort_both(nodes);
    return NULL;
}

void ar_nodes_abort(symtuner_ar *h)
{
    struct ar_nodes *nodes = h->nodes;

    if (__atomic_exchange_n(&nodes->aborted, true, __ATOMIC_SEQ_CST))
        return;
    symtuner_ar_abort(nodes->box);
    __atomic_store_n(&nodes->box->comm_gone, true, __ATOMIC_RELAXED);
    nodes->has_aborter = st_own_thread(&nodes->aborter, NULL, abort_thread, nodes) == 0;
    if (!nodes->has_aborter)
        abort_both(nodes);
}

bool ar_nodes_enter(struct ar_nodes *nodes)
{
    __atomic_add_fetch(&nodes->inside, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&nodes->aborted, __ATOMIC_SEQ_CST))
        return true;
    ar_nodes_leave(nodes);
    return false;
}

void ar_nodes_leave(struct ar_nodes *nodes)
{
    __atomic_sub_fetch(&nodes->inside, 1, __ATOMIC_SEQ_CST);
}

void ar_nodes_close(symtuner_ar *h)
{
    if (h->nodes != NULL && h->nodes->box != NULL)
        symtuner_ar_destroy(&h->nodes->box, 1);
}

void ar_nodes_free(symtuner_ar *h)
{
    struct ar_nodes *nodes = h->nodes;

    if (nodes == NULL)
        return;
    ar_nodes_close(h); /* does nothing, unless the creation of ${h} failed after that of the box */
    h->nodes = NULL;
    cudaSetDevice(h->device);
    if (nodes->has_aborter)
        pthread_join(nodes->aborter, NULL);
    if (nodes->across.comm != NULL && !nodes->aborted)
        h->nccl->ncclCommDestroy(nodes->across.comm);
    if (nodes->box_comm != NULL && !nodes->aborted)
        h->nccl->ncclCommDestroy(nodes->box_comm);
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
