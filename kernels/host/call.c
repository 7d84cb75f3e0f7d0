/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - one all-reduce: check, choose, launch. */
#include <stdio.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/host/graph.h"
#include "kernels/scratch/grow.h"
#include "kernels/host/launch.h"

static const char *const verdicts[] = {
    [AR_ALIVE] = "no error",
    [AR_TIMEOUT] = "a kernel waited for a peer past the time limit",
    [AR_ABORTED] = "the handle was aborted",
    [AR_OVERLAP] = "two calls of this handle ran at the same time",
    [AR_DESTROYED] = "the handle was destroyed",
};

static ncclResult_t no_handle(void)
{
    return ar_fail(NULL, ncclInvalidArgument, "handle is NULL");
}

ncclResult_t symtuner_ar_status(symtuner_ar *h)
{
    uint32_t verdict;

    if (h == NULL)
        return no_handle();
    verdict = __atomic_load_n(&h->mailbox->error, __ATOMIC_RELAXED);
    if (verdict == AR_ALIVE && __atomic_load_n(&h->mailbox->abort, __ATOMIC_RELAXED) != 0)
        return ar_fail(h, ncclInvalidUsage, "%s; destroy it", verdicts[AR_ABORTED]);
    if (verdict == AR_ALIVE)
        return h->endpoint.timed_out[0] == 0
                   ? ncclSuccess
                   : ar_fail(h, ncclRemoteError, "%s", h->endpoint.timed_out);
    return ar_fail(h, verdict == AR_TIMEOUT ? ncclRemoteError : ncclInvalidUsage,
                   "%s; destroy the handles of all ranks and create them again",
                   verdict < sizeof verdicts / sizeof verdicts[0] ? verdicts[verdict]
                                                                  : "unknown error");
}

ncclResult_t symtuner_ar_abort(symtuner_ar *h)
{
    if (h == NULL)
        return no_handle();
    __atomic_store_n(&h->mailbox->abort, 1, __ATOMIC_RELAXED);
    return ncclSuccess;
}

ncclResult_t symtuner_ar_force(symtuner_ar *h, const char *kernel, int ctas, int threads)
{
    int family = -1;

    if (h == NULL)
        return no_handle();
    if (kernel != NULL) {
        family = ar_family_by_name(kernel);
        if (family < 0)
            return ar_fail(h, ncclInvalidArgument,
                           "kernel \"%s\" is unknown; symtuner_ar_kernel_name() lists the names",
                           kernel);
    }
    if (ctas < 0 || ctas > AR_MAX_CTAS || threads < 0 || threads > 1024)
        return ar_fail(h, ncclInvalidArgument, "%d blocks of %d threads; at most %d of 1024", ctas,
                       threads, AR_MAX_CTAS);
    h->force.family = family;
    h->force.ctas = ctas;
    h->force.threads = threads;
    return ncclSuccess;
}

const char *symtuner_ar_kernel_name(int i)
{
    return ar_family_name(i);
}

/* ---- choose ---------------------------------------------------------------------------------- */

/* The buffers of one call: this rank's, and all ranks' if the caller passed them. */
struct buffers {
    const char *send;
    char *recv;
    const void *const *sends; /* NULL: use the windows */
    void *const *recvs;
    const struct ar_window *from, *to; /* the windows that hold send and recv; NULL: none */
};

static void find_windows(const symtuner_ar *h, struct buffers *b, uint64_t bytes)
{
    b->from = ar_window_find(h, b->send, bytes);
    b->to = ar_window_find(h, b->recv, bytes);
}

/* Whether peers can use multicast addresses for both buffers. */
static bool has_multicast(const struct buffers *b)
{
    return b->sends == NULL && b->from != NULL && b->to != NULL && b->from->multicast != NULL &&
           b->to->multicast != NULL;
}

static bool whole_words(const struct ar_window *w, const void *p)
{
    return w != NULL && ((const char *)p - w->base) % AR_WORD == 0;
}

