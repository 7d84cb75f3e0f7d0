/* SPDX-License-Identifier: Apache-2.0 */
/* check_select.c - checks that the selection table chooses a kernel for every call (struct ar_ask,
 * called a question here), always the same one, and only kernels that can run the call. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/names.h"
#include "test/kernels/choose/ask.h"
#include "test/kernels/scratch_bytes.h"
#include "test/kernels/suites.h"

/* Without NCCL, every question gets one of our kernels. Its pieces cover the message, fit into the
 * scratch memory, and end on whole units of 8 bytes. */
START_TEST(test_every_call_gets_a_kernel_that_can_run_it)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (int links = 0; links < AR_LINKS; links++)
            for (int dtype = 0; dtype < AR_DTYPES; dtype++)
                for (int op = 0; op < AR_OPS; op++)
                    for (uint64_t bytes = 8; bytes < 1ull << 36; bytes = bytes * 3 + 8)
                        for (int mapped = 0; mapped < 2; mapped++) {
                            struct ar_ask ask = ask_for(ranks, links, bytes, dtype, op);
                            struct ar_choice c;
                            uint64_t room;

                            ask.dst_mapped = ask.src_mapped = mapped;
                            must(ar_select(&ask, &free_choice, &c) == 0);
                            room = ar_capacity(&ask, c.family);
                            if (c.family == AR_NCCL || room == 0 || c.piece > room)
                                ck_abort_msg("ranks %d links %d dtype %d op %d bytes %llu: %s",
                                             ranks, links, dtype, op, (unsigned long long)bytes,
                                             ar_family_name(c.family));
                            must((uint64_t)c.pieces * c.piece >= bytes);
                            must(c.pieces == 1 || c.piece % AR_UNIT == 0);
                            must(c.ctas >= 1 && c.ctas <= ask.max_ctas);
                            must(c.threads >= 32 && c.threads <= 1024 && c.threads % 32 == 0);
                            must(links == AR_LINKS_NVLINK ||
                                 (c.family != AR_ONE_LL128 && c.family != AR_TWO_LL128));
                        }
}
END_TEST

START_TEST(test_pieces_fit_their_scratch)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (int family = AR_ONE_LL8; family <= AR_CHUNKED; family++)
            for (int mapped = 0; mapped < 2; mapped++) {
                struct ar_ask ask = ask_for(ranks, AR_LINKS_NVLINK, 1 << 20, AR_BF16, AR_SUM);
                uint64_t room, need = 0, half = 0;

                ask.dst_mapped = mapped;
                room = ar_capacity(&ask, family);
                ck_assert(room != 0);
                switch (family) {
                case AR_ONE_LL8:
                case AR_ONE_LL128:
                case AR_ONE_LAMPORT:
                    half = ask.half[family - AR_ONE_LL8];
                    need = oneshot_scratch(family - AR_ONE_LL8, room, ranks);
                    break;
                case AR_CHUNKED:
                    half = ask.half[mapped ? AR_REGION_BULK : AR_REGION_GATHER];
                    need = bulk_scratch(room, ranks);
                    break;
                default:
                    half = ask.half[family - AR_TWO_LL8];
                    need = twoshot_scratch(family - AR_TWO_LL8, room, ranks);
                }
                ck_assert_msg(need <= half, "%s, %d ranks: %llu bytes need %llu of %llu",
                              ar_family_name(family), ranks, (unsigned long long)room,
                              (unsigned long long)need, (unsigned long long)half);
                ck_assert_msg(need > half - half / 8, "%s, %d ranks: wastes scratch",
                              ar_family_name(family), ranks);
            }
}
END_TEST

/* Ranks must choose alike, although each rank has asked other questions before and has other
 * garbage in its struct ar_choice. So an answer must not depend on the order of the questions. */
