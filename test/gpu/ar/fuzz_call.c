/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_call.c - draws a random call, and launches it between the kernels that prepare and check it.
 *
 * Sometimes several calls run in a row, as in a program that reduces many buffers. Only in such a
 * row does one kernel of symtuner's directly follow another. With SYMTUNER_AR_OVERLAP=2 the second
 * kernel may start before the first has ended.
 */
#include <stdio.h>
#include <string.h>

#include "test/gpu/ar/fuzz_rank.h"

enum { MOST_BEHIND = 4 };
#define BEHIND_BYTES ((size_t)1 << 20)  /* most bytes of a call if several run in a row */
#define BEHIND_STEP  ((size_t)16 << 20) /* bytes between the buffers of two calls in a row */

struct drawn {
    struct fuzz_call c;
    struct symtuner_ar_plan plan;
    const char *kernel; /* the forced kernel, or NULL */
    int ctas, threads, lists;
};

unsigned fuzz_draw(unsigned long long *state, unsigned below)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (unsigned)(*state * 0x2545f4914f6cdd1dull >> 33) % below;
}

/* Draw a length of at most ${allowed} bytes. Half of the lengths are arbitrary. The others are
 * multiples of 16 bytes, multiples of 128 bytes per rank, or powers of two, because kernels have
 * special cases for such lengths. */
static size_t draw_bytes(struct rank *r, size_t allowed)
{
    unsigned p = fuzz_draw(&r->common, 1000), even = fuzz_draw(&r->common, 8);
    size_t below = p < 10    ? 1
                   : p < 450 ? (size_t)4 << 10
                   : p < 800 ? (size_t)64 << 10
                   : p < 960 ? (size_t)1 << 20
                   : p < 997 ? (size_t)4 << 20
                             : (size_t)64 << 20;
    size_t most = below < allowed ? below : allowed, grain = 1;
    size_t bytes = fuzz_draw(&r->common, (unsigned)most);

    if (even == 1 || even == 2)
        grain = 16;
    else if (even == 3)
        grain = 128 * (size_t)option.ranks;
    else if (even == 4)
        for (grain = 8; grain * 2 <= bytes;)
            grain *= 2;
    bytes = bytes < grain ? grain : bytes;
    return even == 4 ? grain : bytes - bytes % grain;
}

/* Return the operator of ${c}. Each handle has its own number for a PreMulSum. */
static ncclRedOp_t op_of(const struct rank *r, const symtuner_ar *h, const struct fuzz_call *c)
{
    return c->op == FUZZ_PREMUL ? r->premul[h == r->handle[1]][c->type] : (ncclRedOp_t)c->op;
}

static void ask(struct rank *r, symtuner_ar *h, struct drawn *d)
{
    const struct fuzz_call *c = &d->c;

    d->plan.size = sizeof d->plan;
    AR(symtuner_ar_force(h, d->kernel, d->ctas, d->threads), h);
    if (symtuner_ar_query_coll(c->coll, c->send, c->recv, c->count, (ncclDataType_t)c->type,
                               op_of(r, h, c), h, &d->plan) == ncclSuccess) {
        if (d->kernel != NULL && strcmp(d->plan.kernel, d->kernel) != 0)
            team_fail(team, "%s would run where %s was asked for", d->plan.kernel, d->kernel);
        return;
    }
    d->kernel = NULL;
    AR(symtuner_ar_force(h, NULL, d->ctas, d->threads), h);
    AR(symtuner_ar_query_coll(c->coll, c->send, c->recv, c->count, (ncclDataType_t)c->type,
                              op_of(r, h, c), h, &d->plan),
       h);
}

/* Draw a kernel and a grid. If the drawn kernel cannot run this call, or might lack scratch in a
 * capture, the library chooses the kernel. */
static void draw_kernel(struct rank *r, symtuner_ar *h, int captured, int bounded, struct drawn *d)
{
    const struct fuzz_call *c = &d->c;
    int ctas = fuzz_draw(&r->common, 3) ? (int)fuzz_draw(&r->common, 132) + 1 : 0;
    int threads = fuzz_draw(&r->common, 3) ? 64 << fuzz_draw(&r->common, 5) : 0;
    int free_choice = fuzz_draw(&r->common, 3) == 0, names = 0;
    /* so many blocks that a thread gets at most 64 words of 16 bytes; with fewer blocks, one call
     * would take as long as thousands of others */
    size_t least = (c->sent > c->received ? c->sent : c->received) * (size_t)c->bytes /
                   (1024 * (size_t)(threads == 0 ? 64 : threads));
    const char *name;

    while (symtuner_ar_kernel_name(names) != NULL)
        names++;
    name = symtuner_ar_kernel_name((int)fuzz_draw(&r->common, (unsigned)names));
    if (option.kernel != NULL)
        name = option.kernel;
    else if (free_choice || strcmp(name, "nccl") == 0)
        name = NULL;
    if (captured && !option.reserve)
        name = NULL;
    if (free_choice)
        ctas = threads = 0;
    else if (ctas > 0 && (size_t)ctas < least)
        ctas = least > 132 ? 132 : (int)least;
    if (bounded) {
        ctas = ctas % 32 + 1;
        threads = threads == 0 || threads > 512 ? 512 : threads;
    }
    if (option.threads != 0 && (threads == 0 || threads > option.threads))
        threads = option.threads;
    d->kernel = name;
    d->ctas = ctas;
    d->threads = threads;
    ask(r, h, d);
}

