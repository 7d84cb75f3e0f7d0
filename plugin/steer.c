/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer.h"

#include <float.h>
#include <math.h>

#define ST_VERDICT_WORD(id, word) word,
const char *const st_verdict_word[ST_VERDICTS] = {ST_VERDICT_MAP(ST_VERDICT_WORD)};

enum { ANY = -1, NOTHING = -1 };

/* Raising every general entry by this lets a symmetric kernel win a mixed competition and keeps
 * NCCL's own order among the general ones. Its size is a convention, not a measurement. */
static const float mixed_factor = 8.0f;

static bool live(float cost)
{
    return cost >= 0.0f && cost < FLT_MAX; /* not negative, not NaN, not forbidden */
}

bool st_table_live(struct st_table table)
{
    for (int i = 0; i < table.algos * table.protos; i++)
        if (live(table.cost[i]))
            return true;
    return false;
}

/* The cheapest live entry of an algorithm and protocol (or ANY), or NOTHING. */
static int cheapest(struct st_table table, int algo, int proto)
{
    int best = NOTHING;

    for (int i = 0; i < table.algos * table.protos; i++)
        if ((algo == ANY || i / table.protos == algo) &&
            (proto == ANY || i % table.protos == proto) && live(table.cost[i]) &&
            (best == NOTHING || table.cost[i] < table.cost[best]))
            best = i;
    return best;
}

/* Make entry ${cell} cheaper than all others, and cheap enough to be taken at all. Never writes zero:
 * a table that holds zeros already has them raised to a picosecond, above what ${cell} gets. */
static void make_cheapest(struct st_table table, float limit, int cell)
{
    const float picosecond = 1e-6f;
    float least = FLT_MAX;

    for (int i = 0; i < table.algos * table.protos; i++)
        if (i != cell && live(table.cost[i]) && table.cost[i] < least)
            least = table.cost[i];
    if (table.cost[cell] < limit && (least == FLT_MAX || table.cost[cell] < least))
        return;
    for (int i = 0; i < table.algos * table.protos; i++)
        if (i != cell && live(table.cost[i]) && table.cost[i] < picosecond)
            table.cost[i] = picosecond;
    least = least < picosecond ? picosecond : least < limit ? least : limit;
    table.cost[cell] = least * 0.5f;
}

/* Forbid the entries of ${mask}, unless nothing below ${limit} would be left to take. */
static bool forbid(struct st_table table, float limit, uint32_t mask)
{
    bool left = false, changed = false;

    for (int i = 0; i < table.algos * table.protos; i++)
        left |= live(table.cost[i]) && table.cost[i] < limit &&
                !(i % table.protos < SYMTUNER_PROTOS && i / table.protos < SYMTUNER_ALGOS &&
                  mask >> (i / table.protos * SYMTUNER_PROTOS + i % table.protos) & 1);
    for (int i = 0; left && i < table.algos * table.protos; i++)
        if (live(table.cost[i]) && i % table.protos < SYMTUNER_PROTOS &&
            i / table.protos < SYMTUNER_ALGOS &&
            mask >> (i / table.protos * SYMTUNER_PROTOS + i % table.protos) & 1) {
            table.cost[i] = INFINITY;
            changed = true;
        }
    return changed;
}

static enum st_verdict prefer_entry(const struct st_era *era, struct st_table table, int algo,
                                    int proto)
{
    int cell = cheapest(table, algo, proto);

    if (cell == NOTHING)
        return ST_VERDICT_UNAVAILABLE;
    make_cheapest(table, era->table_limit, cell);
    return ST_VERDICT_GENERAL;
}

/* Where NCCL keeps a picked LL symmetric kernel only if the general winner's protocol is LL, the
 * table can save it; elsewhere nothing in the table reaches symmetric kernels. */
static enum st_verdict prefer_symmetric(const struct st_era *era, const struct st_call *call,
                                        bool mixed, struct st_table table)
{
    bool asked = era->ll == ST_LL_ASK_ALWAYS || era->ll == ST_LL_ASK_PARTLY ||
                 st_is_probe(era, call->pipe_ops);

    if (asked) {
        int cell = cheapest(table, ANY, SYMTUNER_LL);

        if (cell == NOTHING)
            return ST_VERDICT_UNAVAILABLE;
        make_cheapest(table, era->table_limit, cell);
        return ST_VERDICT_SYMMETRIC;
    }
    if (era->ll != ST_LL_ASK_VOID || !mixed)
        return ST_VERDICT_LEFT;
    for (int i = 0; i < table.algos * table.protos; i++)
        if (live(table.cost[i]) && table.cost[i] < FLT_MAX / mixed_factor)
            table.cost[i] *= mixed_factor;
    return ST_VERDICT_SYMMETRIC;
}

enum st_verdict st_steer(const struct st_era *era, const struct st_action *action,
                         const struct st_call *call, bool mixed, struct st_table table,
                         int *channels)
{
    enum st_verdict verdict = ST_VERDICT_LEFT, preferred = ST_VERDICT_LEFT;
    bool probe = st_is_probe(era, call->pipe_ops);

    /* A probe asks one thing only: would LL win? */
    if (probe && action->prefer != SYMTUNER_SYMMETRIC)
        return ST_VERDICT_LEFT;
    if (!probe && action->forbid && forbid(table, era->table_limit, action->forbid))
        verdict = ST_VERDICT_LIMITED;
    /* Before 2.31 a count replaces NCCL's. From 2.29 on several roots' broadcasts arrive as one
     * AllGather whose count NCCL does not clamp: a count above the communicator's would touch
     * channels that do not exist, so AllGather keeps NCCL's. */
    if (!probe && action->channels &&
        (era->channels_cap || era->first < 22900 || call->coll != SYMTUNER_ALLGATHER)) {
        *channels = action->channels;
        verdict = ST_VERDICT_LIMITED;
    }
    switch (action->prefer) {
    case SYMTUNER_LEAVE:
        return verdict;
    case SYMTUNER_SYMMETRIC:
        preferred = prefer_symmetric(era, call, mixed, table);
        break;
    case SYMTUNER_GENERAL:
        preferred = prefer_entry(era, table, action->algo, action->proto);
        break;
    case SYMTUNER_REGISTERED: /* LL and LL128 always copy; Simple uses registered buffers */
        preferred = prefer_entry(era, table, ANY, SYMTUNER_SIMPLE);
        break;
    }
    if (verdict == ST_VERDICT_LIMITED &&
        (preferred == ST_VERDICT_LEFT || preferred == ST_VERDICT_UNAVAILABLE))
        return verdict;
    return preferred;
}
