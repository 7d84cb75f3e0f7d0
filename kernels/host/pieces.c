/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.c - cut a call into pieces that fit into scratch, lay out each piece, and launch it. */
#include <string.h>

#include "kernels/engines/engines.h"
#include "kernels/group/error.h"
#include "kernels/host/launch.h"
#include "kernels/ipc/ipc.h"
#include "kernels/order/follower.h"

static int alignment(const void *p)
{
    uintptr_t lowest = (uintptr_t)p & -(uintptr_t)p;

    return lowest == 0 || lowest > AR_WORD ? AR_WORD : (int)lowest;
}

/* Return an alignment that all ${parts} parts have. The first part lies at ${p}, and each further
 * part lies ${part} bytes after the previous part. */
static int part_alignment(const void *p, uint64_t part, uint64_t parts)
{
    return alignment((const void *)((uintptr_t)p | (parts > 1 ? (uintptr_t)part : 0)));
}

/* For a reduce-scatter or an all-gather, set args->src[r] and args->dst[r] to addresses in the
 * buffers of rank r. In a reduce-scatter src[r] is where this rank's part lies in rank r's send. In
 * an all-gather dst[r] is where this rank's part lies in rank r's recv, and src[r] is the part that
 * rank r sends. That part lies in rank r's send, or in its recv if the call is in place. */
static void map_parts(const symtuner_ar *h, const struct ar_buffers *b, struct ar_args *args)
{
    const uint64_t mine = (uint64_t)h->me * b->part;
    const bool fetches = b->coll == AR_ALL_GATHER;
    const bool inside = fetches && args->in == args->out + mine; /* whether send lies in recv */

    for (int r = 0; r < h->ranks; r++) {
        if (inside && b->to != NULL)
            args->src[r] = b->to->peer[r] + (args->out - b->to->base) + (uint64_t)r * b->part;
        else if (b->from != NULL)
            args->src[r] = b->from->peer[r] + (args->in - b->from->base) + (fetches ? 0 : mine);
        if (b->to != NULL)
            args->dst[r] = b->to->peer[r] + (args->out - b->to->base) + mine;
    }
}

/* For an all-reduce, set args->src[r] and args->dst[r] to the addresses of this piece in the
 * buffers of rank r, and set the multicast addresses. */
static void map_buffers(const symtuner_ar *h, const struct ar_buffers *b, uint64_t at,
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
    if (ar_has_multicast(b)) {
        args->multi_src = b->from->multicast + (args->in - b->from->base);
        args->multi_dst = b->to->multicast + (args->out - b->to->base);
    }
}

/* Set in ${args} how the ranks divide a piece, and where the slots of the piece lie in scratch.
 * ${l} is the layout of the arena. */
static void lay_out_piece(const symtuner_ar *h, int coll, const struct ar_choice *choice,
                          bool mapped, const struct ar_layout *l, struct ar_args *args)
{
    const struct ar_family_row *f = &ar_families[choice->family];
    const bool bulk = ar_is_bulk(choice->family);
    const bool whole = args->stride != 0 || f->shots == 1; /* whether there are no shards */
    uint64_t tile = (uint64_t)choice->threads * AR_WORD * (uint64_t)f->unroll;

    args->region = l->first[f->region];
    args->half = bulk ? l->first[AR_REGION_GATHER] : l->half[f->region];
    args->shard = bulk && whole ? ar_round_up(args->bytes, AR_LINE * AR_WORD)
                                : ar_shard_stride(f->form, args->bytes, h->ranks);
    args->words = ar_words(f->form, !bulk && whole ? args->bytes : args->shard);
    args->staged = f->gathers && !mapped;
    if ((bulk && f->movers == 0) || choice->family == AR_TMA_ENGINES)
        args->overlap = AR_SERIAL; /* overlap made kernel chunked 3 % slower at 16 MiB; in
                                      tma_engines, copies come before and after the kernel */
    args->lag = choice->lag > 0 ? choice->lag : 1;
    args->tiles = choice->family == AR_TMA_IPC
                      ? ar_ipc_tiles(l->half[AR_REGION_IPC], choice->ctas, h->ranks, coll,
                                     ar_tma_tile_of(coll, h->ranks))
                  : bulk ? ar_tiles_per_cta(args->shard, tile, choice->ctas)
                         : 0;
}

/*
 * Let kernels of this handle overlap only if together they have at most ar_most_ctas() blocks. Then
 * the blocks of two handles fit on a GPU side by side. If this kernel and the previous one have
 * more blocks than that, this kernel starts after the previous one has ended. The next kernel
 * probably has ${ctas} blocks, too. If two such kernels have more blocks than ar_most_ctas(), this
 * kernel does not let the next one start early.
 */