START_TEST(test_the_answer_knows_nothing_of_earlier_questions)
{
    enum {
        QUESTIONS = 1021,
        STEP = 389
    }; /* QUESTIONS is prime, so that the steps reach every
                                              question */
    static struct ar_ask ask[QUESTIONS];
    static struct ar_choice first[QUESTIONS];
    static const int links[] = {AR_LINKS_NVLINK, AR_LINKS_PCIE, AR_LINKS_HOST};

    for (int i = 0; i < QUESTIONS; i++) {
        ask[i] = ask_for(2 + i % (AR_MAX_RANKS - 1), links[i / 7 % 3], 8 + (1ull << i % 37) * 3,
                         i % AR_DTYPES, i / 3 % AR_OPS);
        ask[i].dst_mapped = i / 2 % 2;
        ask[i].has_nccl = i / 5 % 2;
        ck_assert_int_eq(ar_select(&ask[i], &free_choice, &first[i]), 0);
    }
    for (int k = 0; k < QUESTIONS; k++) {
        int i = k * STEP % QUESTIONS;
        struct ar_choice again;

        memset(&again, 0xee, sizeof again);
        ck_assert_int_eq(ar_select(&ask[i], &free_choice, &again), 0);
        ck_assert_msg(memcmp(&first[i], &again, sizeof again) == 0,
                      "ranks %d links %d bytes %llu: %s, then %s", ask[i].ranks, ask[i].links,
                      (unsigned long long)ask[i].bytes, ar_family_name(first[i].family),
                      ar_family_name(again.family));
    }
}
END_TEST

START_TEST(test_blocks_never_shrink_while_the_kernel_stays)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++) {
        struct ar_choice last = {.family = -1};

        for (uint64_t bytes = 64; bytes < 1ull << 30; bytes += bytes / 7 + 1) {
            struct ar_ask ask = ask_for(ranks, AR_LINKS_NVLINK, bytes, AR_BF16, AR_SUM);
            struct ar_choice c;

            ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
            if (c.family == last.family && c.threads == last.threads && c.pieces == 1)
                ck_assert_int_ge(c.ctas, last.ctas);
            last = c;
        }
    }
}
END_TEST

START_TEST(test_integers_never_travel_as_lamport)
{
    for (int op = 0; op < AR_OPS; op++)
        for (uint64_t bytes = 8; bytes < 1 << 26; bytes *= 2) {
            struct ar_ask ask = ask_for(2, AR_LINKS_NVLINK, bytes, AR_I32, op);
            struct ar_choice c;

            ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
            ck_assert(c.family != AR_ONE_LAMPORT && c.family != AR_TWO_LAMPORT);
        }
}
END_TEST

START_TEST(test_forced_kernel_that_cannot_run_is_refused_by_name)
{
    struct ar_ask ask = ask_for(2, AR_LINKS_NVLINK, 4096, AR_I32, AR_SUM);
    struct ar_force force = {.family = AR_ONE_LAMPORT};
    struct ar_choice c;
    char why[160];

    ck_assert_int_eq(ar_select(&ask, &force, &c), -1);
    ar_select_why(&ask, &c, why, sizeof why);
    ck_assert_ptr_nonnull(strstr(why, "one_lamport cannot run"));
    force.family = AR_NVLS; /* AR_NVLS cannot run, because there is no multicast address */
    ck_assert_int_eq(ar_select(&ask, &force, &c), -1);
    force.family = AR_ONE_LL8;
    force.ctas = 7;
    force.threads = 100;
    ck_assert_int_eq(ar_select(&ask, &force, &c), 0);
    ck_assert_int_eq(c.ctas, 7);
    ck_assert_int_eq(c.threads, 96);
}
END_TEST

START_TEST(test_names_lead_back_to_their_kernel)
{
    for (int f = 0; f < AR_FAMILIES; f++) {
        ck_assert_ptr_nonnull(ar_family_name(f));
        ck_assert_int_eq(ar_family_by_name(ar_family_name(f)), f);
    }
    ck_assert_ptr_null(ar_family_name(AR_FAMILIES));
    ck_assert_ptr_null(ar_family_name(-1));
    ck_assert_int_eq(ar_family_by_name("one_ll"), -1);
}
END_TEST

START_TEST(test_printed_table_fits_or_says_how_long_it_is)
{
    struct ar_ask ask = ask_for(4, AR_LINKS_NVLINK, 0, AR_BF16, AR_SUM);
    char text[8192];
    size_t need = ar_select_print(&ask, text, sizeof text);

    ck_assert(need > 100 && need < sizeof text && strlen(text) == need);
    ck_assert_int_eq(ar_select_print(&ask, text, 0), need);
}
END_TEST

/* The budget of a group is the largest number of blocks that its kernels may have on a GPU. It must
 * leave one multiprocessor free. If two groups share GPUs, each has a smaller budget, and both
 * budgets together must leave one multiprocessor free, too. */