static void ask_about(const symtuner_ar *h, const struct buffers *b, uint64_t bytes, int dtype,
                      int op, struct ar_ask *ask)
{
    ar_grow_ask(h, ask);
    ask->bytes = bytes;
    ask->dtype = dtype;
    ask->op = op;
    ask->dst_mapped = whole_words(b->to, b->recv);
    ask->src_mapped = whole_words(b->from, b->send);
    ask->in_place = b->send == b->recv; /* with windows it is the same on all ranks */
    if (b->sends != NULL) {
        ask->dst_mapped = ask->src_mapped = 1;
        for (int r = 0; r < h->ranks; r++) {
            ask->dst_mapped &= (uintptr_t)b->recvs[r] % AR_WORD == 0;
            ask->src_mapped &= (uintptr_t)b->sends[r] % AR_WORD == 0;
            ask->in_place |= b->sends[r] == b->recvs[r];
        }
    }
    ask->has_nvls = has_multicast(b);
}

/* Check the arguments; the error names the one that is wrong. */
static ncclResult_t check(symtuner_ar *h, const void *send, const void *recv, size_t count,
                          int dtype, int op)
{
    int size = ar_dtype_bytes(dtype);
    const char *s = send, *r = recv;

    if (size == 0)
        return ar_fail(h, ncclInvalidArgument, "data type %d is unknown", dtype);
    if (op < 0 || (op >= AR_OPS && h->comm == NULL))
        return ar_fail(h, ncclInvalidArgument, "operator %d is unknown", op);
    if (count == 0)
        return ncclSuccess;
    if (count > SIZE_MAX / 16)
        return ar_fail(h, ncclInvalidArgument, "count %zu is too large", count);
    if (send == NULL || recv == NULL)
        return ar_fail(h, ncclInvalidArgument, "%s is NULL", send == NULL ? "send" : "recv");
    if ((uintptr_t)send % (size_t)size != 0 || (uintptr_t)recv % (size_t)size != 0)
        return ar_fail(h, ncclInvalidArgument, "%s is not aligned to its %d-byte elements",
                       (uintptr_t)send % (size_t)size != 0 ? "send" : "recv", size);
    if (send != recv && s < r + count * (size_t)size && r < s + count * (size_t)size)
        return ar_fail(h, ncclInvalidUsage, "send and recv overlap but are not the same");
    return ncclSuccess;
}

/* Return why only NCCL can run a call, or NULL if our kernels may. */
static const char *never_ours(const symtuner_ar *h, int op)
{
    return h->gate != NULL ? h->gate : op >= AR_OPS ? "user-defined operators are NCCL's" : NULL;
}