/* Return the alignment of the buffers in bytes. NCCL's own kernels before 2.30.3 give wrong sums of
 * types of 1 or 2 bytes if a buffer does not begin at a multiple of 4 bytes
 * (docs/reference/nccl-releases.md). With --kernel nccl, this test makes no such calls. */
static unsigned address_step(int bytes)
{
    int version = 0;

    if (bytes >= 4 || option.kernel == NULL || strcmp(option.kernel, "nccl") != 0)
        return (unsigned)bytes;
    return ncclGetVersion(&version) == ncclSuccess && version < 23003 ? 4 : (unsigned)bytes;
}

/* Draw call ${k} of ${n} calls in a row. */
static void draw_call(struct rank *r, int lane, int lists, int k, int n, struct fuzz_call *c)
{
    static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    int from = (int)fuzz_draw(&r->common, 2), to = (int)fuzz_draw(&r->common, 2), reals;
    int in_place = fuzz_draw(&r->common, 4) == 0, shifted = (int)fuzz_draw(&r->common, 3) == 0;
    size_t at[2];

    c->type = (int)fuzz_draw(&r->common, 12);
    if (fuzz_draw(&r->common, 2))
        c->type = fuzz_draw(&r->common, 2) ? 9 : 7; /* bf16, f32 */
    c->op = fuzz_draw(&r->common, 2) ? (int)fuzz_draw(&r->common, 5) : 0;
    c->coll = lists ? SYMTUNER_AR_ALL_REDUCE : option.coll;
    if (c->coll < 0)
        c->coll = (int)fuzz_draw(&r->common, 3);
    if (c->coll == SYMTUNER_AR_ALL_GATHER)
        c->op = 0;
    c->in_place = in_place;
    c->bytes = sizes[c->type];
    c->count = draw_bytes(r, n > 1 && option.most > BEHIND_BYTES ? BEHIND_BYTES : option.most) /
               (size_t)c->bytes;
    if (c->coll != SYMTUNER_AR_ALL_REDUCE)
        c->count /= (size_t)option.ranks;
    c->sent = c->count * (size_t)(c->coll == SYMTUNER_AR_REDUCE_SCATTER ? option.ranks : 1);
    c->received = c->count * (size_t)(c->coll == SYMTUNER_AR_ALL_GATHER ? option.ranks : 1);
    reals = c->type >= 6; /* the types f16, f32, f64, bf16 and the two of f8 */
    /* the PreMulSums here are exact: in fp8 with up to four ranks, in all other types always */
    if (c->coll != SYMTUNER_AR_ALL_GATHER && fuzz_draw(&r->common, 8) == 0 &&
        (c->type < 10 || option.ranks <= 4))
        c->op = FUZZ_PREMUL, reals = 0;
    c->data = reals ? (int)fuzz_draw(&r->common, c->op == 0 || c->op == 4 ? 3 : 2) : FUZZ_EXACT;
    c->ranks = option.ranks;
    c->me = r->me;
    c->lane = r->lane[lane];
    c->tag = r->tag++;
    c->ahead = (unsigned)k;
    for (int role = 0; role < 2; role++) {
        int registered = role == 0 ? from : to;
        unsigned long long *who = registered || in_place || lists ? &r->common : &r->own;
        unsigned step = address_step(c->bytes);

        at[role] = (size_t)lane * LANE_BYTES + (size_t)k * BEHIND_STEP + 1024 +
                   (shifted ? fuzz_draw(who, 16 / step) * (size_t)step : 0) +
                   4096 * (size_t)fuzz_draw(&r->common, 8);
    }
    c->send = r->buffer[from][0] + at[0];
    c->recv = in_place ? c->send : r->buffer[to][1] + at[1];
    if (in_place && c->coll == SYMTUNER_AR_REDUCE_SCATTER)
        c->recv += (size_t)r->me * c->count * (size_t)c->bytes;
    if (in_place && c->coll == SYMTUNER_AR_ALL_GATHER)
        c->send += (size_t)r->me * c->count * (size_t)c->bytes;
}