START_TEST(test_two_budgets_leave_room)
{
    static const struct {
        int sms, asked, want, together;
    } some[] = {{132, 0, 128, 64}, {132, 128, 128, 64}, {132, 512, 128, 64}, {132, 7, 7, 7},
                {108, 0, 104, 52}, {114, 0, 108, 56},   {78, 0, 72, 36},     {144, 0, 140, 68},
                {148, 0, 144, 72}, {152, 0, 148, 72},   {9, 0, 4, 4},        {9, 9, 4, 4},
                {8, 0, 7, 3},      {8, 8, 7, 3},        {2, 0, 1, 1},        {1, 0, 1, 1},
                {1, 5, 1, 1}};

    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        ck_assert_int_eq(ar_budget(some[i].sms, some[i].asked), some[i].want);
        ck_assert_int_eq(ar_budget_together(some[i].sms, some[i].want), some[i].together);
    }
    for (int sms = 3; sms < 300; sms++)
        for (int asked = 0; asked <= 512; asked++) {
            int budget = ar_budget(sms, asked), together = ar_budget_together(sms, budget);

            ck_assert(budget >= 1 && budget < sms && (asked == 0 || budget <= asked));
            ck_assert(together >= 1 && together <= budget && 2 * together < sms);
        }
}
END_TEST

/* If the budget is below the table's number of blocks, each block gets more threads. This needs a
 * kernel that can have more threads, and no forced number of threads. In measurements with 64
 * blocks, kernels with more threads were the fastest. */
START_TEST(test_fewer_blocks_have_more_threads)
{
    static const struct {
        int ranks, most, forced;
        uint64_t bytes;
        int ctas, threads;
    } want[] = {
        {2, 128, 0, 4 << 20, 128, 1024}, {2, 64, 0, 512 << 10, 64, 512},
        {2, 64, 0, 1 << 20, 64, 1024},   {2, 32, 0, 1 << 20, 32, 1024},
        {2, 64, 0, 2 << 20, 64, 1024},   {4, 64, 0, 2 << 20, 64, 512},
        {4, 64, 0, 512 << 10, 64, 128},  {4, 64, 0, 32 << 20, 64, 512},
        {2, 48, 0, 512 << 10, 48, 672},  {2, 64, 256, 512 << 10, 64, 256},
        {2, 96, 0, 64 << 10, 64, 64},
    };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct ar_ask ask = ask_for(want[i].ranks, AR_LINKS_NVLINK, want[i].bytes, AR_BF16, AR_SUM);
        struct ar_force force = {.family = -1, .threads = want[i].forced};
        struct ar_choice c;

        ask.max_ctas = want[i].most;
        ck_assert_int_eq(ar_select(&ask, &force, &c), 0);
        ck_assert_msg(c.ctas == want[i].ctas && c.threads == want[i].threads,
                      "row %zu: %d blocks of %d", i, c.ctas, c.threads);
    }
}
END_TEST

/* If NCCL may use multicast, messages of more than 32 MiB go to NCCL from four ranks on. We have
 * never measured calls with multicast. */
START_TEST(test_multicast_gives_long_messages_to_nccl)
{
    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (uint64_t bytes = 1 << 20; bytes <= 1ull << 31; bytes *= 2)
            for (int multicast = 0; multicast < 2; multicast++)
                for (int nccl = 0; nccl < 2; nccl++) {
                    struct ar_ask ask = ask_for(ranks, AR_LINKS_NVLINK, bytes, AR_BF16, AR_SUM);
                    struct ar_choice c;
                    char why[160];
                    bool theirs = ranks >= 4 && bytes > 32 << 20 && multicast && nccl;

                    ask.has_multicast = multicast;
                    ask.has_nccl = nccl;
                    ck_assert_int_eq(ar_select(&ask, &free_choice, &c), 0);
                    ck_assert_int_eq(c.family == AR_NCCL, theirs);
                    ar_select_why(&ask, &c, why, sizeof why);
                    ck_assert_int_eq(strstr(why, "unmeasured: NCCL uses multicast") != NULL,
                                     theirs);
                }
}
END_TEST

/* Call ${what} for questions about all collectives, links, ranks, types and sizes. */
static void for_all(void (*what)(struct ar_ask ask))
{
    static const int types[] = {AR_BF16, AR_I32};

    for (int i = 0; i < AR_COLLS * AR_LINKS * 2 * 2 * 2; i++)
        for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
            for (uint64_t unit = 8; unit <= 1 << 20; unit *= 2)
                for (uint64_t n = 1; n <= 512; n = n * 3 + 1) {
                    struct ar_ask ask = ask_for(ranks, i / 8 % AR_LINKS, 0, types[i % 2], AR_SUM);

                    ask.coll = i / 8 / AR_LINKS;
                    ask.bytes = unit * n * (uint64_t)ar_coll_parts(ask.coll, ranks);
                    ask.dst_mapped = ask.src_mapped = i / 2 % 2;
                    ask.has_multicast = i / 4 % 2;
                    ask.has_nccl = 1;
                    what(ask);
                }
}

