/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nodes.h - all-reduce over several boxes: reduce-scatter in the box, ncclAllReduce between the
 * ranks that have the same number in their boxes, all-gather in the box.
 *
 * A box is a machine. If the ranks of a handle (symtuner_ar) are on several boxes and may add up
 * box by box, the handle has a second handle, for the ranks of its own box. The public functions of
 * symtuner_ar.h make it from a communicator of the box. So this folder includes nothing of
 * kernels/host, but kernels/host includes this file.
 *
 * Threads    one at a time for each handle.
 * Ownership  the handle owns its struct ar_nodes. ncclCommSplit makes two communicators: one of the
 *            box, and one across the boxes. If the caller aborts its own communicator, NCCL's
 *            kernels on these two go on. (They end, too, if the caller made its communicator with
 *            splitShare = 1 in ncclConfig_t.) So symtuner_ar_abort aborts these two.
 */
#ifndef AR_NODES_H_
#define AR_NODES_H_

#include <pthread.h>

#include "kernels/group/handle.h"
#include "kernels/nodes/boxes.h"
#include "kernels/nodes/model.h"

struct ar_nodes {
    struct ar_boxes boxes;
    bool asked;                /* SYMTUNER_AR_NODES=1: ${figures} decide calls without a rule */
    symtuner_ar *box;          /* this rank's handle in the group of its box */
    ncclComm_t box_comm;       /* communicator of this box's ranks; ${box} was made from it */
    struct ar_endpoint across; /* across.comm: the ranks with this rank's number in their boxes */
    cudaStream_t network;      /* NCCL adds up over the boxes on this stream, the rest of a call
                                  runs on the caller's. It is one of h->sides, or before the first
                                  call h->copy_stream */
    cudaEvent_t reduced;       /* the caller's stream has reduced a piece in the box */
    cudaEvent_t added[2];      /* [p % 2]: ${network} has added up piece p over the boxes */
    cudaEvent_t rested;        /* ${network} has reduced what remains after the last piece */
    struct ar_nodes_figures figures;
    const struct ar_nccl *nccl;
    int inside;        /* number of calls that now use the communicators (ar_nodes_enter); atomic */
    bool aborted;      /* whether ar_nodes_abort was called; atomic */
    bool has_aborter;  /* whether there is a thread ${aborter} */
    pthread_t aborter; /* aborts both communicators */
};

/*
 * ar_nodes_span(h, cards, config, gate, why):
 * If the ranks of ${cards} span several boxes, write to ${gate} (2 * AR_WHY bytes) why NCCL runs
 * their calls. If these ranks can add up box by box, and were asked to, also make h->nodes.
 * Collective over the communicator of ${h}: all ranks get h->nodes, or no rank does. Returns an
 * error only if the ranks cannot reach each other any more. Then ${why} (AR_WHY bytes) says why.
 */
ncclResult_t ar_nodes_span(symtuner_ar *h, const struct ar_box_card *cards,
                           const struct symtuner_ar_config *config, char *gate, char *why);

/* Call this before you use the communicators. If it returns false, they are aborted, and the caller
 * must not use them. Otherwise the caller must call ar_nodes_leave at the end. */
bool ar_nodes_enter(struct ar_nodes *nodes);
void ar_nodes_leave(struct ar_nodes *nodes);

/* Abort h->nodes->box, which waits as symtuner_ar_abort does. Begin to abort both communicators,
 * which ends NCCL's kernels. May be called on any thread, and more than once. Does not wait for
 * NCCL, which frees the communicators only when all its kernels on this GPU have ended, including
 * those of the caller's communicators. */
void ar_nodes_abort(symtuner_ar *h);

/* ar_nodes_close destroys h->nodes->box. Call it only when the GPU is idle.
 * ar_nodes_free frees the rest of h->nodes. Call it only when no graph with a call of ${h} exists
 * any more, because NCCL would wait for such a graph. */
void ar_nodes_close(symtuner_ar *h);
void ar_nodes_free(symtuner_ar *h);

/* Collective: measure the figures of ${h}, which are then the same on all ranks. If this fails, it
 * fails on all ranks, with one exception: if the ranks cannot reach each other any more, it may
 * fail on some ranks only, and sets *lost on those ranks. */
ncclResult_t ar_nodes_measure(symtuner_ar *h, char *why, bool *lost);

/* Collective: return ncclSuccess if ${result} is ncclSuccess on all ranks of ${h}, else an error on
 * all ranks. If this rank failed, ${why} must say why. After an error ${why} says which rank
 * failed, and why (ar_bootstrap_agree, kernels/group/bootstrap.h). Sets *lost if the ranks cannot
 * reach each other any more. */
ncclResult_t ar_nodes_agree(symtuner_ar *h, ncclResult_t result, char *why, bool *lost);

/* Return 0 if NCCL runs an all-reduce of ${bytes} over all ranks. Otherwise the call runs box by
 * box: return into how many pieces it is cut. If ${why} is not NULL, write the reason to it
 * (${size} bytes). If h->nodes is NULL, return 0 and write nothing. */
int ar_nodes_choose(const symtuner_ar *h, uint64_t bytes, int dtype, int op, char *why,
                    size_t size);

/* Run an all-reduce of ${bytes} box by box, in ${pieces} pieces. Before that, the caller sets
 * h->nodes->network to a stream that this call can use (kernels/order/side.h). */
ncclResult_t ar_nodes_run(symtuner_ar *h, int pieces, const char *send, char *recv, uint64_t bytes,
                          ncclDataType_t dtype, ncclRedOp_t op, cudaStream_t stream);

/* Do what symtuner_ar_query does, for an all-reduce that runs box by box in ${pieces} pieces. */
ncclResult_t ar_nodes_query(symtuner_ar *h, int pieces, const char *send, char *recv,
                            uint64_t bytes, ncclDataType_t dtype, ncclRedOp_t op,
                            struct symtuner_ar_plan *plan);

/* Do what symtuner_ar_register (without windows), symtuner_ar_deregister and symtuner_ar_reserve
 * do, for h->nodes->box. ${allowed} says whether this rank may deregister the buffer; if not,
 * ${why} (AR_WHY bytes) says why, and no rank of any box deregisters it. */
ncclResult_t ar_nodes_register(symtuner_ar *h, void *buffer, size_t bytes);
ncclResult_t ar_nodes_deregister(symtuner_ar *h, void *buffer, ncclResult_t allowed, char *why);
ncclResult_t ar_nodes_reserve(symtuner_ar *h, size_t bytes);

/* Return the error of h->nodes->box, or ncclSuccess if it has none. */
ncclResult_t ar_nodes_status(symtuner_ar *h);

/* Write what symtuner_ar_describe says about h->nodes, as much as fits. Returns the length of all
 * of it. */
size_t ar_nodes_describe(const symtuner_ar *h, char *text, size_t length);

#endif
