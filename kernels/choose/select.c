/* SPDX-License-Identifier: Apache-2.0 */
/* select.c - find the row of rows.c for a call, and apply it. */
#include "kernels/choose/select.h"

#include <stdio.h>
#include <string.h>

#include "nccl/names.h"

#define KiB (1ull << 10)

static const struct ar_row one_rank = {.family = AR_ONE_LL8,
                                       .ctas = 16,
                                       .threads = 128,
                                       .source = "one rank: send is copied, and no kernel runs"};

/* ${half} bytes of scratch are divided into ${slots} equal slots. Return how many bytes of payload
 * a message can have if its words must fit into ${used} of these slots. */
static uint64_t fits(int form, uint64_t half, int slots, int used)
{
    uint64_t lines = half / (AR_LINE * AR_WORD) / (uint64_t)slots;

    return lines * ar_line_payload(form) / ar_shard_grain(form) * ar_shard_grain(form) *
           (uint64_t)used;
}

static bool can_run(const struct ar_ask *ask, int family)
{
    const unsigned needs = ar_family_needs(family, ask->coll);
    const struct {
        unsigned need;
        bool met;
    } checks[] = {
        {AR_NEEDS_NVLINK, ask->links == AR_LINKS_NVLINK},
        {AR_NEEDS_PEERS, ask->links != AR_LINKS_HOST},
        {AR_NEEDS_NAN_TYPE, ar_dtype_lamport(ask->dtype)},
        {AR_NEEDS_SUM_AVG, ask->op == AR_SUM || ask->op == AR_AVG || ask->op == AR_PREMUL},
        {AR_NEEDS_SUM, ask->op == AR_SUM},
        {AR_NEEDS_UNSCALED, ask->op != AR_PREMUL},
        {AR_NEEDS_RECV, ask->dst_mapped},
        {AR_NEEDS_SEND, ask->src_mapped},
        {AR_NEEDS_TWO_BUFS, !ask->in_place},
        {AR_NEEDS_COPY, ask->has_copy},
        {AR_NEEDS_MULTICAST, ask->has_nvls},
        {AR_NEEDS_WORDS, ar_part_bytes(ask) % AR_WORD == 0},
        {AR_NEEDS_TMA, ask->has_tma},
        {AR_NEEDS_IPC, ask->has_ipc && ask->ranks <= AR_IPC_RANKS},
    };

    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if ((needs & checks[i].need) != 0 && !checks[i].met)
            return false;
    return needs != 0;
}

uint64_t ar_capacity(const struct ar_ask *ask, int family)
{
    const struct ar_family_row *f = &ar_families[family];
    const int parts = ar_coll_parts(ask->coll, ask->ranks);
    const int slots = parts == 1 ? f->slots : 1;
    const int used = parts > 1 || f->shots == 1 ? 1 : ask->ranks;
    uint64_t bytes, staged, most;

    if (family == AR_NCCL)
        return ask->has_nccl ? UINT64_MAX : 0;
    if (!can_run(ask, family) || (f->region == AR_REGION_IPC && ask->half[f->region] == 0))
        return 0;
    if (f->slots == 0 || (parts > 1 && family == AR_COPY) ||
        (family == AR_ENGINES && ask->src_mapped))
        return (1ull << 40) * (uint64_t)parts;
    if (family == AR_ENGINES) /* a rank uses one slot, in its own scratch, to hold its own part */
        return fits(f->form, ask->half[AR_REGION_GATHER], 1, 1) * (uint64_t)parts;
    bytes = fits(f->form, ask->half[f->region], slots * ask->ranks, used) * (uint64_t)parts;
    if (!f->gathers || parts > 1)
        return bytes;
    staged = fits(f->form, ask->half[AR_REGION_GATHER], ask->ranks, used);
    /* A flag can count AR_MAX_STEPS tiles, so one launch can move no more tiles than that. The
     * smallest tile has 16 * 64 bytes. */
    most = (uint64_t)AR_MAX_STEPS * 16 * 64;
    if (!ask->dst_mapped && staged < bytes)
        bytes = staged;
    return bytes < most ? bytes : most;
}

