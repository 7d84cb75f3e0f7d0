/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ST_VERDICT_WORD(id, word) word,
const char *const st_verdict_word[ST_VERDICTS] = {ST_VERDICT_MAP(ST_VERDICT_WORD)};

enum { ANY = -1, NOTHING = -1 };

/* A decision takes about 300 instructions. To keep it short, only functions of the most frequent
 * path are inlined. */
#define INLINE   inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

/* Where general and symmetric kernels compete by price (predicted time), we change prices by this
 * factor. To favour symmetric kernels, we multiply every entry by the factor, so the entries keep
 * their order. To favour one entry, we set it to the least price of the table divided by the
 * factor. The value is a choice, not the result of a measurement. */
static const float mixed_factor = 8.0f;

/* The price of an entry is its value in the cost table. We compare the bits of prices as unsigned
 * integers, which takes half as long as comparing floats. For floats >= 0 the order is the same.
 * NCCL never chooses a dead entry (negative, NaN, infinite or FLT_MAX). The bits of dead entries
 * are larger than the bits of all live entries. -0.0 counts as negative; NCCL writes no -0.0. */
static const uint32_t dead = 0x7f7fffff; /* the bits of FLT_MAX; a live entry has smaller bits */

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

/* The bits of four entries, in a vector register of a size that every CPU has. */
typedef int32_t four __attribute__((vector_size(16)));

/* Load four entries. Vector comparisons are signed, so flip the sign bits: then the comparisons
 * order the bits as unsigned values. */
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

/* Return the bits of the least price. If the table has no live entry, the result is not below
 * ${dead}. The tree of comparisons is as flat as possible, because every decision waits for the
 * result. */
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

/* cheapest() below calls this if ${algo}, ${proto} or both are ANY, and returns its result. */
static NOINLINE int search(struct st_table table, int algo, int proto)
{
    int first = (algo == ANY ? 0 : algo * table.protos) + (proto == ANY ? 0 : proto);
    int end = algo == ANY ? cells_of(table) : (algo + 1) * table.protos;
    int step = proto == ANY ? 1 : table.protos;
    uint32_t best = dead;
    int cell = NOTHING;

    for (int i = first; i < end; i += step) {
        uint32_t bits = bits_of(table.cost[i]);

        cell = bits < best ? i : cell;
        best = least_of(best, bits);
    }
    return cell;
}

/* Return the index of the cheapest live entry for an algorithm and a protocol. Each of the two may
 * be ANY. Returns NOTHING if there is no such entry. */
static INLINE int cheapest(struct st_table table, int algo, int proto)
{
    int cell = algo * table.protos + proto;

    if (algo >= table.algos || proto >= table.protos)
        return NOTHING;
    if (algo == ANY || proto == ANY)
        return search(table, algo, proto);
    return live(table.cost[cell]) ? cell : NOTHING;
}

static const uint32_t twice = 1u << 23; /* added to a float's bits, it doubles the float */

static inline four four_from(uint32_t bits)
{
    return (four){(int32_t)bits, (int32_t)bits, (int32_t)bits, (int32_t)bits};
}

/* Set every entry whose bits, as an unsigned integer, are at most ${own} to ${raised}. Dead entries
 * do not change: their bits are greater. */
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

/* Make NCCL choose the live entry ${cell}. The entry keeps its price p, because
 * ncclGroupSimulateEnd reports it. All other entries that are not above p are set to 2 p. But if p
 * is ${limit} or above, NCCL would never choose ${cell}, so ${cell} is first set to half of
 * ${limit}. */
static INLINE void make_cheapest(struct st_table table, float limit, int cell)
{
    const uint32_t picosecond = bits_of(1e-6f), infinite = bits_of(INFINITY);
    uint32_t own = bits_of(table.cost[cell]), raised;

    if (__builtin_expect(own >= bits_of(limit), 0))
        own = bits_of(limit) - twice;
    raised = least_of(own + twice, infinite); /* twice a large price could overflow */
    raised = raised < picosecond ? picosecond : raised;
    raise_rivals(table, own, raised);
    table.cost[cell] = cost_of(own);
}

/* Make NCCL choose entry ${cell} where symmetric kernels compete with it. The prices of symmetric
 * kernels are not in the table and cannot be raised, so the entry gets an eighth of the least price
 * in the table. Prices below a picosecond are first raised to a picosecond. Otherwise the least
 * price could be 0, and an eighth of it would not be less. */
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

/* Is entry ${cell} in ${mask}? The bit of an entry is always algo * 3 + proto. The index of the
 * entry is the same number only in a table of the usual shape. */
static bool masked(struct st_table table, uint32_t mask, int cell)
{
    int algo = cell / table.protos, proto = cell % table.protos;

    return algo < SYMTUNER_ALGOS && proto < SYMTUNER_PROTOS &&
           mask >> (algo * SYMTUNER_PROTOS + proto) & 1;
}

/* Forbid the entries of ${mask}, but only if NCCL can still choose another entry, one whose price
 * is below ${limit}. Returns whether an entry changed. */
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

/* Favour symmetric kernels, where the table has an influence on them. From 2.29 on, NCCL may drop
 * an LL symmetric kernel that it has picked if the cheapest entry of the table is not LL. So we
 * make an LL entry the cheapest: in 2.29 and 2.30 for every call, from 2.31 on for probes
 * (st_is_probe). From 2.31 on, with ${mixed}, we raise all prices in the tables of calls. In all
 * other cases the table has no influence. */
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

/* Apply the keys forbid and channels of a rule. */
static NOINLINE enum st_verdict
limit(const struct st_era *era, const struct st_action *action, int coll, struct st_table table,
      int *channels)
{
    bool limited = action->forbid && forbid(table, era->table_limit, action->forbid);

    /* Before 2.31 our channel count replaces NCCL's. From 2.29 on Broadcasts of several roots
     * arrive as one AllGather. NCCL does not limit our count for that AllGather, so a count above
     * the communicator's number of channels would use channels that do not exist. So in 2.29 and
     * 2.30 AllGather keeps NCCL's count. */
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
        /* In a probe NCCL asks only whether LL would be the cheapest. */
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
    /* NCCL's table has had this shape since 2.27. With a constant shape the compiler saves a third
     * of the instructions. */
    if (table.algos == SYMTUNER_ALGOS && table.protos == SYMTUNER_PROTOS)
        return steer(era, action, coll, pipe_ops, mixed,
                     (struct st_table){table.cost, SYMTUNER_ALGOS, SYMTUNER_PROTOS}, channels);
    return steer(era, action, coll, pipe_ops, mixed, table, channels);
}
