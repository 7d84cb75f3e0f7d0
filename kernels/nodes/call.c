/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - one all-reduce over several boxes: choose, and launch the pieces on two streams. */
#include <stdio.h>

#include "base/cut.h"
#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/nodes/nodes.h"
#include "kernels/shared/dtypes.h"

/* ---- choose ---------------------------------------------------------------------------------- */

static bool is_integer(int dtype)
{
    return dtype < AR_F16;
}

static const char *unable(uint64_t bytes, int ranks, int dtype, int op)
{
    return op >= AR_OPS ? "user-defined operators are NCCL's"
           : op == AR_AVG && is_integer(dtype)
               ? "an average of integers is not that of the boxes' averages"
           : bytes < (uint64_t)ranks * ST_CUT_WORD ? "the message is shorter than a word per rank"
                                                   : NULL;
}

int ar_nodes_choose(const symtuner_ar *h, uint64_t bytes, int dtype, int op, char *why, size_t size)
{
    const struct ar_nodes *nodes = h->nodes;
    const char *cannot;
    char place[AR_PLACE], boxes[64];
    int pieces;

    if (nodes == NULL)
        return 0;
    snprintf(boxes, sizeof boxes, "%d boxes of %d ranks", nodes->boxes.count, nodes->boxes.ranks);
    cannot = unable(bytes, nodes->boxes.ranks, dtype, op);
    if (cannot != NULL) {
        if (why != NULL)
            snprintf(why, size, "%s: %s", boxes, cannot);
        return 0;
    }
    pieces = ar_rules_network(h->rules, bytes, dtype, op, place);
    if (pieces >= 0) {
        if (why != NULL)
            snprintf(why, size, "%s: rules: %s", boxes, place);
    } else if (!nodes->asked) {
        pieces = 0;
        if (why != NULL)
            snprintf(why, size, "%s: no rule covers the call", boxes);
    } else {
        pieces = ar_nodes_pieces(&nodes->figures, bytes);
        if (why != NULL)
            snprintf(why, size, "%s: by the start-up figures NCCL %.0f us, box by box %.0f us",
                     boxes, ar_nodes_time(&nodes->figures, bytes, 0),
                     ar_nodes_time(&nodes->figures, bytes, pieces == 0 ? 1 : pieces));
    }
    return st_cut(bytes, nodes->boxes.ranks, pieces).pieces;
}

ncclResult_t ar_nodes_query(symtuner_ar *h, int pieces, const char *send, char *recv,
                            uint64_t bytes, ncclDataType_t dtype, ncclRedOp_t op,
                            struct symtuner_ar_plan *plan)
{
    const struct ar_nodes *nodes = h->nodes;
    const struct st_cut cut = st_cut(bytes, nodes->boxes.ranks, pieces);
    const uint64_t part = st_cut_part(&cut, 0);
    ncclResult_t result = symtuner_ar_query_coll(
        SYMTUNER_AR_REDUCE_SCATTER, send, recv + (uint64_t)nodes->boxes.at * part,
        part / (uint64_t)ar_dtype_bytes((int)dtype), dtype, op, nodes->box, plan);

