/* SPDX-License-Identifier: Apache-2.0 */
/* check_steer.c - checks what the plugin writes into a cost table in each release, and what it
 * never writes. */
#include <stdio.h>
#include <string.h>

#include "plugin/steer.h"
#include "test/suites.h"
#include "test/tables.h"

static const int releases[] = {22703, 22707, 22803, 22809, 22902, 22903, 22907, 23003,
                               23007, 23102, 23203, 23206, 23300};
enum { RELEASES = sizeof releases / sizeof *releases, TABLES = 1000000 };

static struct st_action random_action(struct t_random *random)
{
    struct st_action action = {.prefer = (enum symtuner_prefer)t_below(random, 3),
                               .algo = t_below(random, T_ALGOS + 1) - 1,
                               .proto = t_below(random, T_PROTOS + 1) - 1};

    if (t_below(random, 2))
        action.forbid = (uint32_t)t_next(random) & 0x1fffff & (uint32_t)(t_next(random) >> 11);
    if (t_below(random, 4) == 0)
        action.channels = 1 + t_below(random, 64);
    return action;
}

static struct st_call random_call(struct t_random *random)
{
    return (struct st_call){t_below(random, SYMTUNER_COLLS), t_size(random), t_below(random, 3),
                            t_below(random, 2)};
}

/* Return whether this release of NCCL can take an entry with this cost. */
static int selectable(const struct st_era *era, float cost)
{
    return cost >= 0.0f && cost < era->table_limit;
}

static int selectables(const struct st_era *era, const float table[T_CELLS])
{
    int count = 0;

    for (int i = 0; i < T_CELLS; i++)
        count += selectable(era, table[i]);
    return count;
}

START_TEST(test_a_million_random_tables_keep_every_promise)
{
    struct t_random random = {t_seed()};
    long rounds = t_rounds(TABLES), changed = 0;

    for (long n = 0; n < rounds; n++) {
        const struct st_era *era = st_era_of(releases[t_below(&random, RELEASES)]);
        struct st_action action = random_action(&random);
        struct st_call call = random_call(&random);
        bool mixed = t_below(&random, 4) == 0;
        int channels = t_below(&random, 2) * 24, before_channels = channels;
        float table[T_CELLS], before[T_CELLS];
        const char *wrong = NULL;
        enum st_verdict verdict;

        t_table(&random, table);
        memcpy(before, table, sizeof table);
        verdict = st_steer(era, &action, call.coll, call.pipe_ops, mixed,
                           (struct st_table){table, T_ALGOS, T_PROTOS}, &channels);
        for (int i = 0; i < T_CELLS; i++) {
            if (memcmp(&table[i], &before[i], sizeof table[i]) == 0)
                continue;
            changed++;
            if (!(before[i] >= 0.0f))
                wrong = "a dead entry was written";
            if (!(table[i] > 0.0f))
                wrong = "zero, a negative number or NaN was written";
        }
        if (selectables(era, table) == 0 && selectables(era, before) > 0)
            wrong = "nothing is left to choose";
        if (channels != before_channels &&
            (channels != action.channels || channels < 1 || channels > 64))
            wrong = "a channel count that no rule asked for";
        if ((unsigned)verdict >= ST_VERDICTS)
            wrong = "no verdict";
        if (action.prefer == SYMTUNER_LEAVE && !action.forbid && !action.channels &&
            (memcmp(table, before, sizeof table) != 0 || verdict != ST_VERDICT_UNTOUCHED))
            wrong = "\"leave\" left something else";
        if (wrong)
            ck_abort_msg("seed 0x%llx round %ld, NCCL %s: %s", (unsigned long long)t_seed(), n,
                         era->name, wrong);
    }
    ck_assert_msg(changed > rounds, "the generator is lopsided: %ld entries changed", changed);
}
END_TEST