/* The table names ${family} for an all-reduce, but ${family} cannot run it. Return the family that
 * runs it instead. */
static int next_best(const struct ar_ask *ask, int family)
{
    bool two = ask->ranks > 2 && (ar_families[family].shots == 2 || ar_is_bulk(family));

    for (int tries = 0; tries < 4 && family >= 0; tries++) {
        family = ar_families[family].fallback;
        if (family >= 0 && ar_capacity(ask, family) != 0)
            return family;
    }
    if (ask->bytes > 64 * KiB && ar_capacity(ask, AR_CHUNKED) != 0)
        /* LL8 has little scratch, so it would cut the message into many pieces. */
        return AR_CHUNKED;
    return two ? AR_TWO_LL8 : AR_ONE_LL8;
}

/* The table names ${family} for a reduce-scatter or an all-gather, but ${family} cannot run it.
 * Return the family that runs it instead. */
static int next_best_half(const struct ar_ask *ask, int family)
{
    static const int order[] = {AR_PULL, AR_CHUNKED, AR_ONE_LAMPORT, AR_ONE_LL128};
    const bool lengthy = ar_is_bulk(family) || ar_part_bytes(ask) > 64 * KiB;
    /* the start-up probe ran, and found that loads from peers return wrong bytes */
    const bool no_loads = ask->probe.push != 0 && ask->probe.pull == 0;

    for (size_t i = no_loads ? 1 : 0; i < sizeof order / sizeof order[0]; i++)
        if ((lengthy || !ar_is_bulk(order[i])) && ar_capacity(ask, order[i]) != 0)
            return order[i];
    return AR_ONE_LL8;
}

/* Return how many blocks would get at least one word (bulk families: one tile) of ${bytes}. */
static uint64_t useful_ctas(const struct ar_ask *ask, int family, uint64_t bytes, int threads)
{
    const struct ar_family_row *f = &ar_families[family];
    uint64_t per = (uint64_t)threads;
    uint64_t message = bytes / (uint64_t)ar_coll_parts(ask->coll, ask->ranks);

    if (ask->coll == AR_ALL_REDUCE && f->shots == 2)
        message = ar_shard_stride(f->form, bytes, ask->ranks);
    return ar_is_bulk(family) ? ar_div_up(message, per * AR_WORD * AR_PULL_UNROLL)
                              : ar_div_up(ar_words(f->form, message), per);
}

/* Return whether the call needs one of the two slower reducers (kernels/shared/dtypes.h). A reducer
 * is the code that adds up. An all-gather needs no reducer: it copies all types in the same way. */
static bool is_generic(const struct ar_ask *ask)
{
    return ask->coll != AR_ALL_GATHER &&
           ar_reducer_of(ask->dtype, ask->op) % AR_R_PREMUL > AR_R_BF16;
}

/* Return the largest number of threads per block that the launch bounds of the kernels allow. Most
 * kernels need so many registers that a block can have only 512 threads. */
static int max_threads(const struct ar_ask *ask, int family)
{
    const struct ar_family_row *f = &ar_families[family];

    if (f->movers != 0)
        return AR_TMA_THREADS;
    if (ask->op == AR_PREMUL)
        return 512;
    if (ask->coll != AR_ALL_REDUCE)
        return f->many_threads && ask->ranks == 2 && !is_generic(ask) ? 1024 : 512;
    return f->many_threads && (ask->ranks == 2 || (ask->ranks == 4 && f->shots == 1)) &&
                   ar_reducer_of(ask->dtype, ask->op) != AR_R_WIDE
               ? 1024
               : 512;
}

/* Return whether the table may name ${family}. In a local group, which has no communicator, it
 * names neither NCCL nor a kernel that uses copy engines (rows.c says why). */