    if (result != ncclSuccess)
        return ar_fail(h, result, "in the box: %.200s", symtuner_ar_error(nodes->box));
    plan->pieces = cut.pieces;
    plan->boxes = nodes->boxes.count;
    ar_nodes_choose(h, bytes, (int)dtype, (int)op, plan->why, sizeof plan->why);
    return ncclSuccess;
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* One call that is being launched. */
struct job {
    symtuner_ar *h;
    struct ar_nodes *nodes;
    struct st_cut cut;
    const char *send;
    char *recv;
    ncclDataType_t dtype;
    ncclRedOp_t op;
    cudaStream_t stream;
    uint64_t size; /* bytes of an element */
};

static ncclResult_t in_box(const struct job *j, ncclResult_t result)
{
    return result == ncclSuccess
               ? result
               : ar_fail(j->h, result, "in the box: %.200s", symtuner_ar_error(j->nodes->box));
}

/* Record ${event} after all work that was submitted to the stream ${from} so far, and make the
 * stream ${to} wait for the event. If ${to} is NULL, only record the event. */
static ncclResult_t follow(const struct job *j, cudaStream_t to, cudaStream_t from,
                           cudaEvent_t event)
{
    cudaError_t error = cudaEventRecord(event, from);

    if (error == cudaSuccess && to != NULL)
        error = cudaStreamWaitEvent(to, event, 0);
    return error == cudaSuccess ? ncclSuccess : ar_fail_cuda(j->h, error, "order the streams");
}

/* Let NCCL add up ${bytes} over ${ranks}, on the stream nodes->network. */
static ncclResult_t add_up(const struct job *j, struct ar_endpoint *ranks, const char *from,
                           char *to, uint64_t bytes)
{
    static const char call[] = "ncclAllReduce between the boxes";
    char why[AR_WHY];
    ncclResult_t result = j->h->nccl->ncclAllReduce(from, to, bytes / j->size, j->dtype, j->op,
                                                    ranks->comm, j->nodes->network);

    j->h->gave_nccl = true;
    result = ar_comm_wait(j->h->nccl, ranks, result, call, why);
    return result == ncclSuccess ? result : ar_fail(j->h, result, "%s", why);
}

/* Run the reduce-scatter of a piece on the caller's stream, and then its all-reduce over the boxes
 * on nodes->network. */
static ncclResult_t reduce(const struct job *j, int piece)
{
    const uint64_t at = st_cut_start(&j->cut, piece), part = st_cut_part(&j->cut, piece);
    char *mine = j->recv + at + (uint64_t)j->nodes->boxes.at * part;
    ncclResult_t result =
        in_box(j, symtuner_ar_reduce_scatter(j->send + at, mine, part / j->size, j->dtype, j->op,
                                             j->nodes->box, j->stream));

    if (result == ncclSuccess)
        result = follow(j, j->nodes->network, j->stream, j->nodes->reduced);
    if (result == ncclSuccess)
        result = add_up(j, &j->nodes->across, mine, mine, part);
    return result == ncclSuccess ? follow(j, NULL, j->nodes->network, j->nodes->added[piece % 2])
                                 : result;
}

/* Run the all-gather of a piece on the caller's stream, after its all-reduce over the boxes. */
static ncclResult_t gather(const struct job *j, int piece)
{
    const uint64_t at = st_cut_start(&j->cut, piece), part = st_cut_part(&j->cut, piece);
    cudaError_t error = cudaStreamWaitEvent(j->stream, j->nodes->added[piece % 2], 0);

    if (error != cudaSuccess)
        return ar_fail_cuda(j->h, error, "wait for the network");
    return in_box(j, symtuner_ar_all_gather(j->recv + at + (uint64_t)j->nodes->boxes.at * part,
                                            j->recv + at, part / j->size, j->dtype, j->nodes->box,
                                            j->stream));
}

/* Run all pieces of the message of ${bytes}. */
static ncclResult_t run(const struct job *j, uint64_t bytes)
{
    symtuner_ar *h = j->h;
    const uint64_t held = st_cut_start(&j->cut, j->cut.pieces);
    ncclResult_t result = ncclSuccess;

    for (int p = 0; p <= j->cut.pieces && result == ncclSuccess; p++) {
        if (p < j->cut.pieces)
            result = reduce(j, p);
        if (p == j->cut.pieces && held < bytes) { /* the end of the message, which is in no piece */
            result = add_up(j, &h->endpoint, j->send + held, j->recv + held, bytes - held);
            if (result == ncclSuccess)
                result = follow(j, NULL, h->nodes->network, h->nodes->rested);
        }
        if (p > 0 && result == ncclSuccess)
            result = gather(j, p - 1);
    }
    if (result == ncclSuccess && held < bytes) {
        cudaError_t error = cudaStreamWaitEvent(j->stream, h->nodes->rested, 0);

        result = error == cudaSuccess ? result : ar_fail_cuda(h, error, "wait for the network");
    }
    return result;
}

ncclResult_t ar_nodes_run(symtuner_ar *h, int pieces, const char *send, char *recv, uint64_t bytes,
                          ncclDataType_t dtype, ncclRedOp_t op, cudaStream_t stream)
{
    const struct job job = {h,    h->nodes, st_cut(bytes, h->nodes->boxes.ranks, pieces),
                            send, recv,     dtype,
                            op,   stream,   (uint64_t)ar_dtype_bytes((int)dtype)};
    ncclResult_t result;

    if (!ar_nodes_enter(h->nodes))
        return ar_fail(h, ncclInvalidUsage, "the handle was aborted");
    result = run(&job, bytes);
    ar_nodes_leave(h->nodes);
    return result;
}