static ncclResult_t choose(symtuner_ar *h, const struct ar_ask *ask, struct ar_choice *choice)
{
    const char *gate = never_ours(h, ask->op);
    char why[160];

    if (gate != NULL && h->force.family > AR_NCCL)
        return ar_fail(h, ncclInvalidUsage, "kernel %s was forced, but %s",
                       ar_family_name(h->force.family), gate);
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

ncclResult_t symtuner_ar_query(const void *send, const void *recv, size_t count,
                               ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                               struct symtuner_ar_plan *plan)
{
    struct buffers b = {.send = send, .recv = (char *)recv};
    size_t bytes;
    struct ar_ask ask;
    struct ar_choice choice;
    const char *gate;
    ncclResult_t result;
    size_t used;

    if (h == NULL)
        return no_handle();
    if (plan == NULL)
        return ar_fail(h, ncclInvalidArgument, "plan_out is NULL");
    if (plan->size != sizeof *plan)
        return ar_fail(h, ncclInvalidArgument,
                       "plan.size is %zu; set it to sizeof(struct symtuner_ar_plan) = %zu",
                       plan->size, sizeof *plan);
    result = check(h, send, recv, count, (int)dtype, (int)op);
    if (result != ncclSuccess)
        return result;
    bytes = count * (size_t)ar_dtype_bytes((int)dtype);
    find_windows(h, &b, bytes);
    ask_about(h, &b, bytes, (int)dtype, (int)op, &ask);
    result = choose(h, &ask, &choice);
    if (result != ncclSuccess)
        return result;
    plan->kernel = ar_family_name(choice.family);
    plan->ctas = choice.ctas;
    plan->threads = choice.threads;
    plan->zero_copy = ar_is_bulk(choice.family) && ask.dst_mapped;
    plan->pieces = choice.pieces;
    gate = never_ours(h, ask.op);
    if (gate != NULL)
        snprintf(plan->why, sizeof plan->why, "%s", gate);
    else
        ar_rules_why(h->rules, &ask, &choice, plan->why, sizeof plan->why);
    used = strlen(plan->why);
    snprintf(plan->why + used, sizeof plan->why - used, "%s", ar_order_note(choice.family));
    return ncclSuccess;
}

/* ---- launch ---------------------------------------------------------------------------------- */

static int alignment(const void *p)
{
    uintptr_t lowest = (uintptr_t)p & -(uintptr_t)p;

    return lowest == 0 || lowest > AR_WORD ? AR_WORD : (int)lowest;
}

static void map_buffers(const symtuner_ar *h, const struct buffers *b, uint64_t at,
                        struct ar_args *args)
{
    for (int r = 0; r < h->ranks; r++) {
        if (b->sends != NULL)
            args->src[r] = (const char *)b->sends[r] + at;
        else if (b->from != NULL)
            args->src[r] = b->from->peer[r] + (args->in - b->from->base);
        if (b->sends != NULL)
            args->dst[r] = (char *)b->recvs[r] + at;
        else if (b->to != NULL)
            args->dst[r] = b->to->peer[r] + (args->out - b->to->base);
    }
    if (has_multicast(b)) {
        args->multi_src = b->from->multicast + (args->in - b->from->base);
        args->multi_dst = b->to->multicast + (args->out - b->to->base);
    }
}

/* Set in ${args} which part of a piece each rank handles, and where in ${l} the parts lie. */
static void lay_out_piece(const symtuner_ar *h, const struct ar_choice *choice, bool mapped,
                          const struct ar_layout *l, struct ar_args *args)
{
    const struct ar_family_row *f = &ar_families[choice->family];
    const bool bulk = ar_is_bulk(choice->family);
    uint64_t tile = (uint64_t)choice->threads * AR_WORD * (uint64_t)f->unroll;

    args->region = l->first[f->region];
    args->half = bulk ? l->first[AR_REGION_GATHER] : l->half[f->region];
    args->shard = bulk && f->shots == 1 ? ar_round_up(args->bytes, AR_LINE * AR_WORD)
                                        : ar_shard_stride(f->form, args->bytes, h->ranks);
    args->words = ar_words(f->form, !bulk && f->shots == 1 ? args->bytes : args->shard);
    args->staged = f->gathers && !mapped;
    if (bulk && f->movers == 0)
        args->overlap = AR_SERIAL; /* long calls gain nothing by it: chunked lost 3 % at 16 MiB */
    args->lag = choice->lag > 0 ? choice->lag : 1;
    args->tiles = bulk ? ar_tiles_per_cta(args->shard, tile, choice->ctas) : 0;
}

/*
 * Keep the blocks of this handle within its budget, also when kernels overlap, so that two handles
 * fit side by side: a kernel lets the next one start early only if two kernels of its size fit into
 * the budget, and starts early itself only if it fits beside the previous one.
 */
static void keep_budget(symtuner_ar *h, struct ar_args *args, int ctas)
{
    int most = ar_most_ctas(h);

    if (args->overlap == AR_EARLY_BOTH && 2 * ctas > most)
        args->overlap = AR_EARLY;
    if (h->let_go + ctas > most)
        args->overlap = AR_SERIAL;
    h->let_go = args->overlap == AR_EARLY_BOTH ? ctas : 0;
}

static ncclResult_t launch(symtuner_ar *h, const void *kernel, const struct ar_args *args,
                           const struct ar_choice *choice, cudaStream_t stream)
{
    cudaLaunchAttribute early = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                 .val.programmaticStreamSerializationAllowed = 1};
    cudaLaunchConfig_t config = {
        .gridDim = {(unsigned)choice->ctas, 1, 1},
        .blockDim = {(unsigned)choice->threads, 1, 1},
        .dynamicSmemBytes = (size_t)ar_families[choice->family].shared,
        .stream = stream,
        .attrs = &early,
        .numAttrs = args->overlap != AR_SERIAL ? 1 : 0,
    };
    void *params[] = {(void *)args};
    cudaError_t error = cudaLaunchKernelExC(&config, kernel, params);

    return error == cudaSuccess ? ncclSuccess : ar_fail_cuda(h, error, "launch the kernel");
}