/* Return the address on rank ${peer} that corresponds to ${p} on this rank. */
static char *same_place(const struct rank *r, const char *p, int peer)
{
    for (int mapped = 0; mapped < 2; mapped++)
        for (int role = 0; role < 2; role++) {
            const char *base = r->buffer[mapped][role];

            if (p >= base && p < base + LANES * LANE_BYTES)
                return buffer_of[mapped][role][peer] + (p - base);
        }
    return NULL;
}

/* Make the call. If ${lists} is set, an all-reduce passes the addresses of all ranks. */
static ncclResult_t make(struct rank *r, const struct fuzz_call *c, int lists, symtuner_ar *h,
                         cudaStream_t stream)
{
    const void *sends[MOST_RANKS];
    void *recvs[MOST_RANKS];

    if (c->coll == SYMTUNER_AR_REDUCE_SCATTER)
        return symtuner_ar_reduce_scatter(c->send, c->recv, c->count, (ncclDataType_t)c->type,
                                          op_of(r, h, c), h, stream);
    if (c->coll == SYMTUNER_AR_ALL_GATHER)
        return symtuner_ar_all_gather(c->send, c->recv, c->count, (ncclDataType_t)c->type, h,
                                      stream);
    if (!lists)
        return symtuner_ar_all_reduce(c->send, c->recv, c->count, (ncclDataType_t)c->type,
                                      op_of(r, h, c), h, stream);
    for (int i = 0; i < option.ranks; i++) {
        sends[i] = same_place(r, c->send, i);
        recvs[i] = same_place(r, c->recv, i);
    }
    return symtuner_ar_all_reduce_at(sends, recvs, c->count, (ncclDataType_t)c->type,
                                     op_of(r, h, c), h, stream);
}

/* Write down a description of the call, for error messages, and the number of its kernel. */
static void take_note(struct rank *r, const struct drawn *d, int lane, int captured, int n)
{
    static const char *const types[] = {"i8",  "u8",  "i32", "u32",  "i64",  "u64",
                                        "f16", "f32", "f64", "bf16", "e4m3", "e5m2"};
    static const char *const ops[] = {"sum", "prod", "max", "min", "avg", "premul"};
    static const char *const colls[] = {"all-reduce", "reduce-scatter", "all-gather"};
    const struct fuzz_call *c = &d->c;
    unsigned char *number = &r->kernel[c->tag % NOTES];

    for (*number = 0; strcmp(symtuner_ar_kernel_name(*number), d->plan.kernel) != 0;)
        ++*number;
    if (c->count == 0) /* an empty call runs no kernel: give it a number that no kernel has */
        *number = MOST_KERNELS - 1;
    snprintf(r->note[c->tag % NOTES], sizeof r->note[0],
             "%s %s %dx%d %s %s count %zu at %u/%u%s data %d lane %d%s%s, %u of %d", colls[c->coll],
             d->plan.kernel, d->plan.ctas, d->plan.threads, types[c->type], ops[c->op], c->count,
             (unsigned)(uintptr_t)c->send % 16, (unsigned)(uintptr_t)c->recv % 16,
             c->in_place ? " in place" : "", c->data, lane, captured ? " in a graph" : "",
             d->lists ? " by lists" : "", c->ahead + 1, n);
}

int fuzz_call_some(struct rank *r, int lane, int captured, int bounded)
{
    int n = fuzz_draw(&r->common, 4) ? 1 : 2 + (int)fuzz_draw(&r->common, MOST_BEHIND - 1);
    symtuner_ar *h = r->handle[lane == LANES - 1];
    struct drawn drawn[MOST_BEHIND];

    for (int k = 0; k < n; k++) {
        struct drawn *d = &drawn[k];

        d->lists = option.local && !option.host && fuzz_draw(&r->common, 4) == 0;
        draw_call(r, lane, d->lists, k, n, &d->c);
        draw_kernel(r, h, captured, bounded, d);
        if (d->c.coll != SYMTUNER_AR_ALL_GATHER &&
            (strcmp(d->plan.kernel, "nccl") == 0 || strncmp(d->plan.kernel, "nvls", 4) == 0))
            /* NCCL, and the NVLink switch in kernels nvls*, add in another order than fuzz_verify,
             * so only exact sums can be compared */
            d->c.data = FUZZ_EXACT;
        take_note(r, d, lane, captured, n);
        CUDA(fuzz_prepare(&d->c, r->stream[lane]));
    }
    for (int k = 0; k < n; k++) {
        struct drawn *d = &drawn[k];

        AR(symtuner_ar_force(h, d->kernel, d->ctas, d->threads), h);
        if (fuzz_draw(&r->own, 12) == 0)
            CUDA(fuzz_stall(fuzz_draw(&r->own, 40), r->stream[lane]));
        AR(make(r, &d->c, d->lists, h, r->stream[lane]), h);
    }
    for (int k = 0; k < n; k++)
        CUDA(fuzz_verify(&drawn[k].c, r->stream[lane]));
    return n;
}