static void keep_budget(const symtuner_ar *h, struct ar_order *order, struct ar_args *args,
                        int ctas)
{
    int most = ar_most_ctas(h);

    if (args->overlap == AR_EARLY_BOTH && 2 * ctas > most)
        args->overlap = AR_EARLY;
    if (order->let_go + ctas > most)
        args->overlap = AR_SERIAL;
    order->let_go = args->overlap == AR_EARLY_BOTH ? ctas : 0;
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

/* Run one piece, for which all fields of ${args} are set. */
static ncclResult_t run(symtuner_ar *h, int coll, const void *kernel, const struct ar_args *args,
                        const struct ar_choice *choice, bool send_mapped, cudaStream_t stream)
{
    const struct ar_engines_adder adder = {.kernel = kernel,
                                           .ctas = choice->ctas,
                                           .threads = choice->threads,
                                           .shared = ar_families[choice->family].shared};

    if (choice->family == AR_TMA_ENGINES)
        return ar_engines_reduce(h, args, &adder,
                                 ar_kernel_find(AR_ALL_GATHER, AR_ENGINES, 0, args), stream);
    if (choice->family == AR_ENGINES)
        return ar_engines_gather(h, args, kernel, send_mapped, stream);
    if (choice->family == AR_COPY && coll == AR_ALL_GATHER)
        return ar_copy_gather(h, args, stream);
    if (choice->family == AR_COPY)
        return ar_copy_run(h, args, kernel, choice->ctas, choice->threads, stream);
    return launch(h, kernel, args, choice, stream);
}

/* Some families cannot run the bytes at the end of a message that fill no word. Return how to run
 * these bytes if ${family} is one of them. Otherwise the result's family is 0. */
static struct ar_choice choice_of_rest(int family)
{
    return (struct ar_choice){.family = ar_families[family].rest, .ctas = 1, .threads = 64};
}

ncclResult_t ar_pieces_run(symtuner_ar *h, struct ar_order *order, const struct ar_ask *ask,
                           const struct ar_choice *chosen, int arena, const struct ar_buffers *b,
                           cudaStream_t stream)
{
    const uint64_t piece = chosen->piece / (uint64_t)ar_coll_parts(b->coll, h->ranks);
    const struct ar_choice rest = choice_of_rest(chosen->family);
    int reducer = ar_reducer_of(ask->dtype, ask->op);
    ncclResult_t result = ncclSuccess;

    for (uint64_t at = 0; at < b->part && result == ncclSuccess; at += piece) {
        const struct ar_choice *choice = chosen;
        struct ar_args args;
        const void *kernel;

        ar_args_start(h, arena, &args);
        args.in = b->send + at;
        args.out = b->recv + at;
        args.bytes = b->part - at < piece ? b->part - at : piece;
        if (rest.family != 0 && args.bytes % AR_WORD != 0)
            choice = &rest;
        args.stride = b->coll == AR_ALL_REDUCE ? 0 : b->part;
        args.in_align = part_alignment(args.in, b->part, ar_parts_sent(h, b->coll));
        args.out_align = part_alignment(args.out, b->part, ar_parts_received(h, b->coll));
        args.kind = AR_KIND(ask->dtype, b->premul != NULL ? AR_SUM : ask->op);
        if (b->premul != NULL) {
            args.scalar = b->premul->scalar;
            args.factor = b->premul->factor;
        }
        kernel = ar_kernel_find(b->coll, choice->family, reducer, &args);
        if (kernel == NULL)
            return ar_fail(h, ncclInternalError, "no kernel %s for data type %d, op %d",
                           ar_family_name(choice->family), ask->dtype, ask->op);
        if (ask->op == AR_AVG && reducer != AR_R_NATIVE)
            args.scale = 1.0f / (float)h->ranks;
        if (b->coll == AR_ALL_REDUCE)
            map_buffers(h, b, at, &args);
        else
            map_parts(h, b, &args);
        lay_out_piece(h, b->coll, choice, ask->dst_mapped, &h->arena[arena].layout, &args);
        if (choice->family == AR_TMA_IPC)
            ar_ipc_locate(h, b->coll, b->part * ar_parts_sent(h, b->coll),
                          b->part * ar_parts_received(h, b->coll), &args);
        keep_budget(h, order, &args, choice->ctas);
        ar_follower_note(h, (enum ar_start)args.overlap);
        result = run(h, b->coll, kernel, &args, choice, ask->src_mapped, stream);
    }
    return result;
}
