/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ST_VERDICT_WORD(id, word) word,
const char *const st_verdict_word[ST_VERDICTS] = {ST_VERDICT_MAP(ST_VERDICT_WORD)};

enum { ANY = -1, NOTHING = -1 };

/* A decision takes some 300 instructions: what NCCL asks for most is inlined, the rest is not. */
#define INLINE   inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

/* In a mixed competition every general entry is raised by this, so that a symmetric kernel wins and
 * NCCL's own order among the general ones stays; or one of them is lowered by it. Its size is a
 * convention, not a measurement. */
static const float mixed_factor = 8.0f;

/* The bits of floats that are not negative order as the floats do, and a set sign bit makes a dead
 * entry look larger than every live one: integers find the least in half the time. NaN and infinity
 * lie above FLT_MAX. -0.0 counts as negative; NCCL writes none. */
static const uint32_t dead = 0x7f7fffff; /* of FLT_MAX: this and above is not live */

static inline uint32_t bits_of(float cost)
{
    uint32_t bits;

    memcpy(&bits, &cost, sizeof bits);
    return bits;
}

static inline float cost_of(uint32_t bits)
{
    float cost;

    memcpy(&cost, &bits, sizeof cost);
    return cost;
}

static inline bool live(float cost)
{
    return bits_of(cost) < dead;
}

static inline uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int cells_of(struct st_table table)
{
    return table.algos * table.protos;
}

/* Four entries at a time, in registers that every machine has. */
typedef int32_t four __attribute__((vector_size(16)));

/* Flipping the sign makes the order of signed numbers, which is what vector registers compare, that
 * of unsigned ones. */
static inline four four_flipped(const float *cost)
{
    const four flip = {INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN};
    four bits;

    memcpy(&bits, cost, sizeof bits);
    return bits ^ flip;
}

static inline four four_least(four a, four b)
{
    four less = a < b;

    return (a & less) | (b & ~less);
}

/* The least entry as bits; dead or above when none is live. The tree of comparisons is as flat as
 * it can be: a decision waits for it. */
static INLINE uint32_t least(struct st_table table)
{
    enum { USUAL = SYMTUNER_ALGOS * SYMTUNER_PROTOS };
    const float *cost = table.cost;
    uint32_t found = dead;

    _Static_assert(USUAL == 21, "five vectors and one");
    if (cells_of(table) == USUAL) {
        four all = four_least(four_least(four_least(four_flipped(cost), four_flipped(cost + 4)),
                                         four_least(four_flipped(cost + 8),
                                                    four_flipped(cost + 12))),
                              four_flipped(cost + 16));

        int32_t last = (int32_t)(bits_of(cost[20]) ^ 1u << 31);
        int32_t left = all[0] < all[1] ? all[0] : all[1], right = all[2] < all[3] ? all[2] : all[3];

        left = left < last ? left : last;
        return (uint32_t)(left < right ? left : right) ^ 1u << 31;
    }
    for (int i = 0; i < cells_of(table); i++)
        found = least_of(found, bits_of(cost[i]));
    return found;
}

bool st_table_live(struct st_table table)
{
    return least(table) < dead;
}

/* The cheapest live entry of an algorithm or a protocol, or of all (ANY, ANY); NOTHING if none. */
static NOINLINE int search(struct st_table table, int algo, int proto)
{
    int from = algo == ANY ? 0 : algo, to = algo == ANY ? table.algos : algo + 1;
    int first = proto == ANY ? 0 : proto, last = proto == ANY ? table.protos : proto + 1;
    uint32_t best = dead;
    int cell = NOTHING;

    for (int a = from; a < to; a++)
        for (int p = first; p < last; p++) {
            int i = a * table.protos + p;
            uint32_t bits = bits_of(table.cost[i]);

            cell = bits < best ? i : cell;
            best = least_of(best, bits);
        }
    return cell;
}

/* The cheapest live entry of an algorithm and protocol (or ANY), or NOTHING. */
static INLINE int cheapest(struct st_table table, int algo, int proto)
{
    int cell = algo * table.protos + proto;

    if (algo >= table.algos || proto >= table.protos)
        return NOTHING;
    if (algo == ANY || proto == ANY)
        return search(table, algo, proto);
    return live(table.cost[cell]) ? cell : NOTHING;
}

