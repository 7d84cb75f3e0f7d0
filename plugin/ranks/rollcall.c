/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/ranks/rollcall.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/board.h"

/* ---- pure ------------------------------------------------------------------------------------ */

enum st_roll_verdict st_roll_judge(const struct st_roll_entry *entry, int count, int ranks)
{
    if (count != ranks)
        return ST_ROLL_MISSING;
    for (int i = 1; i < count; i++)
        if (entry[i].rules != entry[0].rules)
            return ST_ROLL_DIFFER;
    return ST_ROLL_ALIKE;
}

static bool all_min_equal(const struct st_roll_entry *entry, int count)
{
    for (int i = 1; i < count; i++)
        if (entry[i].min_ctas != entry[0].min_ctas)
            return false;
    return true;
}

/* NCCL reads NCCL_SYM_CTAS once per process, for all communicators of the process. So we give a
 * count only if this communicator is the first one of all its processes. We give the count of rules
 * only if the communicator also has all GPUs of the box: then no other rank on this host can get a
 * different count. */
int st_roll_judge_ctas(const struct st_roll_entry *entry, int count, int ranks)
{
    bool wished = ranks > 0 && entry[0].sym_ctas > 0;

    if (count != ranks)
        return 0;
    for (int i = 0; i < count; i++) {
        if (!entry[i].first || !entry[i].asked)
            return 0;
        wished &= entry[i].sym_ctas == entry[0].sym_ctas && entry[i].gpus == ranks;
    }
    if (wished)
        return entry[0].sym_ctas;
    return all_min_equal(entry, count) ? 0 : ST_ROLL_REPAIR_CTAS;
}

/* ---- shared ---------------------------------------------------------------------------------- */

enum { RANKS_MAX = 4096, NO_CTAS = -1 };

/* The shared object. A new object is all zeros. */
struct board {
    /* Number of ranks that have joined. If it exceeds the number of ranks of the communicator, the
     * ranks of two communicators share this object by mistake. */
    _Atomic uint32_t joined;
    _Atomic uint32_t whole;   /* number of entries that are completely written */
    _Atomic uint32_t verdict; /* enum st_roll_verdict */
    _Atomic int32_t ctas;     /* NCCL_SYM_CTAS; 0: not decided yet; NO_CTAS: NCCL gets no count */
    struct st_roll_entry entry[];
};
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "shared between processes");

struct st_roll {
    struct board *board;
    struct st_board shared;
    int ranks;
};

void st_roll_hide(struct st_roll *roll)
{
    st_board_hide(&roll->shared);
}

struct st_roll *st_roll_join(uint64_t comm_id, int ranks, const struct st_roll_entry *entry)
{
    struct st_roll *roll = ranks <= RANKS_MAX ? calloc(1, sizeof *roll) : NULL;
    char name[64];
    uint32_t own;

    if (!roll)
        return NULL;
    roll->ranks = ranks;
    snprintf(name, sizeof name, "/symtuner-1-%u-%016llx-%d", (unsigned)geteuid(),
             (unsigned long long)comm_id, ranks);
    if (!st_board_join(&roll->shared, name,
                       sizeof *roll->board + (size_t)ranks * sizeof *roll->board->entry)) {
        free(roll);
        return NULL;
    }
    roll->board = roll->shared.at;
    own = atomic_fetch_add(&roll->board->joined, 1);
    if (own < (uint32_t)ranks) {
        roll->board->entry[own] = *entry;
        atomic_fetch_add_explicit(&roll->board->whole, 1, memory_order_release);
    }
    if (own + 1 >= (uint32_t)ranks)
        st_roll_hide(roll);
    return roll;
}

/* Return the number of entries. If the ranks of two communicators share the object, return
 * ${ranks} + 1, which every verdict treats as a failure. */
static int present(const struct st_roll *roll)
{
    if (atomic_load(&roll->board->joined) > (uint32_t)roll->ranks)
        return roll->ranks + 1;
    return (int)atomic_load_explicit(&roll->board->whole, memory_order_acquire);
}

enum st_roll_verdict st_roll_rules(struct st_roll *roll, int *present_out)
{
    int count = present(roll);
    uint32_t verdict = ST_ROLL_OPEN;

    *present_out = count;
    if (atomic_compare_exchange_strong(&roll->board->verdict, &verdict,
                                       st_roll_judge(roll->board->entry, count, roll->ranks)))
        verdict = atomic_load(&roll->board->verdict);
    return (enum st_roll_verdict)verdict;
}

int st_roll_ctas(struct st_roll *roll)
{
    int ctas = st_roll_judge_ctas(roll->board->entry, present(roll), roll->ranks);
    int32_t decided = 0;

    if (atomic_compare_exchange_strong(&roll->board->ctas, &decided, ctas ? ctas : NO_CTAS))
        return ctas;
    return decided == NO_CTAS ? 0 : decided;
}

int st_roll_ctas_given(const struct st_roll *roll)
{
    int32_t decided = atomic_load(&roll->board->ctas);

    return decided > 0 ? decided : 0;
}

bool st_roll_min_differs(const struct st_roll *roll)
{
    return present(roll) == roll->ranks && !all_min_equal(roll->board->entry, roll->ranks);
}

void st_roll_leave(struct st_roll *roll)
{
    if (!roll)
        return;
    st_board_leave(&roll->shared);
    free(roll);
}