/* Return whether the kernel tma runs this message if it is longer than ST_BESIDE_LIMIT and other
 * kernels may run beside it. tma needs two to four ranks on NVLink without multicast, registered
 * buffers, and either a sum of floats or an all-gather. */
static bool by_tma(const struct ar_ask *ask)
{
    const bool half = ask->coll != AR_ALL_REDUCE, gathers = ask->coll == AR_ALL_GATHER;
    const uint64_t part = ask->bytes / (uint64_t)ar_coll_parts(ask->coll, ask->ranks);

    return ask->ranks <= 4 && ask->links == AR_LINKS_NVLINK && !ask->has_multicast &&
           ask->src_mapped && (ask->dtype == AR_BF16 || gathers) &&
           (!half || (part <= (gathers && ask->ranks > 2 ? 32u : 64u) << 20 && part % 16 == 0));
}

struct row_of_64 {
    int coll, min_ranks, max_ranks, threads;
    uint64_t above, to; /* sizes in KiB; for a reduce-scatter or all-gather, those of one part */
    int more_than;      /* each of these calls has more blocks than this, and at most 64 */
};

/* Return the row with 64 blocks that the table has for this call if other kernels may run beside
 * it, or NULL if there is none. */
static const struct row_of_64 *by_64(const struct ar_ask *ask)
{
    static const struct row_of_64 rows[] = {
        {AR_ALL_REDUCE, 2, 2, 1024, 1024, 12 << 10, 32},
        {AR_ALL_REDUCE, 3, 4, 512, 1024, 12 << 10, 32},
        {AR_ALL_REDUCE, 5, 16, 512, 512, 4 << 10, 4},
        {AR_ALL_GATHER, 2, 2, 512, 1024, 8 << 10, 32},
        {AR_ALL_GATHER, 3, 16, 256, 64, 4 << 10, 16},
        {AR_REDUCE_SCATTER, 2, 2, 1024, 2048, 8 << 10, 32},
        {AR_REDUCE_SCATTER, 3, 16, 512, 256, 4 << 10, 32},
    };
    const uint64_t part = ask->bytes / (uint64_t)ar_coll_parts(ask->coll, ask->ranks);

    if (ask->links != AR_LINKS_NVLINK || (ask->dtype != AR_BF16 && ask->coll != AR_ALL_GATHER) ||
        (ask->has_nccl && ask->bytes > ST_BESIDE_LIMIT && (ask->ranks > 4 || ask->has_multicast)))
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].coll == ask->coll && rows[i].min_ranks <= ask->ranks &&
            ask->ranks <= rows[i].max_ranks && part > rows[i].above << 10 &&
            part <= rows[i].to << 10)
            return &rows[i];
    return NULL;
}

static void compare_hints(struct ar_ask ask)
{
    struct ar_choice alone, c;
    const int few = ask.coll == AR_ALL_REDUCE ? 8 : 16;
    const enum ar_form form = ask.coll == AR_ALL_GATHER ? AR_LL128 : AR_LAMPORT;
    char why[200];

    must(ar_select(&ask, &free_choice, &alone) == 0);
    for (int k = 0; k < 2; k++) {
        ask.beside = k == 0 ? AR_BESIDE_UNKNOWN : AR_BESIDE_COMPUTE;
        must(ar_select(&ask, &free_choice, &c) == 0);
        if (ask.bytes > ST_BESIDE_LIMIT && by_tma(&ask))
            must(c.family == AR_TMA && c.ctas == few && c.piece == ask.bytes);
        else if (by_64(&ask) != NULL)
            must(ar_families[c.family].form == form && c.ctas > by_64(&ask)->more_than &&
                 c.ctas <= 64 && c.threads == by_64(&ask)->threads);
        else if (ask.bytes <= ST_BESIDE_LIMIT)
            must(memcmp(&c, &alone, sizeof c) == 0);
        else
            must(c.family == AR_NCCL);
        ar_select_why(&ask, &c, why, sizeof why);
        must(strstr(why, k == 0 ? "; beside: unknown)" : "; beside: compute)") != NULL);
    }
    ask.has_nccl = 0;
    must(ar_select(&ask, &free_choice, &c) == 0);
    ask.beside = AR_BESIDE_NOTHING;
    must(ar_select(&ask, &free_choice, &alone) == 0);
    must(c.family != AR_NCCL);
    if (memcmp(&c, &alone, sizeof c) != 0)
        must(by_64(&ask) != NULL ||
             (c.family == AR_TMA && by_tma(&ask) && ask.bytes > ST_BESIDE_LIMIT));
    must(c.family != AR_COPY && alone.family != AR_COPY); /* the kernel "copy" may hang in local
                                                             groups */
}