static const uint32_t twice = 1u << 23; /* one more in the exponent */

static inline four four_from(uint32_t bits)
{
    return (four){(int32_t)bits, (int32_t)bits, (int32_t)bits, (int32_t)bits};
}

/* Every entry that is not above ${own} becomes ${raised}. A dead one is above, see there. */
static INLINE void raise_rivals(struct st_table table, uint32_t own, uint32_t raised)
{
    enum { USUAL = SYMTUNER_ALGOS * SYMTUNER_PROTOS };
    const four flip = four_from(1u << 31), flipped = four_from(own) ^ flip, up = four_from(raised);
    int i = 0;

    if (cells_of(table) == USUAL)
        for (; i < USUAL - 1; i += 4) {
            four bits, rival;

            memcpy(&bits, table.cost + i, sizeof bits);
            rival = (bits ^ flip) <= flipped;
            bits = (up & rival) | (bits & ~rival);
            memcpy(table.cost + i, &bits, sizeof bits);
        }
    for (; i < cells_of(table); i++)
        if (bits_of(table.cost[i]) <= own)
            table.cost[i] = cost_of(raised);
}

/* Make live entry ${cell} the one that NCCL takes. It keeps NCCL's own price, which is what
 * ncclGroupSimulateEnd reports: the others that are not dearer get twice its price. Only a price
 * that NCCL would not take at all is lowered. */
static INLINE void make_cheapest(struct st_table table, float limit, int cell)
{
    const uint32_t picosecond = bits_of(1e-6f), infinite = bits_of(INFINITY);
    uint32_t own = bits_of(table.cost[cell]), raised;

    if (__builtin_expect(own >= bits_of(limit), 0))
        own = bits_of(limit) - twice;
    raised = least_of(own + twice, infinite); /* twice the largest is past it */
    raised = raised < picosecond ? picosecond : raised;
    raise_rivals(table, own, raised);
    table.cost[cell] = cost_of(own);
}

/* Where symmetric kernels compete, they are not in the table and cannot be raised: the entry gets an
 * eighth of the least price instead. Zeros are raised to a picosecond, as nothing above zero is
 * below them. */
static NOINLINE void undercut(struct st_table table, float limit, int cell)
{
    const uint32_t picosecond = bits_of(1e-6f);
    uint32_t floor = least(table);

    if (floor < picosecond) {
        for (int i = 0; i < cells_of(table); i++)
            if (bits_of(table.cost[i]) < picosecond)
                table.cost[i] = cost_of(picosecond);
        floor = picosecond;
    }
    table.cost[cell] = cost_of(least_of(floor, bits_of(limit))) / mixed_factor;
}

/* ${mask} of symtuner's numbering (algo * 3 + proto) in the numbering of this table. */
static bool masked(struct st_table table, uint32_t mask, int cell)
{
    int algo = cell / table.protos, proto = cell % table.protos;

    return algo < SYMTUNER_ALGOS && proto < SYMTUNER_PROTOS &&
           mask >> (algo * SYMTUNER_PROTOS + proto) & 1;
}

/* Forbid the entries of ${mask}, unless nothing below ${limit} would be left to take. */
static bool forbid(struct st_table table, float limit, uint32_t mask)
{
    bool left = false, changed = false;

    for (int i = 0; i < cells_of(table); i++)
        left |= live(table.cost[i]) && table.cost[i] < limit && !masked(table, mask, i);
    for (int i = 0; left && i < cells_of(table); i++)
        if (live(table.cost[i]) && masked(table, mask, i)) {
            table.cost[i] = INFINITY;
            changed = true;
        }
    return changed;
}

static INLINE enum st_verdict prefer_entry(const struct st_era *era, struct st_table table,
                                           bool mixed, int algo, int proto)
{
    int cell = cheapest(table, algo, proto);

    if (cell == NOTHING)
        return ST_VERDICT_UNAVAILABLE;
    if (__builtin_expect(mixed && era->ll == ST_LL_ASK_VOID, 0))
        undercut(table, era->table_limit, cell);
    else
        make_cheapest(table, era->table_limit, cell);
    return ST_VERDICT_GENERAL;
}