static bool may_name(const struct ar_ask *ask, int family)
{
    const struct ar_family_row *f = &ar_families[family];

    return ask->has_nccl || (family != AR_NCCL && ((f->needs | f->gather) & AR_NEEDS_COPY) == 0);
}

/* Return whether ${row} can apply to calls of the group in ${ask}: it is for the group's links and
 * number of ranks, and the table may name its family. */
static bool row_is_for(const struct ar_row *row, const struct ar_ask *ask)
{
    return row->links == ask->links && ask->ranks >= row->min_ranks &&
           ask->ranks <= row->max_ranks && may_name(ask, row->family);
}

static uint64_t max_ctas(int family)
{
    return ar_families[family].max_ctas != 0 ? (uint64_t)ar_families[family].max_ctas : AR_MAX_CTAS;
}

/* Return which conditions of enum ar_row_need the call meets, except BY_TMA and BY_IPC. */
static unsigned needs_met(const struct ar_ask *ask)
{
    const bool gathers = ask->coll == AR_ALL_GATHER, scatters = ask->coll == AR_REDUCE_SCATTER;
    const struct {
        unsigned need;
        bool met;
    } checks[] = {
        {UNMAPPED, scatters ? !ask->src_mapped : !ask->dst_mapped},
        {SUMS, gathers || !is_generic(ask)},
        {GENERIC, gathers || is_generic(ask)},
        {GATHERS, gathers},
        {SCATTERS, scatters},
        {MULTICAST, ask->has_multicast},
        {POINT_TO_POINT, !ask->has_multicast},
        {BESIDE, ask->beside != AR_BESIDE_NOTHING},
        {LENGTHY, ask->bytes > ST_BESIDE_LIMIT},
    };
    unsigned met = 0;

    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        met |= checks[i].met ? checks[i].need : 0;
    return met;
}

/* Return whether the call meets those of the conditions BY_TMA and BY_IPC that ${row} has. To check
 * these two takes longer than to check the others, so find_row() does it last, and never for short
 * calls. */
static bool by_kernel(const struct ar_ask *ask, const struct ar_row *row)
{
    return ((row->needs & BY_TMA) == 0 || ar_capacity(ask, AR_TMA) != 0) &&
           ((row->needs & BY_IPC) == 0 ||
            (!ask->src_mapped && !ask->dst_mapped && ar_capacity(ask, AR_TMA_IPC) != 0));
}

static const struct ar_row *find_row(const struct ar_ask *ask)
{
    const bool half = ask->coll != AR_ALL_REDUCE;
    const unsigned met = needs_met(ask) | BY_TMA | BY_IPC;
    const struct ar_row *rows = half ? ar_rows_of_halves : ar_rows;
    const size_t count = half ? ar_rows_of_halves_count : ar_rows_count;

    for (size_t i = 0; i < count; i++)
        if (row_is_for(&rows[i], ask) && ar_part_bytes(ask) <= rows[i].max_bytes &&
            (rows[i].needs & ~met) == 0 && by_kernel(ask, &rows[i]))
            return &rows[i];
    return &one_rank;
}

/* Return the family that the start-up probe suggests instead of ${family}, or else ${family}. The
 * probe matters only on PCIe, and only for messages of 64 KiB or more: the time of a shorter
 * message depends little on the rates of the links. */
static int after_probe(const struct ar_ask *ask, int family)
{
    unsigned can = 0;

    if (ask->coll != AR_ALL_REDUCE || ask->links != AR_LINKS_PCIE || ask->bytes < 64 * KiB)
        return family; /* the probe's figures predict the time of all-reduces only */
    for (int f = 0; f < AR_FAMILIES; f++)
        can |= ar_is_bulk(f) && may_name(ask, f) && ar_capacity(ask, f) != 0 ? 1u << f : 0;
    return ar_probe_choose(&ask->probe, family, can, ask->ranks, ask->bytes);
}

/* Round ${threads} down to whole warps. The result is at most the number that the kernel allows,
 * and at least enough for the warps that move data and one warp that adds up. */
