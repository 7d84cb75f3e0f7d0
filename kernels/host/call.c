/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - one call of a collective: check, choose, launch. */
#include <stdio.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/host/launch.h"
#include "kernels/ipc/ipc.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/graph.h"
#include "kernels/order/side.h"
#include "kernels/scratch/grow.h"

/* ---- choose ---------------------------------------------------------------------------------- */

/* Find the windows that hold the call's buffers. If the call is in place, take the window of the
 * longer buffer for both buffers: the shorter one may also lie in another window, but perhaps only
 * on some ranks, and all ranks must make the same choice. */
static void find_windows(const symtuner_ar *h, struct ar_buffers *b)
{
    const bool in_place = ar_in_place(h, b->coll, b->send, b->recv, b->part);

    b->from = ar_window_find(h, b->send, b->part * ar_parts_sent(h, b->coll));
    b->to = in_place && b->coll == AR_REDUCE_SCATTER
                ? b->from
                : ar_window_find(h, b->recv, b->part * ar_parts_received(h, b->coll));
    if (in_place && b->coll == AR_ALL_GATHER)
        b->from = b->to;
}

static bool whole_words(const struct ar_window *w, const void *p)
{
    return w != NULL && ((const char *)p - w->base) % AR_WORD == 0;
}

/* Store the program's operator ${op} in ${b}, and return it as an enum ar_op. */
static int note_op(const symtuner_ar *h, struct ar_buffers *b, int op)
{
    b->op = (ncclRedOp_t)op;
    b->premul = op < AR_OPS ? NULL : ar_operator_find(h, op);
    return op < AR_OPS ? op : b->premul != NULL ? AR_PREMUL : AR_FOREIGN;
}

static void ask_about(const symtuner_ar *h, const struct ar_buffers *b, int dtype, int op,
                      struct ar_ask *ask)
{
    ar_grow_ask(h, ask);
    if (h->ipc_mode == AR_IPC_AUTO && b->coll != AR_ALL_REDUCE)
        /* Do not map these buffers. torch's FSDP frees the buffers of reduce-scatters and
         * all-gathers to use their memory again, but cudaFree keeps memory that a peer has mapped.
         */
        ask->has_ipc = 0;
    ask->coll = b->coll;
    ask->bytes = b->part * (uint64_t)ar_coll_parts(b->coll, h->ranks);
    ask->dtype = dtype;
    ask->op = op;
    ask->dst_mapped = whole_words(b->to, b->recv);
    ask->src_mapped = whole_words(b->from, b->send);
    /* With registered buffers, a call is in place on all ranks or on none. With other buffers no
     * choice depends on in_place. */
    ask->in_place = ar_in_place(h, b->coll, b->send, b->recv, b->part);
    if (b->coll == AR_ALL_GATHER && ask->in_place)
        ask->src_mapped = ask->dst_mapped;
    ask->registered =
        ask->src_mapped && (b->coll == AR_REDUCE_SCATTER ? b->to != NULL : ask->dst_mapped);
    if (b->coll == AR_REDUCE_SCATTER)
        ask->dst_mapped = 0; /* no peer writes recv, and its alignment may differ between ranks */
    if (b->sends != NULL) {
        /* The program called symtuner_ar_all_reduce_at, whose buffers count as registered. */
        ask->dst_mapped = ask->src_mapped = 1;
        for (int r = 0; r < h->ranks; r++) {
            ask->dst_mapped &= (uintptr_t)b->recvs[r] % AR_WORD == 0;
            ask->src_mapped &= (uintptr_t)b->sends[r] % AR_WORD == 0;
            ask->in_place |= b->sends[r] == b->recvs[r];
        }
        ask->registered = ask->dst_mapped && ask->src_mapped;
    }
    ask->has_nvls = ar_has_multicast(b);
}