START_TEST(test_a_preferred_entry_is_what_nccl_then_takes)
{
    struct t_random random = {t_seed()};
    long taken = 0, rounds = t_rounds(TABLES);

    for (long n = 0; n < rounds; n++) {
        const struct st_era *era = st_era_of(releases[t_below(&random, RELEASES)]);
        struct st_action action = {.prefer = SYMTUNER_GENERAL,
                                   .algo = t_below(&random, T_ALGOS + 1) - 1,
                                   .proto = t_below(&random, T_PROTOS + 1) - 1};
        int channels = 0, algo = -1, proto = -1, cell;
        float table[T_CELLS], shown[T_CELLS];

        t_table(&random, table);
        for (int i = 0; i < T_CELLS; i++)
            /* This turns -0.0 into 0.0. NCCL writes no -0.0, and the plugin takes -0.0 for
             * unavailable. */
            table[i] += 0.0f;
        memcpy(shown, table, sizeof table);
        if (st_steer(era, &action, SYMTUNER_ALLREDUCE, 1, false,
                     (struct st_table){table, T_ALGOS, T_PROTOS}, &channels) != ST_VERDICT_GENERAL)
            continue;
        taken++;
        if (!st_table_pick(era, table, shown, T_ALGOS, T_PROTOS, &algo, &proto) ||
            (action.algo >= 0 && action.algo != algo) ||
            (action.proto >= 0 && action.proto != proto))
            ck_abort_msg("seed 0x%llx round %ld, NCCL %s: wanted %d/%d, NCCL takes %d/%d",
                         (unsigned long long)t_seed(), n, era->name, action.algo, action.proto,
                         algo, proto);
        /* ncclGroupSimulateEnd reports the entry's price. So the price must still be NCCL's own,
         * except when NCCL could not have taken the entry at that price. */
        cell = algo * T_PROTOS + proto;
        if (selectable(era, shown[cell]) && table[cell] != shown[cell])
            ck_abort_msg("seed 0x%llx round %ld, NCCL %s: the price %g became %g",
                         (unsigned long long)t_seed(), n, era->name, (double)shown[cell],
                         (double)table[cell]);
    }
    ck_assert_int_gt(taken, rounds / 10);
}
END_TEST

START_TEST(test_tables_of_other_shapes_are_never_overrun)
{
    static const int shape[][2] = {{0, 0}, {1, 1}, {7, 1}, {1, 3}, {9, 4}, {0, 3}, {7, 0}};
    struct t_random random = {t_seed()};
    struct {
        float cell[36], fence[8];
    } table;

    for (long n = 0; n < t_rounds(100000); n++) {
        const int *s = shape[t_below(&random, 7)];
        struct st_action action = random_action(&random);
        struct st_call call = random_call(&random);
        int channels = 0;

        for (int i = 0; i < 36; i++)
            table.cell[i] = t_cost(&random);
        for (int i = 0; i < 8; i++)
            table.fence[i] = 5.0f;
        st_steer(st_era_of(releases[t_below(&random, RELEASES)]), &action, call.coll,
                 call.pipe_ops, n & 1,
                 (struct st_table){table.cell + 36 - s[0] * s[1], s[0], s[1]}, &channels);
        for (int i = 0; i < 8; i++)
            if (table.fence[i] != 5.0f)
                ck_abort_msg("shape %dx%d: written past the end", s[0], s[1]);
    }
}
END_TEST

/* ---- one row per case ----------------------------------------------------------------------- */

/* TABLE initialises a cost table. Its arguments are the prices of tree with LL, LL128 and Simple,
 * of ring with LL, LL128 and Simple, and of nvls with Simple. The other entries are not
 * available. */
#define DEAD -1.0f, -1.0f, -1.0f
#define TABLE(t0, t1, t2, r0, r1, r2, n2)                                                          \
    {t0, t1, t2, r0, r1, r2, DEAD, DEAD, -1.0f, -1.0f, n2, DEAD, DEAD}
#define PLAIN TABLE(8, 9, 10, 6, 7, 12, 5)