static ncclResult_t run_pieces(symtuner_ar *h, const struct ar_ask *ask,
                               const struct ar_choice *choice, int arena, const struct buffers *b,
                               cudaStream_t stream)
{
    int reducer = ar_reducer_of(ask->dtype, ask->op);
    ncclResult_t result = ncclSuccess;

    for (uint64_t at = 0; at < ask->bytes && result == ncclSuccess; at += choice->piece) {
        struct ar_args args;
        const void *kernel;

        ar_args_start(h, arena, &args);
        args.in = b->send + at;
        args.out = b->recv + at;
        args.bytes = ask->bytes - at < choice->piece ? ask->bytes - at : choice->piece;
        args.in_align = alignment(args.in);
        args.out_align = alignment(args.out);
        args.kind = AR_KIND(ask->dtype, ask->op);
        kernel = ar_kernel_find(choice->family, reducer, &args);
        if (kernel == NULL)
            return ar_fail(h, ncclInternalError, "no kernel %s for data type %d, op %d",
                           ar_family_name(choice->family), ask->dtype, ask->op);
        if (ask->op == AR_AVG && reducer != AR_R_NATIVE)
            args.scale = 1.0f / (float)h->ranks;
        map_buffers(h, b, at, &args);
        lay_out_piece(h, choice, ask->dst_mapped, &h->arena[arena].layout, &args);
        keep_budget(h, &args, choice->ctas);
        result = choice->family == AR_COPY
                     ? ar_copy_run(h, &args, kernel, choice->ctas, choice->threads, stream)
                     : launch(h, kernel, &args, choice, stream);
    }
    return result;
}

static ncclResult_t call_nccl(symtuner_ar *h, const struct ar_ask *ask, const struct buffers *b,
                              size_t count, cudaStream_t stream)
{
    static const char call[] = "ncclAllReduce";
    char why[AR_WHY];
    ncclResult_t result = ar_comm_wait(h->nccl, &h->endpoint, ncclInProgress, call, why);

    if (result == ncclSuccess) {
        if (b->from != NULL && b->to != NULL)
            ar_nccl_warn(h->nccl->version, ask->dtype, ask->op, b->send, b->recv);
        h->gave_nccl = true;
        result = h->nccl->ncclAllReduce(b->send, b->recv, count, (ncclDataType_t)ask->dtype,
                                        (ncclRedOp_t)ask->op, h->comm, stream);
        result = ar_comm_wait(h->nccl, &h->endpoint, result, call, why);
    }
    return result == ncclSuccess ? result : ar_fail(h, result, "%s", why);
}

static uint64_t window_bit(const symtuner_ar *h, const struct ar_window *w)
{
    return w == NULL ? 0 : 1ull << (w - h->windows);
}

/* Choose how to run ${ask} and in which arena, which is made if it is not there yet. If it cannot
 * be made, choose again without it. All ranks do so alike. */