void ar_call_ask(const symtuner_ar *h, struct ar_buffers *b, size_t count, int dtype, int op,
                 struct ar_ask *ask)
{
    b->part = count * (uint64_t)ar_dtype_bytes(dtype);
    find_windows(h, b);
    ask_about(h, b, dtype, note_op(h, b, op), ask);
}

ncclResult_t ar_call_check(symtuner_ar *h, int coll, const void *send, const void *recv,
                           size_t count, int dtype, int op)
{
    int size = ar_dtype_bytes(dtype);
    const char *s = send, *r = recv;
    uint64_t part = count * (uint64_t)size;
    const struct ar_operator *made = op < AR_OPS ? NULL : ar_operator_find(h, op);

    if (size == 0)
        return ar_fail(h, ncclInvalidArgument, "data type %d is unknown", dtype);
    if (op < 0 || (op >= AR_OPS && made == NULL && h->comm == NULL))
        return ar_fail(h, ncclInvalidArgument, "operator %d is unknown", op);
    if (made != NULL && made->dtype != dtype)
        return ar_fail(h, ncclInvalidArgument,
                       "operator %d was created for data type %d, the call has %d", op, made->dtype,
                       dtype);
    if (count == 0)
        return ncclSuccess;
    if (count > SIZE_MAX / 16 / (size_t)ar_coll_parts(coll, h->ranks))
        return ar_fail(h, ncclInvalidArgument, "count %zu is too large", count);
    if (send == NULL || recv == NULL)
        return ar_fail(h, ncclInvalidArgument, "%s is NULL", send == NULL ? "send" : "recv");
    if ((uintptr_t)send % (size_t)size != 0 || (uintptr_t)recv % (size_t)size != 0)
        return ar_fail(h, ncclInvalidArgument, "%s is not aligned to its %d-byte elements",
                       (uintptr_t)send % (size_t)size != 0 ? "send" : "recv", size);
    if (!ar_in_place(h, coll, s, r, part) && s < r + part * ar_parts_received(h, coll) &&
        r < s + part * ar_parts_sent(h, coll))
        return ar_fail(h, ncclInvalidUsage,
                       coll == AR_ALL_REDUCE
                           ? "send and recv overlap but are not the same"
                           : "send and recv overlap, but this rank's part is not at its place");
    return ncclSuccess;
}

const char *ar_call_gate(const symtuner_ar *h, int op)
{
    return h->gate != NULL    ? h->gate
           : op == AR_FOREIGN ? "user-defined operators are NCCL's"
           : op != AR_PREMUL  ? NULL
           : h->ranks == 1    ? "no kernel multiplies by a scalar if there is only one rank"
                              : NULL;
}

ncclResult_t ar_call_choose(symtuner_ar *h, const struct ar_ask *ask, struct ar_choice *choice)
{
    const char *gate = ar_call_gate(h, ask->op);
    char why[160];

    if (gate != NULL && h->force.family > AR_NCCL)
        return ar_fail(h, ncclInvalidUsage, "kernel %s was forced, but %s",
                       ar_family_name(h->force.family), gate);
    if (gate != NULL && h->comm == NULL)
        return ar_fail(h, ncclInvalidUsage, "%s", gate);
    if (gate != NULL) {
        *choice = (struct ar_choice){.family = AR_NCCL, .pieces = 1};
        return ncclSuccess;
    }
    if (ar_rules_select(h->rules, ask, &h->force, choice) != 0) {
        ar_rules_why(h->rules, ask, choice, why, sizeof why);
        return ar_fail(h, ncclInvalidUsage, "%s", why);
    }
    if (choice->lag != 0 && h->lag != 0)
        choice->lag = h->lag;
    return ncclSuccess;
}

int ar_call_pieces(const symtuner_ar *h, const struct ar_buffers *b, int dtype, int op, char *why,
                   size_t size)
{
    if (b->coll != AR_ALL_REDUCE || h->force.family >= 0)
        return 0;
    return ar_nodes_choose(h, b->part, dtype, op, why, size);
}

/* ---- launch ---------------------------------------------------------------------------------- */