static const struct row {
    const char *what;
    int nccl;
    struct st_action action;
    int pipe_ops, mixed, coll;
    float table[T_CELLS], want[T_CELLS];
    int channels; /* number of channels after the call; it is 0 before the call */
    enum st_verdict verdict;
} rows[] = {
    {"ring/ll keeps its price, and the cheaper ones get twice that", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 6, 7, 12, 12), 0, ST_VERDICT_GENERAL},
    {"what is the cheapest already stays", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_NVLS, .proto = -1},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 0, ST_VERDICT_GENERAL},
    {"any protocol: the cheapest of the algorithm", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_TREE, .proto = -1},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 16, 16, 12, 16), 0, ST_VERDICT_GENERAL},
    {"an entry that is not there is not made", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_NVLS, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 0, ST_VERDICT_UNAVAILABLE},
    {"any algorithm: the cheapest of the protocol", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = -1, .proto = SYMTUNER_SIMPLE},
     1, 0, SYMTUNER_ALLREDUCE, TABLE(8, 9, 10, 6, 7, 12, -1), TABLE(20, 20, 10, 20, 20, 12, -1), 0,
     ST_VERDICT_GENERAL},
    {"forbid writes infinity", 22809, {.forbid = 1u << (SYMTUNER_NVLS * 3 + SYMTUNER_SIMPLE)},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 6, 7, 12, INFINITY), 0, ST_VERDICT_LIMITED},
    {"forbidding all that is there forbids nothing", 22809, {.forbid = 0x1fffff & ~(1u << 20)},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 0, ST_VERDICT_UNTOUCHED},
    {"channels replace NCCL's count", 22809, {.channels = 16},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 16, ST_VERDICT_LIMITED},
    {"2.29: AllGather keeps its channels", 22907, {.channels = 16},
     1, 0, SYMTUNER_ALLGATHER, PLAIN, PLAIN, 0, ST_VERDICT_UNTOUCHED},
    {"2.31: channels only cap, AllGather too", 23102, {.channels = 16},
     1, 0, SYMTUNER_ALLGATHER, PLAIN, PLAIN, 16, ST_VERDICT_LIMITED},
    {"2.28: symmetric needs nothing from the table", 22809, {.prefer = SYMTUNER_SYMMETRIC},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 0, ST_VERDICT_UNTOUCHED},
    {"2.29.2: an LL entry keeps the symmetric LL kernel", 22902, {.prefer = SYMTUNER_SYMMETRIC},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 6, 7, 12, 12), 0, ST_VERDICT_SYMMETRIC},
    {"2.30: the same", 23003, {.prefer = SYMTUNER_SYMMETRIC},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 6, 7, 12, 12), 0, ST_VERDICT_SYMMETRIC},
    {"2.31: the LL probe", 23102, {.prefer = SYMTUNER_SYMMETRIC},
     0, 0, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 6, 7, 12, 12), 0, ST_VERDICT_SYMMETRIC},
    {"2.31: the real question is left alone", 23102, {.prefer = SYMTUNER_SYMMETRIC},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 0, ST_VERDICT_UNTOUCHED},
    {"2.31 mixed: all entries times eight", 23102, {.prefer = SYMTUNER_SYMMETRIC},
     1, 1, SYMTUNER_ALLREDUCE, PLAIN, TABLE(64, 72, 80, 48, 56, 96, 40), 0, ST_VERDICT_SYMMETRIC},
    {"2.31: a probe obeys nothing else", 23102,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = 0, .forbid = 1, .channels = 4},
     0, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 0, ST_VERDICT_UNTOUCHED},
    {"of equal ones ours alone stays the least", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, TABLE(6, 6, 10, 6, 7, 12, 6), TABLE(12, 12, 10, 6, 7, 12, 12), 0,
     ST_VERDICT_GENERAL},
    {"zeros are raised", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, TABLE(0, 0, 10, 6, 7, 12, 5), TABLE(12, 12, 10, 6, 7, 12, 12), 0,
     ST_VERDICT_GENERAL},
    {"a zero of ours stays, the others get a picosecond", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, TABLE(0, 0, 10, 0, 7, 12, 5), TABLE(1e-6f, 1e-6f, 10, 0, 7, 12, 5),
     0, ST_VERDICT_GENERAL},
    {"2.28: a price that NCCL never takes is lowered", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, TABLE(8, 9, 10, 4e9f, 7, 12, 5),
     TABLE(3.6e9f, 3.6e9f, 3.6e9f, 1.8e9f, 3.6e9f, 3.6e9f, 3.6e9f), 0, ST_VERDICT_GENERAL},
    {"twice the largest price is infinity", 22907,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, TABLE(8, 9, 10, 3e38f, 7, 12, 5),
     TABLE(INFINITY, INFINITY, INFINITY, 3e38f, INFINITY, INFINITY, INFINITY), 0,
     ST_VERDICT_GENERAL},
    {"2.31 mixed: an entry gets an eighth of the least", 23102,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_SIMPLE},
     1, 1, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 6, 7, 0.625f, 5), 0, ST_VERDICT_GENERAL},
    {"2.31 mixed: zeros are raised before", 23102,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_SIMPLE},
     1, 1, SYMTUNER_ALLREDUCE, TABLE(0, 9, 10, 6, 7, 12, 5),
     TABLE(1e-6f, 9, 10, 6, 7, 1.25e-7f, 5), 0, ST_VERDICT_GENERAL},
    {"2.30 knows no competition, whatever the variable says", 23007,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 1, SYMTUNER_ALLREDUCE, PLAIN, TABLE(8, 9, 10, 6, 7, 12, 12), 0, ST_VERDICT_GENERAL},
    {"one live entry only", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_RING, .proto = SYMTUNER_LL},
     1, 0, SYMTUNER_ALLREDUCE, TABLE(-1, -1, -1, 6, -1, -1, -1), TABLE(-1, -1, -1, 6, -1, -1, -1),
     0, ST_VERDICT_GENERAL},
    {"2.28: an entry past NCCL's largest price is no choice left", 22809,
     {.forbid = 1u << (SYMTUNER_RING * 3)}, 1, 0, SYMTUNER_ALLREDUCE,
     TABLE(4e9f, -1, -1, 6, -1, -1, -1), TABLE(4e9f, -1, -1, 6, -1, -1, -1), 0,
     ST_VERDICT_UNTOUCHED},
    {"what was limited stays counted when the entry is not there", 22809,
     {.prefer = SYMTUNER_GENERAL, .algo = SYMTUNER_PAT, .proto = -1, .channels = 4},
     1, 0, SYMTUNER_ALLREDUCE, PLAIN, PLAIN, 4, ST_VERDICT_LIMITED},
};

