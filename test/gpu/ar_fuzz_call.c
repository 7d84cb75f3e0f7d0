/* SPDX-License-Identifier: Apache-2.0 */
/* ar_fuzz_call.c - draw one call, and launch it between the two that prepare and check it. */
#include <stdio.h>
#include <string.h>

#include "ar_fuzz_rank.h"

unsigned fuzz_draw(unsigned long long *state, unsigned below)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (unsigned)(*state * 0x2545f4914f6cdd1dull >> 33) % below;
}

/* Half of the lengths are any number, the others are such that whole words, whole lines on every
 * rank, or powers of two come often: kernels have short cuts for those. */
static size_t draw_bytes(struct rank *r)
{
    unsigned p = fuzz_draw(&r->common, 1000), even = fuzz_draw(&r->common, 8);
    size_t below = p < 10    ? 1
                   : p < 450 ? (size_t)4 << 10
                   : p < 800 ? (size_t)64 << 10
                   : p < 960 ? (size_t)1 << 20
                   : p < 997 ? (size_t)4 << 20
                             : (size_t)64 << 20;
    size_t most = below < option.most ? below : option.most, grain = 1;
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

/* Give the handle a kernel and a shape, or back to the table when it cannot run this call. */
static void draw_kernel(struct rank *r, symtuner_ar *h, const struct fuzz_call *c, int bounded,
                        struct symtuner_ar_plan *plan)
{
    int ctas = fuzz_draw(&r->common, 3) ? (int)fuzz_draw(&r->common, 132) + 1 : 0;
    int threads = fuzz_draw(&r->common, 3) ? 64 << fuzz_draw(&r->common, 5) : 0;
    int free_choice = fuzz_draw(&r->common, 3) == 0, names = 0;
    /* no more than 64 words of 16 bytes for a thread, or one call would take the time of thousands
     */
    size_t least = c->count * (size_t)c->bytes / (1024 * (size_t)(threads == 0 ? 64 : threads));
    const char *name;

    while (symtuner_ar_kernel_name(names) != NULL)
        names++;
    name = symtuner_ar_kernel_name((int)fuzz_draw(&r->common, (unsigned)names));
    if (option.kernel != NULL)
        name = option.kernel;
    else if (free_choice || strcmp(name, "nccl") == 0)
        name = NULL;
    if (free_choice)
        ctas = threads = 0;
    else if (ctas > 0 && (size_t)ctas < least)
        ctas = least > 132 ? 132 : (int)least;
    if (bounded) {
        ctas = ctas % 32 + 1;
        threads = threads == 0 || threads > 512 ? 512 : threads;
    }
    plan->size = sizeof *plan;
    AR(symtuner_ar_force(h, name, ctas, threads), h);
    if (symtuner_ar_query(c->send, c->recv, c->count, (ncclDataType_t)c->type, (ncclRedOp_t)c->op,
                          h, plan) == ncclSuccess)
        return;
    AR(symtuner_ar_force(h, NULL, ctas, threads), h);
    AR(symtuner_ar_query(c->send, c->recv, c->count, (ncclDataType_t)c->type, (ncclRedOp_t)c->op, h,
                         plan),
       h);
}

static void draw_call(struct rank *r, int lane, int lists, struct fuzz_call *c)
{
    static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    int from = (int)fuzz_draw(&r->common, 2), to = (int)fuzz_draw(&r->common, 2), reals;
    int in_place = fuzz_draw(&r->common, 4) == 0, shifted = (int)fuzz_draw(&r->common, 3) == 0;
    size_t at[2];

    c->type = (int)fuzz_draw(&r->common, 12);
    if (fuzz_draw(&r->common, 2))
        c->type = fuzz_draw(&r->common, 2) ? 9 : 7; /* bf16, f32 */
    c->op = fuzz_draw(&r->common, 2) ? (int)fuzz_draw(&r->common, 5) : 0;
    if (c->op == 4 && (option.ranks & (option.ranks - 1)) != 0)
        c->op = 0; /* an average by three has no exact answer to compare with */
    c->bytes = sizes[c->type];
    c->count = draw_bytes(r) / (size_t)c->bytes;
    reals = (c->type >= 6 && c->type <= 9) && c->op != 1;
    c->data = reals ? (int)fuzz_draw(&r->common, c->op == 0 || c->op == 4 ? 3 : 2) : FUZZ_EXACT;
    c->ranks = option.ranks;
    c->me = r->me;
    c->lane = r->lane[lane];
    c->tag = r->tag++;
    for (int role = 0; role < 2; role++) {
        int registered = role == 0 ? from : to;
        unsigned long long *who = registered || in_place || lists ? &r->common : &r->own;
        unsigned steps = 16 / (unsigned)c->bytes;

        at[role] = (size_t)lane * LANE_BYTES + 1024 +
                   (shifted ? fuzz_draw(who, steps) * (size_t)c->bytes : 0) +
                   4096 * (size_t)fuzz_draw(&r->common, 8);
    }
    c->send = r->buffer[from][0] + at[0];
    c->recv = in_place ? c->send : r->buffer[to][1] + at[1];
}

/* ${p} of this rank on rank ${peer}: the same place in the same buffer. */
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

/* The call itself; ${lists}: with the addresses of all ranks. */
static ncclResult_t reduce(struct rank *r, const struct fuzz_call *c, int lists, symtuner_ar *h,
                           cudaStream_t stream)
{
    const void *sends[MOST_RANKS];
    void *recvs[MOST_RANKS];

    if (!lists)
        return symtuner_ar_all_reduce(c->send, c->recv, c->count, (ncclDataType_t)c->type,
                                      (ncclRedOp_t)c->op, h, stream);
    for (int i = 0; i < option.ranks; i++) {
        sends[i] = same_place(r, c->send, i);
        recvs[i] = same_place(r, c->recv, i);
    }
    return symtuner_ar_all_reduce_at(sends, recvs, c->count, (ncclDataType_t)c->type,
                                     (ncclRedOp_t)c->op, h, stream);
}

void fuzz_call_one(struct rank *r, int lane, int captured, int bounded)
{
    static const char *const types[] = {"i8",  "u8",  "i32", "u32",  "i64",  "u64",
                                        "f16", "f32", "f64", "bf16", "e4m3", "e5m2"};
    static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};
    int g = lane == LANES - 1;
    int lists = option.local && !option.host && fuzz_draw(&r->common, 4) == 0;
    struct symtuner_ar_plan plan = {.kernel = "?"};
    struct fuzz_call c;

    draw_call(r, lane, lists, &c);
    draw_kernel(r, r->handle[g], &c, bounded, &plan);
    if (strcmp(plan.kernel, "nccl") == 0)
        c.data = FUZZ_EXACT; /* NCCL rounds as it likes */
    snprintf(r->note[c.tag % NOTES], sizeof r->note[0],
             "%s %dx%d %s %s count %zu at %u/%u%s data %d lane %d%s%s", plan.kernel, plan.ctas,
             plan.threads, types[c.type], ops[c.op], c.count, (unsigned)(uintptr_t)c.send % 16,
             (unsigned)(uintptr_t)c.recv % 16, c.send == c.recv ? " in place" : "", c.data, lane,
             captured ? " in a graph" : "", lists ? " by lists" : "");
    CUDA(fuzz_prepare(&c, r->stream[lane]));
    if (fuzz_draw(&r->own, 12) == 0)
        CUDA(fuzz_stall(fuzz_draw(&r->own, 40), r->stream[lane]));
    AR(reduce(r, &c, lists, r->handle[g], r->stream[lane]), r->handle[g]);
    CUDA(fuzz_verify(&c, r->stream[lane]));
}