static ncclResult_t call_nccl(symtuner_ar *h, const struct ar_ask *ask, const struct ar_buffers *b,
                              size_t count, cudaStream_t stream)
{
    static const char *const names[AR_COLLS] = {"ncclAllReduce", "ncclReduceScatter",
                                                "ncclAllGather"};
    const char *const call = names[b->coll];
    const ncclDataType_t dtype = (ncclDataType_t)ask->dtype;
    const ncclRedOp_t op = b->op;
    char why[AR_WHY];
    ncclResult_t result = symtuner_ar_separate(stream);

    if (result != ncclSuccess)
        return ar_fail(h, result, "%s", symtuner_ar_error(NULL));
    result = ar_comm_wait(h->nccl, &h->endpoint, ncclInProgress, call, why);
    if (result == ncclSuccess) {
        if (b->coll == AR_ALL_REDUCE && b->from != NULL && b->to != NULL)
            ar_nccl_warn(h->nccl->version, ask->dtype, ask->op, b->send, b->recv);
        h->gave_nccl = true;
        result =
            b->coll == AR_ALL_REDUCE
                ? h->nccl->ncclAllReduce(b->send, b->recv, count, dtype, op, h->comm, stream)
            : b->coll == AR_REDUCE_SCATTER
                ? h->nccl->ncclReduceScatter(b->send, b->recv, count, dtype, op, h->comm, stream)
                : h->nccl->ncclAllGather(b->send, b->recv, count, dtype, h->comm, stream);
        result = ar_comm_wait(h->nccl, &h->endpoint, result, call, why);
    }
    return result == ncclSuccess ? result : ar_fail(h, result, "%s", why);
}

static uint64_t window_bit(const symtuner_ar *h, const struct ar_window *w)
{
    return w == NULL ? 0 : 1ull << (w - h->windows);
}

/* Choose how to run the call ${ask}, and in which arena (part of the scratch). If the arena does
 * not exist yet, make it. If it cannot be made, choose again without it. All ranks make the same
 * choice. */
static ncclResult_t choose_arena(symtuner_ar *h, struct ar_ask *ask, cudaStream_t stream,
                                 struct ar_choice *choice, int *arena)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    for (;;) {
        ncclResult_t result = ar_call_choose(h, ask, choice);

        *arena = AR_ARENA_SMALL;
        if (result != ncclSuccess || choice->family == AR_NCCL || h->ranks == 1)
            return result;
        *arena = ar_grow_arena_of(h, ask, choice);
        if (ar_grow_phase(h, *arena) == AR_OPEN) {
            cudaError_t error = cudaStreamIsCapturing(stream, &status);

            if (error != cudaSuccess)
                return ar_fail_cuda(h, error, "look at the stream");
        }
        if (ar_grow_use(h, *arena, status != cudaStreamCaptureStatusNone, h->force.family >= 0))
            return ncclSuccess;
        if (h->force.family >= 0 && ar_grow_phase(h, *arena) == AR_OPEN)
            return ar_fail(h, ncclRemoteError,
                           "kernel %s needs more scratch, and not all ranks came within %llu ms to "
                           "make it",
                           ar_family_name(choice->family),
                           (unsigned long long)(h->timeout_ns / 1000000));
        ask->without |= 1u << *arena;
        ar_grow_halves(h, ask);
    }
}

static ncclResult_t run_box_by_box(symtuner_ar *h, int pieces, const struct ar_ask *ask,
                                   const struct ar_buffers *b, cudaStream_t stream)
{
    struct ar_order *order = NULL;
    struct ar_graph *graph = NULL;
    ncclResult_t result = ar_stream_enter(h, stream, &order, &graph);

    if (result == ncclSuccess)
        result = ar_side_find(h, &h->sides, order->capture, &h->nodes->network);
    if (result == ncclSuccess)
        result = ar_nodes_run(h, pieces, b->send, b->recv, b->part, (ncclDataType_t)ask->dtype,
                              (ncclRedOp_t)ask->op, stream);
    return result == ncclSuccess ? ar_stream_leave(h, stream, graph) : result;
}