/* Where NCCL keeps a picked LL symmetric kernel only if the general winner's protocol is LL, the
 * table can save it; elsewhere nothing in the table reaches symmetric kernels. */
static NOINLINE enum st_verdict
prefer_symmetric(const struct st_era *era, int pipe_ops, bool mixed, struct st_table table)
{
    bool asked = era->ll == ST_LL_ASK_ALWAYS || era->ll == ST_LL_ASK_PARTLY ||
                 st_is_probe(era, pipe_ops);

    if (asked) {
        int cell = cheapest(table, ANY, SYMTUNER_LL);

        if (cell == NOTHING)
            return ST_VERDICT_UNAVAILABLE;
        make_cheapest(table, era->table_limit, cell);
        return ST_VERDICT_SYMMETRIC;
    }
    if (era->ll != ST_LL_ASK_VOID || !mixed)
        return ST_VERDICT_UNTOUCHED;
    for (int i = 0; i < cells_of(table); i++)
        if (live(table.cost[i]) && table.cost[i] < FLT_MAX / mixed_factor)
            table.cost[i] *= mixed_factor;
    return ST_VERDICT_SYMMETRIC;
}

/* Forbidden entries and channels. */
static NOINLINE enum st_verdict
limit(const struct st_era *era, const struct st_action *action, int coll, struct st_table table,
      int *channels)
{
    bool limited = action->forbid && forbid(table, era->table_limit, action->forbid);

    /* Before 2.31 a count replaces NCCL's. From 2.29 on several roots' broadcasts arrive as one
     * AllGather whose count NCCL does not clamp: a count above the communicator's would touch
     * channels that do not exist, so AllGather keeps NCCL's. */
    if (action->channels &&
        (era->channels_cap || !era->gather_unclamped || coll != SYMTUNER_ALLGATHER)) {
        *channels = action->channels;
        limited = true;
    }
    return limited ? ST_VERDICT_LIMITED : ST_VERDICT_UNTOUCHED;
}

static INLINE enum st_verdict steer(const struct st_era *era, const struct st_action *action,
                                    int coll, int pipe_ops, bool mixed, struct st_table table,
                                    int *channels)
{
    enum st_verdict verdict = ST_VERDICT_UNTOUCHED, preferred = ST_VERDICT_UNTOUCHED;

    if (st_is_probe(era, pipe_ops)) {
        /* asks one thing only: would LL win? */
        if (action->prefer != SYMTUNER_SYMMETRIC)
            return ST_VERDICT_UNTOUCHED;
    } else if (__builtin_expect(action->forbid | (uint32_t)action->channels, 0)) {
        verdict = limit(era, action, coll, table, channels);
    }
    switch (action->prefer) {
    case SYMTUNER_LEAVE:
        return verdict;
    case SYMTUNER_SYMMETRIC:
        preferred = prefer_symmetric(era, pipe_ops, mixed, table);
        break;
    case SYMTUNER_GENERAL:
        preferred = prefer_entry(era, table, mixed, action->algo, action->proto);
        break;
    }
    if (verdict == ST_VERDICT_LIMITED &&
        (preferred == ST_VERDICT_UNTOUCHED || preferred == ST_VERDICT_UNAVAILABLE))
        return verdict;
    return preferred;
}

enum st_verdict st_steer(const struct st_era *era, const struct st_action *action, int coll,
                         int pipe_ops, bool mixed, struct st_table table, int *channels)
{
    /* NCCL's shape since 2.27, known to the compiler: a third less to run */
    if (table.algos == SYMTUNER_ALGOS && table.protos == SYMTUNER_PROTOS)
        return steer(era, action, coll, pipe_ops, mixed,
                     (struct st_table){table.cost, SYMTUNER_ALGOS, SYMTUNER_PROTOS}, channels);
    return steer(era, action, coll, pipe_ops, mixed, table, channels);
}