static int bounded(const struct ar_ask *ask, int family, int threads)
{
    const int most = max_threads(ask, family), least = 32 * (ar_families[family].movers + 1);

    threads = threads > most ? most : threads;
    return threads < least ? least : threads / 32 * 32;
}

int ar_select(const struct ar_ask *ask, const struct ar_force *force, struct ar_choice *choice)
{
    const struct ar_row *row = find_row(ask);
    int family = row->family, probed;
    uint64_t capacity, ctas;

    memset(choice, 0, sizeof *choice);
    choice->threads = row->threads;
    choice->lag = row->lag;
    choice->source = row->source;
    choice->wanted = row->family;
    ctas = (uint64_t)row->ctas;
    if (force->family >= 0) {
        family = choice->wanted = force->family;
        choice->because = ar_capacity(ask, family) != 0 ? AR_FORCED : AR_CANNOT_RUN;
        if (choice->because == AR_CANNOT_RUN)
            return -1;
    } else if (ar_capacity(ask, family) == 0) {
        family = ask->coll == AR_ALL_REDUCE ? next_best(ask, family) : next_best_half(ask, family);
    }
    probed = force->family < 0 ? after_probe(ask, family) : family;
    if (probed != family) {
        choice->because = AR_PROBE_SAYS;
        family = probed;
        choice->threads = 512;
        choice->lag = 1;
        ctas = 16;
    }
    choice->family = family;
    if (family != row->family && ar_families[family].ctas != 0) {
        choice->threads = ar_families[family].movers != 0 ? AR_TMA_THREADS : 32;
        ctas = (uint64_t)ar_families[family].ctas;
    }
    if (family == AR_NCCL) {
        choice->pieces = 1;
        choice->piece = ask->bytes;
        choice->ctas = choice->threads = 0;
        return 0;
    }
    capacity = ar_capacity(ask, family);
    choice->piece = ask->bytes < capacity ? ask->bytes : capacity;
    if (ar_families[family].rest != 0 && choice->piece > AR_WORD)
        choice->piece -= choice->piece % AR_WORD; /* the bytes left over are in the last piece */
    choice->pieces = ask->bytes == 0 ? 0 : (int)ar_div_up(ask->bytes, choice->piece);
    if (force->threads > 0)
        choice->threads = force->threads;
    choice->threads = bounded(ask, family, choice->threads);
    if (force->ctas > 0)
        ctas = (uint64_t)force->ctas;
    if ((force->ctas <= 0 || force->at_most) &&
        ctas > useful_ctas(ask, family, choice->piece, choice->threads))
        ctas = useful_ctas(ask, family, choice->piece, choice->threads);
    if (ctas > (uint64_t)ask->max_ctas) {
        if (force->threads <= 0) /* fewer blocks need more threads each, as SWEEP (rows.c) showed */
            choice->threads = (int)((uint64_t)choice->threads * ctas / (uint64_t)ask->max_ctas);
        if (force->threads <= 0)
            choice->threads = bounded(ask, family, choice->threads);
        ctas = (uint64_t)ask->max_ctas;
    }
    if (ctas > max_ctas(family))
        ctas = max_ctas(family);
    choice->ctas = ctas < 1 ? 1 : (int)ctas;
    return 0;
}

void ar_select_why(const struct ar_ask *ask, const struct ar_choice *choice, char *why, size_t size)
{
    const char *wanted = ar_family_name(choice->wanted), *runs = ar_family_name(choice->family),
               *beside = st_beside_words.word[ask->beside];

    if (choice->because == AR_CANNOT_RUN)
        snprintf(why, size, "kernel %s cannot run this call (data type, op, registration or links)",
                 wanted);
    else if (choice->because == AR_FORCED)
        snprintf(why, size, "forced: %s", runs);
    else if (choice->because == AR_PROBE_SAYS)
        snprintf(why, size, "start-up probe: MB/s push %u, pull %u, copy %u; the table says %s",
                 ask->probe.push, ask->probe.pull, ask->probe.copy, wanted);
    else if (choice->wanted != choice->family)
        snprintf(why, size, "table: %s, which cannot run this call; %s (%s; beside: %s)", wanted,
                 runs, choice->source, beside);
    else
        snprintf(why, size, "table: %s (%s; beside: %s)", runs, choice->source, beside);
}

