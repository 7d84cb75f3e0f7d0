/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - how the library would run a call, and whether the call goes to NCCL. */
#include <stdio.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/host/launch.h"
#include "kernels/ipc/ipc.h"
#include "kernels/nodes/nodes.h"

/* Return whether ${family} runs the call in the peers' buffers, without scratch. */
static bool is_zero_copy(const struct ar_ask *ask, int family)
{
    if (!ar_is_bulk(family))
        return false;
    if (family == AR_TMA_IPC)
        /* tma_ipc needs no scratch as soon as the peers have mapped the buffers. */
        return true;
    if (ask->coll == AR_ALL_REDUCE)
        return ask->dst_mapped;
    if (family == AR_ENGINES)
        return ask->src_mapped;
    return ar_families[family].slots == 0 || family == AR_COPY;
}

static ncclResult_t unknown_coll(symtuner_ar *h, int coll)
{
    return ar_fail(h, ncclInvalidArgument, "collective %d is unknown", coll);
}

/* Fill ${plan} for a call. After an error its contents do not matter. */
static ncclResult_t fill(int coll, const void *send, const void *recv, size_t count,
                         ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                         struct symtuner_ar_plan *plan)
{
    struct ar_buffers b = {.coll = coll, .send = send, .recv = (char *)recv};
    struct ar_ask ask;
    struct ar_choice choice;
    const char *gate;
    ncclResult_t result;
    size_t used;
    int pieces;

    result = ar_call_check(h, coll, send, recv, count, (int)dtype, (int)op);
    if (result != ncclSuccess)
        return result;
    b.part = count * (uint64_t)ar_dtype_bytes((int)dtype);
    pieces = ar_call_pieces(h, &b, (int)dtype, (int)op, plan->why, sizeof plan->why);
    if (pieces > 0)
        return ar_nodes_query(h, pieces, send, b.recv, b.part, dtype, op, plan);
    ar_call_ask(h, &b, count, (int)dtype, (int)op, &ask);
    result = ar_call_choose(h, &ask, &choice);
    if (result != ncclSuccess)
        return result;
    plan->kernel = ar_family_name(choice.family);
    plan->ctas = choice.ctas;
    plan->threads = choice.threads;
    plan->zero_copy = is_zero_copy(&ask, choice.family);
    plan->pieces = choice.pieces;
    plan->boxes = 0;
    gate = ar_call_gate(h, ask.op);
    if (gate != NULL && (h->nodes == NULL || coll != AR_ALL_REDUCE))
        snprintf(plan->why, sizeof plan->why, "%s", gate);
    else if (gate == NULL)
        ar_rules_why(h->rules, &ask, &choice, plan->why, sizeof plan->why);
    used = strlen(plan->why);
    if (choice.family == AR_TMA_IPC && h->ipc_mode == AR_IPC_AUTO) {
        snprintf(plan->why + used, sizeof plan->why - used,
                 "; NCCL until all ranks have mapped the buffers");
        used = strlen(plan->why);
    }
    if (coll != AR_ALL_GATHER)
        snprintf(plan->why + used, sizeof plan->why - used, "%s%s", ar_order_note(choice.family),
                 ask.op == AR_PREMUL && gate == NULL ? "; each product is rounded, then the sum"
                                                     : "");
    return ncclSuccess;
}

ncclResult_t symtuner_ar_query_coll(int coll, const void *send, const void *recv, size_t count,
                                    ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                                    struct symtuner_ar_plan *plan)
{
    struct symtuner_ar_plan filled;
    ncclResult_t result;

    if (h == NULL)
        return ar_fail_null();
    if (coll < 0 || coll >= AR_COLLS)
        return unknown_coll(h, coll);
    if (coll == AR_ALL_GATHER)
        op = ncclSum; /* an all-gather has no operator */
    if (plan == NULL)
        return ar_fail(h, ncclInvalidArgument, "plan_out is NULL");
    if (plan->size != sizeof *plan)
        return ar_fail(h, ncclInvalidArgument,
                       "plan.size is %zu; set it to sizeof(struct symtuner_ar_plan) = %zu",
                       plan->size, sizeof *plan);
    filled = (struct symtuner_ar_plan){.size = sizeof filled};
    result = fill(coll, send, recv, count, dtype, op, h, &filled);
    if (result == ncclSuccess)
        *plan = filled;
    return result;
}

ncclResult_t symtuner_ar_query(const void *send, const void *recv, size_t count,
                               ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                               struct symtuner_ar_plan *plan)
{
    return symtuner_ar_query_coll(AR_ALL_REDUCE, send, recv, count, dtype, op, h, plan);
}

ncclResult_t symtuner_ar_decide(int coll, const void *send, const void *recv, size_t count,
                                ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h, int *nccl)
{
    struct ar_buffers b = {.coll = coll, .send = send, .recv = (char *)recv};
    const uint32_t before = h != NULL ? h->decided : 0;
    struct ar_ask ask;
    bool asked;
    int device = -1;
    ncclResult_t result;

    if (h == NULL)
        return ar_fail_null();
    if (coll < 0 || coll >= AR_COLLS)
        return unknown_coll(h, coll);
    if (nccl == NULL)
        return ar_fail(h, ncclInvalidArgument, "nccl_out is NULL");
    result = ar_call_check(h, coll, send, recv, count, (int)dtype, (int)op);
    if (result != ncclSuccess)
        return result;
    if (count == 0) {
        *nccl = 0;
        return ncclSuccess;
    }
    ar_call_ask(h, &b, count, (int)dtype, (int)op, &ask);
    cudaGetDevice(&device);
    cudaSetDevice(h->device);
    h->decided = 0; /* so that ar_call_agree asks the ranks about this call */
    result = ar_call_agree(h, &ask, &b, &asked);
    if (result == ncclSuccess)
        *nccl = asked && !ask.has_ipc;
    h->decided = before + (result == ncclSuccess && asked && ask.has_ipc);
    if (device >= 0)
        cudaSetDevice(device); /* back to the GPU that was current before */
    return result;
}
