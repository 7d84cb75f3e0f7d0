/* SPDX-License-Identifier: Apache-2.0 */
/* check_select.c - the selection table: total, pure, and within what the kernels can do. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ar_options.h"
#include "kernels/ar_select.h"
#include "test/ar/suites.h"

static const struct st_force free_choice = {.family = -1};

static struct st_ask ask_for(int ranks, int links, uint64_t bytes, int dtype, int op)
{
    struct st_ask ask = {.bytes = bytes,
                         .ranks = ranks,
                         .links = links,
                         .dtype = dtype,
                         .op = op,
                         .dst_mapped = 1,
                         .src_mapped = 1,
                         .has_copy = links != ST_LINKS_HOST,
                         .max_ctas = 132};
    uint64_t half[ST_REGIONS] = {1 << 19, 16 << 20, 32 << 20, 256 << 20, 64 << 20};

    if (links == ST_LINKS_HOST)
        half[ST_REGION_LL128] = half[ST_REGION_BULK] = half[ST_REGION_GATHER] = 0;
    memcpy(ask.half, half, sizeof half);
    return ask;
}

/* Whatever is asked, there is an answer of ours, it covers the message in pieces that fit scratch,
 * and pieces end on whole words. */
START_TEST(test_every_call_gets_a_kernel_that_can_run_it)
{
    for (int ranks = 2; ranks <= ST_MAX_RANKS; ranks++)
        for (int links = 0; links < ST_LINKS; links++)
            for (int dtype = 0; dtype < ST_DTYPES; dtype++)
                for (int op = 0; op < ST_OPS; op++)
                    for (uint64_t bytes = 8; bytes < 1ull << 36; bytes = bytes * 3 + 8)
                        for (int mapped = 0; mapped < 2; mapped++) {
                            struct st_ask ask = ask_for(ranks, links, bytes, dtype, op);
                            struct st_choice c;
                            uint64_t room;

                            ask.dst_mapped = ask.src_mapped = mapped;
                            must(st_select(&ask, &free_choice, &c) == 0);
                            room = st_capacity(&ask, c.family);
                            if (c.family == ST_NCCL || room == 0 || c.piece > room)
                                ck_abort_msg("ranks %d links %d dtype %d op %d bytes %llu: %s",
                                             ranks, links, dtype, op, (unsigned long long)bytes,
                                             st_family_name(c.family));
                            must((uint64_t)c.pieces * c.piece >= bytes);
                            must(c.pieces == 1 || c.piece % ST_UNIT == 0);
                            must(c.ctas >= 1 && c.ctas <= ask.max_ctas);
                            must(c.threads >= 32 && c.threads <= 1024 && c.threads % 32 == 0);
                            must(links == ST_LINKS_NVLINK ||
                                 (c.family != ST_ONE_LL128 && c.family != ST_TWO_LL128));
                        }
}
END_TEST

START_TEST(test_pieces_fit_their_scratch)
{
    for (int ranks = 2; ranks <= ST_MAX_RANKS; ranks++)
        for (int family = ST_ONE_LL8; family <= ST_CHUNKED; family++)
            for (int mapped = 0; mapped < 2; mapped++) {
                struct st_ask ask = ask_for(ranks, ST_LINKS_NVLINK, 1 << 20, ST_BF16, ST_SUM);
                uint64_t room, need = 0, half = 0;

                ask.dst_mapped = mapped;
                room = st_capacity(&ask, family);
                ck_assert(room != 0);
                switch (family) {
                case ST_ONE_LL8:
                case ST_ONE_LL128:
                case ST_ONE_LAMPORT:
                    half = ask.half[family - ST_ONE_LL8];
                    need = st_oneshot_scratch(family - ST_ONE_LL8, room, ranks);
                    break;
                case ST_CHUNKED:
                    half = ask.half[mapped ? ST_REGION_BULK : ST_REGION_GATHER];
                    need = st_bulk_scratch(room, ranks);
                    break;
                default:
                    half = ask.half[family - ST_TWO_LL8];
                    need = st_twoshot_scratch(family - ST_TWO_LL8, room, ranks);
                }
                ck_assert_msg(need <= half, "%s, %d ranks: %llu bytes need %llu of %llu",
                              st_family_name(family), ranks, (unsigned long long)room,
                              (unsigned long long)need, (unsigned long long)half);
                ck_assert_msg(need > half - half / 8, "%s, %d ranks: wastes scratch",
                              st_family_name(family), ranks);
            }
}
END_TEST

