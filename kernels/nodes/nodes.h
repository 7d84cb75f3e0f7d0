/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nodes.h - all-reduce over several boxes: reduce-scatter in the box, ncclAllReduce between the
 * ranks at the same place of each box, all-gather in the box.
 *
 * The group of the box is a handle like any other, made from a communicator of its own by the
 * public functions of symtuner_ar.h. So this room needs nothing of kernels/host, which includes it.
 *
 * Threads    as the handle: one at a time.
 * Ownership  the handle owns its struct ar_nodes; ncclCommSplit makes both communicators. They
 *            share the abort flag of the caller's communicator (ncclConfig_t.splitShare), so that
 *            ncclCommAbort ends the kernels of all three.
 */
#ifndef AR_NODES_H_
#define AR_NODES_H_

#include "kernels/group/handle.h"
#include "kernels/nodes/boxes.h"
#include "kernels/nodes/model.h"

struct ar_nodes {
    struct ar_boxes boxes;
    bool asked;                /* SYMTUNER_AR_NODES=1: where no rule decides, the figures do */
    symtuner_ar *box;          /* this rank in the group of its box */
    ncclComm_t box_comm;       /* what ${box} was made from */
    struct ar_endpoint across; /* its comm: this rank among those at its place in the other boxes */
    cudaStream_t network;      /* where NCCL adds up over the boxes, beside the caller's stream */
    cudaEvent_t reduced;       /* on the caller's stream: the piece is reduced in the box */
    cudaEvent_t added[2];      /* on ${network}: so is it over the boxes; of even and odd pieces */
    cudaEvent_t rested;        /* on ${network}: NCCL is done with what no piece holds */
    struct ar_nodes_figures figures;
};

/*
 * ar_nodes_span(h, cards, config, gate, why):
 * If the ranks of ${cards} span several boxes, write to ${gate} (2 * AR_WHY bytes) why NCCL runs
 * their calls, and let ${h} add up box by box if it can. Collective over the communicator of ${h}:
 * all ranks get h->nodes, or none does. Returns an error, with ${why} (AR_WHY bytes), only if the
 * ranks cannot reach each other any more.
 */
ncclResult_t ar_nodes_span(symtuner_ar *h, const struct ar_box_card *cards,
                           const struct symtuner_ar_config *config, char *gate, char *why);

/* ar_nodes_close releases the group of this box's ranks; call it once the GPU is idle.
 * ar_nodes_free releases the rest. Call it only after the last graph that contains a call is
 * destroyed: NCCL would wait for that graph. */
void ar_nodes_close(symtuner_ar *h);
void ar_nodes_free(symtuner_ar *h);

/* Measure the figures of ${h}, the same on all ranks. Collective. Fails on all ranks or on none,
 * unless it sets *lost: the other ranks cannot be reached any more. */
ncclResult_t ar_nodes_measure(symtuner_ar *h, char *why, bool *lost);

/* Agree with the other ranks of ${h} on the outcome of a step (kernels/group/bootstrap.h). */
ncclResult_t ar_nodes_agree(symtuner_ar *h, ncclResult_t result, char *why, bool *lost);

/* Return in how many pieces an all-reduce of ${bytes} runs box by box; 0: NCCL runs it over all
 * ranks. If ${why} is not NULL, it says why (${size} bytes). h->nodes may be NULL. */
int ar_nodes_choose(const symtuner_ar *h, uint64_t bytes, int dtype, int op, char *why,
                    size_t size);

/* One all-reduce in ${pieces}, of ${bytes} at ${send}. */
ncclResult_t ar_nodes_run(symtuner_ar *h, int pieces, const char *send, char *recv, uint64_t bytes,
                          ncclDataType_t dtype, ncclRedOp_t op, cudaStream_t stream);

/* As symtuner_ar_query, for an all-reduce in ${pieces}. */
ncclResult_t ar_nodes_query(symtuner_ar *h, int pieces, const char *send, char *recv,
                            uint64_t bytes, ncclDataType_t dtype, ncclRedOp_t op,
                            struct symtuner_ar_plan *plan);

/* As symtuner_ar_register with windows = NULL, _deregister and _reserve, for the group of the
 * box. */
ncclResult_t ar_nodes_register(symtuner_ar *h, void *buffer, size_t bytes);
ncclResult_t ar_nodes_deregister(symtuner_ar *h, void *buffer);
ncclResult_t ar_nodes_reserve(symtuner_ar *h, size_t bytes);

/* The error of the group of the box, if it has one. */
ncclResult_t ar_nodes_status(symtuner_ar *h);

/* As symtuner_ar_describe, for what h->nodes adds. */
size_t ar_nodes_describe(const symtuner_ar *h, char *text, size_t length);

#endif