const char *ar_order_note(int family)
{
    const char *note = ar_families[family].order;

    return note != NULL ? note : "";
}

/* Return the conditions of enum ar_row_need that no call of this group can meet. */
static unsigned needs_unmet(const struct ar_ask *ask)
{
    return (ask->beside == AR_BESIDE_NOTHING ? BESIDE : 0) | (ask->has_tma ? 0 : BY_TMA) |
           (ask->has_ipc ? 0 : BY_IPC) | (ask->has_multicast ? POINT_TO_POINT : MULTICAST);
}

/* Write into ${text} which calls the row is for. ${half} is 1 for a row of ar_rows_of_halves. */
static void print_needs(const struct ar_row *row, int half, char *text, size_t length)
{
    static const struct {
        unsigned need;
        const char *text[2]; /* [half]; NULL: nothing to say */
    } notes[] = {
        {GATHERS, {NULL, "all-gather"}},
        {SCATTERS, {NULL, "reduce-scatter"}},
        {SUMS, {"sum or avg of f32, f16 or bf16", NULL}},
        {GENERIC, {"other types and operators", "all-gather, and other types and operators"}},
        {UNMAPPED, {"recv not registered", "not registered"}},
        {BY_TMA, {"registered", "registered"}},
        {BY_IPC, {"not registered", "not registered"}},
        {LENGTHY, {"longer than 4096 KiB", "all parts together longer than 4096 KiB"}},
        {BESIDE, {"unless alone", "unless alone"}},
    };
    size_t at = 0;

    _Static_assert(ST_BESIDE_LIMIT == 4096 * KiB, "the texts name the limit");
    *text = 0;
    for (size_t i = 0; i < sizeof notes / sizeof notes[0] && at < length; i++)
        if ((row->needs & notes[i].need) != 0 && notes[i].text[half] != NULL)
            at += (size_t)snprintf(text + at, length - at, ", %s", notes[i].text[half]);
}

size_t ar_select_print(const struct ar_ask *ask, char *text, size_t length)
{
    static const char head[] = "reduce-scatter and all-gather, by the bytes of one part:\n";
    bool all[2] = {false, false}; /* [half]: has a row been printed that fits every call? */
    size_t need = 0;

    for (size_t i = 0; i < ar_rows_count + ar_rows_of_halves_count; i++) {
        const bool half = i >= ar_rows_count;
        const struct ar_row *r = half ? &ar_rows_of_halves[i - ar_rows_count] : &ar_rows[i];
        char line[320], sizes[32] = "to any size", needs[160];
        int n;

        if (i == ar_rows_count && need + sizeof head <= length)
            memcpy(text + need, head, sizeof head);
        need += i == ar_rows_count ? sizeof head - 1 : 0;
        if (all[half] || !row_is_for(r, ask) || (r->needs & needs_unmet(ask)) != 0)
            continue;
        all[half] = r->needs == ANY && r->max_bytes == UINT64_MAX;
        if (r->max_bytes != UINT64_MAX)
            snprintf(sizes, sizeof sizes, "to %llu KiB", (unsigned long long)(r->max_bytes / KiB));
        print_needs(r, half, needs, sizeof needs);
        n = snprintf(line, sizeof line, "  %-13s %-12s at most %3d blocks of %4d%s  (%s)\n", sizes,
                     ar_family_name(r->family), r->ctas, r->threads, needs, r->source);
        if (need + (size_t)n < length)
            memcpy(text + need, line, (size_t)n + 1);
        need += (size_t)n;
    }
    return need;
}