/* Ranks must choose alike, and each has asked other questions before, with other rubbish in its
 * choice: what one rank answers in order, another one must answer in any order. */
START_TEST(test_the_answer_knows_nothing_of_earlier_questions)
{
    enum { QUESTIONS = 1021, STEP = 389 }; /* prime, so that the steps come everywhere */
    static struct st_ask ask[QUESTIONS];
    static struct st_choice first[QUESTIONS];
    static const int links[] = {ST_LINKS_NVLINK, ST_LINKS_PCIE, ST_LINKS_HOST};

    for (int i = 0; i < QUESTIONS; i++) {
        ask[i] = ask_for(2 + i % (ST_MAX_RANKS - 1), links[i / 7 % 3], 8 + (1ull << i % 37) * 3,
                         i % ST_DTYPES, i / 3 % ST_OPS);
        ask[i].dst_mapped = i / 2 % 2;
        ask[i].has_nccl = i / 5 % 2;
        ck_assert_int_eq(st_select(&ask[i], &free_choice, &first[i]), 0);
    }
    for (int k = 0; k < QUESTIONS; k++) {
        int i = k * STEP % QUESTIONS;
        struct st_choice again;

        memset(&again, 0xee, sizeof again);
        ck_assert_int_eq(st_select(&ask[i], &free_choice, &again), 0);
        ck_assert_msg(memcmp(&first[i], &again, sizeof again) == 0,
                      "ranks %d links %d bytes %llu: %s, then %s", ask[i].ranks, ask[i].links,
                      (unsigned long long)ask[i].bytes, st_family_name(first[i].family),
                      st_family_name(again.family));
    }
}
END_TEST

START_TEST(test_blocks_never_shrink_while_the_kernel_stays)
{
    for (int ranks = 2; ranks <= ST_MAX_RANKS; ranks++) {
        struct st_choice last = {.family = -1};

        for (uint64_t bytes = 64; bytes < 1ull << 30; bytes += bytes / 7 + 1) {
            struct st_ask ask = ask_for(ranks, ST_LINKS_NVLINK, bytes, ST_BF16, ST_SUM);
            struct st_choice c;

            ck_assert_int_eq(st_select(&ask, &free_choice, &c), 0);
            if (c.family == last.family && c.threads == last.threads && c.pieces == 1)
                ck_assert_int_ge(c.ctas, last.ctas);
            last = c;
        }
    }
}
END_TEST

START_TEST(test_integers_never_travel_as_lamport)
{
    for (int op = 0; op < ST_OPS; op++)
        for (uint64_t bytes = 8; bytes < 1 << 26; bytes *= 2) {
            struct st_ask ask = ask_for(2, ST_LINKS_NVLINK, bytes, ST_I32, op);
            struct st_choice c;

            ck_assert_int_eq(st_select(&ask, &free_choice, &c), 0);
            ck_assert(c.family != ST_ONE_LAMPORT && c.family != ST_TWO_LAMPORT);
        }
}
END_TEST

START_TEST(test_forced_kernel_that_cannot_run_is_refused_by_name)
{
    struct st_ask ask = ask_for(2, ST_LINKS_NVLINK, 4096, ST_I32, ST_SUM);
    struct st_force force = {.family = ST_ONE_LAMPORT};
    struct st_choice c;
    char why[160];

    ck_assert_int_eq(st_select(&ask, &force, &c), -1);
    st_select_why(&ask, &c, why, sizeof why);
    ck_assert_ptr_nonnull(strstr(why, "one_lamport cannot run"));
    force.family = ST_NVLS; /* no multicast address */
    ck_assert_int_eq(st_select(&ask, &force, &c), -1);
    force.family = ST_ONE_LL8;
    force.ctas = 7;
    force.threads = 100;
    ck_assert_int_eq(st_select(&ask, &force, &c), 0);
    ck_assert_int_eq(c.ctas, 7);
    ck_assert_int_eq(c.threads, 96);
}
END_TEST