START_TEST(test_one_action_on_one_release)
{
    const struct row *row = &rows[_i];
    float table[T_CELLS];
    int channels = 0;
    enum st_verdict verdict;

    memcpy(table, row->table, sizeof table);
    verdict = st_steer(st_era_of(row->nccl), &row->action, row->coll, row->pipe_ops,
                       row->mixed, (struct st_table){table, T_ALGOS, T_PROTOS}, &channels);
    for (int i = 0; i < T_CELLS; i++)
        ck_assert_msg(table[i] == row->want[i], "%s: entry %d is %g, not %g", row->what, i,
                      (double)table[i], (double)row->want[i]);
    ck_assert_msg(channels == row->channels, "%s: channels %d", row->what, channels);
    ck_assert_msg(verdict == row->verdict, "%s: verdict %s, not %s", row->what,
                  st_verdict_word[verdict], st_verdict_word[row->verdict]);
}
END_TEST

Suite *steer_suite(void)
{
    Suite *suite = suite_create("steer");
    TCase *promises = tcase_create("promises"), *actions = tcase_create("actions");

    tcase_set_timeout(promises, 120);
    tcase_add_test(promises, test_a_million_random_tables_keep_every_promise);
    tcase_add_test(promises, test_a_preferred_entry_is_what_nccl_then_takes);
    tcase_add_test(promises, test_tables_of_other_shapes_are_never_overrun);
    t_add_rows(actions, test_one_action_on_one_release, rows);
    suite_add_tcase(suite, promises);
    suite_add_tcase(suite, actions);
    return suite;
}