/* tma_engines moves whole words. If the last bytes of a message fill no word, they are a piece of
 * their own, which another kernel runs. */
START_TEST(test_a_rest_is_a_piece_of_its_own)
{
    const struct ar_force force = {.family = AR_TMA_ENGINES};

    for (int ranks = 2; ranks <= AR_MAX_RANKS; ranks++)
        for (uint64_t bytes = 1; bytes < 1ull << 32; bytes += bytes < 300 ? 1 : bytes / 3) {
            struct ar_ask ask = ask_for(ranks, AR_LINKS_NVLINK, bytes, AR_U8, AR_SUM);
            struct ar_choice c;

            must(ar_select(&ask, &force, &c) == 0);
            must(c.family == AR_TMA_ENGINES && c.ctas <= 8 && c.threads == AR_TMA_THREADS);
            must(c.piece == (bytes < AR_WORD ? bytes : bytes / AR_WORD * AR_WORD));
            must(c.pieces == 1 + (bytes > AR_WORD && bytes % AR_WORD != 0));
        }
}
END_TEST

/* A hint says what runs beside the calls (ask->beside). Up to ST_BESIDE_LIMIT bytes the hint
 * changes only the calls for which by_64() finds a row. Longer messages run on kernels with many
 * blocks only with the hint "alone", or if there is no NCCL. */
START_TEST(test_long_messages_take_few_blocks_unless_alone)
{
    for_all(compare_hints);
}
END_TEST

/* If a user names a kernel, it runs whatever the hint says. */
START_TEST(test_no_hint_is_stronger_than_a_name)
{
    for (int beside = AR_BESIDE_UNKNOWN; beside <= AR_BESIDE_COMPUTE; beside++) {
        struct ar_ask ask = ask_for(2, AR_LINKS_NVLINK, 64 << 20, AR_BF16, AR_SUM);
        const struct ar_force force = {.family = AR_CHUNKED};
        struct ar_choice c;

        ask.has_nccl = 1;
        ask.beside = beside;
        ck_assert_int_eq(ar_select(&ask, &force, &c), 0);
        ck_assert_int_eq(c.family, AR_CHUNKED);
    }
}
END_TEST

START_TEST(test_families_that_add_otherwise_say_so)
{
    for (int f = 0; f < AR_FAMILIES; f++) {
        bool nvls = f == AR_NVLS || f == AR_NVLS_ONE;

        ck_assert_str_eq(ar_order_note(f), f == AR_NCCL ? "; NCCL adds in an order of its own"
                                           : nvls ? "; the switch adds, in an order of its own"
                                                  : "");
    }
}
END_TEST

Suite *st_suite_select(void)
{
    Suite *s = suite_create("ar_select");
    TCase *t = tcase_create("all");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_every_call_gets_a_kernel_that_can_run_it);
    tcase_add_test(t, test_pieces_fit_their_scratch);
    tcase_add_test(t, test_the_answer_knows_nothing_of_earlier_questions);
    tcase_add_test(t, test_blocks_never_shrink_while_the_kernel_stays);
    tcase_add_test(t, test_integers_never_travel_as_lamport);
    tcase_add_test(t, test_forced_kernel_that_cannot_run_is_refused_by_name);
    tcase_add_test(t, test_names_lead_back_to_their_kernel);
    tcase_add_test(t, test_printed_table_fits_or_says_how_long_it_is);
    tcase_add_test(t, test_two_budgets_leave_room);
    tcase_add_test(t, test_fewer_blocks_have_more_threads);
    tcase_add_test(t, test_multicast_gives_long_messages_to_nccl);
    tcase_add_test(t, test_a_rest_is_a_piece_of_its_own);
    tcase_add_test(t, test_long_messages_take_few_blocks_unless_alone);
    tcase_add_test(t, test_no_hint_is_stronger_than_a_name);
    tcase_add_test(t, test_families_that_add_otherwise_say_so);
    suite_add_tcase(s, t);
    return s;
}