START_TEST(test_names_lead_back_to_their_kernel)
{
    for (int f = 0; f < ST_FAMILIES; f++) {
        ck_assert_ptr_nonnull(st_family_name(f));
        ck_assert_int_eq(st_family_by_name(st_family_name(f)), f);
    }
    ck_assert_ptr_null(st_family_name(ST_FAMILIES));
    ck_assert_ptr_null(st_family_name(-1));
    ck_assert_int_eq(st_family_by_name("one_ll"), -1);
}
END_TEST

START_TEST(test_printed_table_fits_or_says_how_long_it_is)
{
    char text[8192];
    size_t need = st_select_print(4, ST_LINKS_NVLINK, text, sizeof text);

    ck_assert(need > 100 && need < sizeof text && strlen(text) == need);
    ck_assert_int_eq(st_select_print(4, ST_LINKS_NVLINK, text, 0), need);
}
END_TEST

static const struct {
    const char *name, *value, *error;
} bad[] = {
    {"SYMTUNER_AR_KERNEL", "oneshot",
     "SYMTUNER_AR_KERNEL=\"oneshot\" is unknown; write one of nccl"},
    {"SYMTUNER_AR_CTAS", "0", "SYMTUNER_AR_CTAS=\"0\" is not a number from 1 to 512"},
    {"SYMTUNER_AR_CTAS", "-1", "SYMTUNER_AR_CTAS=\"-1\""},
    {"SYMTUNER_AR_CTAS", "8x", "SYMTUNER_AR_CTAS=\"8x\""},
    {"SYMTUNER_AR_CTAS", " +7", "SYMTUNER_AR_CTAS=\" +7\""},
    {"SYMTUNER_AR_CTAS", "+7", "SYMTUNER_AR_CTAS=\"+7\""},
    {"SYMTUNER_AR_TIMEOUT_MS", "10s", "SYMTUNER_AR_TIMEOUT_MS=\"10s\" is not a number"},
    {"SYMTUNER_AR_TRANSPORT", "shm", "write one of auto peer host"},
    {"SYMTUNER_AR_LINKS", "nvswitch", "write one of nvlink pcie"},
};

START_TEST(test_bad_environment_names_the_word_and_the_cure)
{
    struct st_options options;
    char why[200] = "";

    setenv(bad[_i].name, bad[_i].value, 1);
    ck_assert_int_eq(st_options_read(&options, why, sizeof why), -1);
    ck_assert_msg(strstr(why, bad[_i].error) != NULL, "row %d: got \"%s\"", _i, why);
    unsetenv(bad[_i].name);
}
END_TEST

START_TEST(test_good_environment_is_taken_over)
{
    struct st_options options;
    char why[200];

    setenv("SYMTUNER_AR_KERNEL", "two_lamport", 1);
    setenv("SYMTUNER_AR_CTAS", "48", 1);
    setenv("SYMTUNER_AR_TIMEOUT_MS", "2000", 1);
    setenv("SYMTUNER_AR_TRANSPORT", "host", 1);
    ck_assert_int_eq(st_options_read(&options, why, sizeof why), 0);
    ck_assert_int_eq(options.force.family, ST_TWO_LAMPORT);
    ck_assert_int_eq(options.force.ctas, 48);
    ck_assert_int_eq(options.timeout_ms, 2000);
    ck_assert_int_eq(options.transport, 2);
    ck_assert_int_eq(options.links, -1);
}
END_TEST

START_TEST(test_families_that_add_otherwise_say_so)
{
    for (int f = 0; f < ST_FAMILIES; f++) {
        bool nvls = f == ST_NVLS || f == ST_NVLS_ONE;

        ck_assert_str_eq(st_order_note(f), f == ST_NCCL ? "; NCCL adds in an order of its own"
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
    tcase_add_loop_test(t, test_bad_environment_names_the_word_and_the_cure, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(t, test_good_environment_is_taken_over);
    tcase_add_test(t, test_families_that_add_otherwise_say_so);
    suite_add_tcase(s, t);
    return s;
}