static ncclResult_t choose_arena(symtuner_ar *h, struct ar_ask *ask, cudaStream_t stream,
                                 struct ar_choice *choice, int *arena)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    for (;;) {
        ncclResult_t result = choose(h, ask, choice);

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
        ask->without |= 1u << *arena;
        ar_grow_halves(h, ask);
    }
}

static ncclResult_t run(symtuner_ar *h, struct ar_ask *ask, const struct buffers *b, size_t count,
                        cudaStream_t stream)
{
    struct ar_choice choice;
    struct ar_order *order = NULL;
    struct ar_graph *graph = NULL;
    int arena;
    ncclResult_t result = choose_arena(h, ask, stream, &choice, &arena);

    if (result != ncclSuccess)
        return result;
    if (choice.family == AR_NCCL)
        return call_nccl(h, ask, b, count, stream);
    if (h->ranks == 1) {
        cudaError_t error = ask->in_place ? cudaSuccess
                                          : cudaMemcpyAsync(b->recv, b->send, ask->bytes,
                                                            cudaMemcpyDeviceToDevice, stream);

        return error == cudaSuccess ? ncclSuccess : ar_fail_cuda(h, error, "copy send to recv");
    }
    result = ar_stream_enter(h, stream, &order, &graph);
    if (result == ncclSuccess && graph != NULL)
        graph->windows |= window_bit(h, b->from) | window_bit(h, b->to);
    if (result == ncclSuccess && graph != NULL && choice.family == AR_COPY)
        result = ar_copy_guard(h, stream);
    if (result == ncclSuccess)
        result = run_pieces(h, ask, &choice, arena, b, stream);
    return result == ncclSuccess ? ar_stream_leave(h, stream, order) : result;
}

static ncclResult_t all_reduce(struct buffers *b, size_t count, int dtype, int op, symtuner_ar *h,
                               cudaStream_t stream)
{
    struct ar_ask ask;
    size_t bytes;
    int device = -1;
    ncclResult_t result = symtuner_ar_status(h);

    if (result == ncclSuccess)
        result = check(h, b->send, b->recv, count, dtype, op);
    if (result != ncclSuccess || count == 0)
        return result;
    bytes = count * (size_t)ar_dtype_bytes(dtype);
    find_windows(h, b, bytes);
    ask_about(h, b, bytes, dtype, op, &ask);
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
    struct buffers b = {.send = send, .recv = recv};

    return h == NULL ? no_handle() : all_reduce(&b, count, (int)dtype, (int)op, h, stream);
}

ncclResult_t symtuner_ar_all_reduce_at(const void *const *sends, void *const *recvs, size_t count,
                                       ncclDataType_t dtype, ncclRedOp_t op, symtuner_ar *h,
                                       cudaStream_t stream)
{
    struct buffers b = {.sends = sends, .recvs = recvs};
    ncclResult_t result;

    if (h == NULL)
        return no_handle();
    if (sends == NULL || recvs == NULL)
        return ar_fail(h, ncclInvalidArgument, "%s is NULL", sends == NULL ? "sends" : "recvs");
    for (int r = 0; r < h->ranks && count != 0; r++)
        if (sends[r] == NULL || recvs[r] == NULL)
            return ar_fail(h, ncclInvalidArgument, "%s[%d] is NULL",
                           sends[r] == NULL ? "sends" : "recvs", r);
    for (int r = 0; r < h->ranks; r++) { /* all ranks must refuse what one rank refuses */
        char why[sizeof h->error];

        result = check(h, sends[r], recvs[r], count, (int)dtype, (int)op);
        if (result == ncclSuccess)
            continue;
        memcpy(why, h->error, sizeof why);
        return ar_fail(h, result, "rank %d: %.200s", r, why);
    }
    b.send = sends[h->me];
    b.recv = recvs[h->me];
    return all_reduce(&b, count, (int)dtype, (int)op, h, stream);
}