/* Run the call without our kernels: by NCCL, or by a copy if there is only one rank. */
static ncclResult_t run_without_kernel(symtuner_ar *h, const struct ar_ask *ask, bool nccl,
                                       const struct ar_buffers *b, size_t count,
                                       cudaStream_t stream)
{
    struct ar_order *order = NULL;
    struct ar_graph *graph = NULL;
    ncclResult_t result;

    if (nccl && h->gate != NULL && h->nodes == NULL)
        return call_nccl(h, ask, b, count, stream); /* NCCL orders its own calls */
    result = ar_stream_enter(h, stream, &order, &graph);
    if (result != ncclSuccess)
        return result;
    if (nccl) {
        result = call_nccl(h, ask, b, count, stream);
    } else if (!ask->in_place) {
        cudaError_t error =
            cudaMemcpyAsync(b->recv, b->send, ask->bytes, cudaMemcpyDeviceToDevice, stream);

        result = error == cudaSuccess ? result : ar_fail_cuda(h, error, "copy send to recv");
    }
    return result == ncclSuccess ? ar_stream_leave(h, stream, graph) : result;
}

ncclResult_t ar_call_agree(symtuner_ar *h, struct ar_ask *ask, const struct ar_buffers *b,
                           bool *asked)
{
    struct ar_choice choice;
    bool runs = true;
    ncclResult_t result = ncclSuccess;

    *asked = false;
    if (h->ipc_mode != AR_IPC_AUTO || !ask->has_ipc || h->force.family >= 0)
        return ncclSuccess;
    result = ar_call_choose(h, ask, &choice);
    *asked = result == ncclSuccess && choice.family == AR_TMA_IPC;
    if (*asked && h->decided == 0)
        result = ar_ipc_agree(h, b->coll, b->send, b->part * ar_parts_sent(h, b->coll), b->recv,
                              b->part * ar_parts_received(h, b->coll), &runs);
    ask->has_ipc = runs;
    return result;
}

/* Run the pieces of the call. If copy engines move data, call ar_copies_enter before and
 * ar_copies_leave after that, because symtuner_ar_abort must wait until the copies have ended. */
static ncclResult_t run_pieces(symtuner_ar *h, struct ar_order *order, const struct ar_ask *ask,
                               const struct ar_choice *choice, int arena,
                               const struct ar_buffers *b, cudaStream_t stream)
{
    const int family = choice->family;
    const bool copies = family == AR_COPY || family == AR_ENGINES || family == AR_TMA_ENGINES;
    ncclResult_t result = copies ? ar_copies_enter(h) : ncclSuccess, left = ncclSuccess;

    if (result != ncclSuccess)
        return result;
    result = ar_pieces_run(h, order, ask, choice, arena, b, stream);
    if (copies)
        left = ar_copies_leave(h, order->capture != 0, stream);
    return result == ncclSuccess ? left : result;
}

static ncclResult_t run(symtuner_ar *h, struct ar_ask *ask, const struct ar_buffers *b,
                        size_t count, cudaStream_t stream)
{
    struct ar_choice choice;
    struct ar_order *order = NULL;
    struct ar_graph *graph = NULL;
    int arena, pieces = ar_call_pieces(h, b, ask->dtype, ask->op, NULL, 0);
    bool asked;
    ncclResult_t result;

    if (pieces > 0)
        return run_box_by_box(h, pieces, ask, b, stream);
    result = ar_call_agree(h, ask, b, &asked);
    if (asked && h->decided > 0)
        h->decided--;
    if (result == ncclSuccess)
        result = choose_arena(h, ask, stream, &choice, &arena);
    if (result != ncclSuccess)
        return result;
    if (choice.family == AR_NCCL || h->ranks == 1)
        return run_without_kernel(h, ask, choice.family == AR_NCCL, b, count, stream);
    result = ar_stream_enter(h, stream, &order, &graph);
    if (result == ncclSuccess && graph != NULL)
        graph->windows |= window_bit(h, b->from) | window_bit(h, b->to);
    if (result == ncclSuccess && graph != NULL && choice.family == AR_COPY)
        result = ar_copy_guard(h, stream);
    if (result == ncclSuccess)
        result = run_pieces(h, order, ask, &choice, arena, b, stream);
    return result == ncclSuccess ? ar_stream_leave(h, stream, graph) : result;
}

