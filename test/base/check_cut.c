/* SPDX-License-Identifier: Apache-2.0 */
/* check_cut.c - tests how a message is cut into pieces. */
#include <check.h>

#include "base/cut.h"
#include "test/suites.h"

START_TEST(test_pieces_hold_all_but_a_word_per_rank)
{
    for (int ranks = 2; ranks <= 16; ranks++)
        for (int pieces = 1; pieces <= 64; pieces += 7)
            for (uint64_t bytes = 1; bytes < 100000; bytes += bytes / 3 + 1) {
                struct st_cut cut = st_cut(bytes, ranks, pieces);
                uint64_t end = st_cut_start(&cut, cut.pieces);

                ck_assert_int_le(cut.pieces, pieces);
                ck_assert(end <= bytes && bytes - end < 16 * (uint64_t)ranks);
                for (int p = 0; p < cut.pieces; p++) {
                    uint64_t part = st_cut_part(&cut, p);

                    ck_assert(part > 0 && part % 16 == 0);
                    ck_assert(st_cut_start(&cut, p + 1) - st_cut_start(&cut, p) ==
                              part * (uint64_t)ranks);
                }
            }
    ck_assert_int_eq(st_cut(1 << 20, 2, 0).pieces, 0);
}
END_TEST

START_TEST(test_a_message_too_short_for_a_word_per_rank_has_no_piece)
{
    struct st_cut cut = st_cut(63, 4, 8);

    ck_assert_int_eq(cut.pieces, 0);
    ck_assert_uint_eq(st_cut_start(&cut, 0), 0);
    cut = st_cut(64, 4, 8);
    ck_assert_int_eq(cut.pieces, 1);
    ck_assert_uint_eq(st_cut_part(&cut, 0), 16);
}
END_TEST

Suite *cut_suite(void)
{
    Suite *s = suite_create("cut");
    TCase *t = tcase_create("cut");

    tcase_add_test(t, test_pieces_hold_all_but_a_word_per_rank);
    tcase_add_test(t, test_a_message_too_short_for_a_word_per_rank_has_no_piece);
    suite_add_tcase(s, t);
    return s;
}