static ncclResult_t call(struct ar_buffers *b, size_t count, int dtype, int op, symtuner_ar *h,
                         cudaStream_t stream)
{
    struct ar_ask ask;
    int device = -1;
    ncclResult_t result = ar_status(h);

    if (result == ncclSuccess)
        result = ar_call_check(h, b->coll, b->send, b->recv, count, dtype, op);
    if (result != ncclSuccess || count == 0)
        return result;
    ar_call_ask(h, b, count, dtype, op, &ask);
    if (cudaGetDevice(&device) != cudaSuccess || device == h->device)
        return run(h, &ask, b, count, stream);
    cudaSetDevice(h->device);
    result = run(h, &ask, b, count, stream);
    cudaSetDevice(device);
    return result;
}

ncclResult_t symtuner_ar_all_reduce(const void *send, void *recv, size_t count,
                                    ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                                    cudaStream_t stream)
{
    struct ar_buffers b = {.coll = AR_ALL_REDUCE, .send = send, .recv = recv};

    return h == NULL ? ar_fail_null() : call(&b, count, (int)dtype, (int)op, h, stream);
}

ncclResult_t symtuner_ar_reduce_scatter(const void *send, void *recv, size_t recv_count,
                                        ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                                        cudaStream_t stream)
{
    struct ar_buffers b = {.coll = AR_REDUCE_SCATTER, .send = send, .recv = recv};

    return h == NULL ? ar_fail_null() : call(&b, recv_count, (int)dtype, (int)op, h, stream);
}

ncclResult_t symtuner_ar_all_gather(const void *send, void *recv, size_t send_count,
                                    ncclDataType_t dtype, symtuner_ar *h, cudaStream_t stream)
{
    struct ar_buffers b = {.coll = AR_ALL_GATHER, .send = send, .recv = recv};

    return h == NULL ? ar_fail_null() : call(&b, send_count, (int)dtype, (int)ncclSum, h, stream);
}

ncclResult_t symtuner_ar_all_reduce_at(const void *const *sends, void *const *recvs, size_t count,
                                       ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                                       cudaStream_t stream)
{
    struct ar_buffers b = {.coll = AR_ALL_REDUCE, .sends = sends, .recvs = recvs};
    ncclResult_t result;

    if (h == NULL)
        return ar_fail_null();
    if (sends == NULL || recvs == NULL)
        return ar_fail(h, ncclInvalidArgument, "%s is NULL", sends == NULL ? "sends" : "recvs");
    for (int r = 0; r < h->ranks && count != 0; r++)
        if (sends[r] == NULL || recvs[r] == NULL)
            return ar_fail(h, ncclInvalidArgument, "%s[%d] is NULL",
                           sends[r] == NULL ? "sends" : "recvs", r);
    /* Check the buffers of all ranks, because a call that one rank refuses must be refused by all.
     */
    for (int r = 0; r < h->ranks; r++) {
        char why[sizeof h->error];

        result = ar_call_check(h, AR_ALL_REDUCE, sends[r], recvs[r], count, (int)dtype, (int)op);
        if (result == ncclSuccess)
            continue;
        memcpy(why, h->error, sizeof why);
        return ar_fail(h, result, "rank %d: %.200s", r, why);
    }
    b.send = sends[h->me];
    b.recv = recvs[h->me];
    return call(&b, count, (int)dtype, (int)op, h, stream);
}
