/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_model.c - checks the calculations of kernels/nodes: which ranks are on which box (machine),
 * and how long an all-reduce takes box by box (first inside each box, then between the boxes) and
 * by NCCL alone.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "kernels/group/endpoint.h"
#include "kernels/nodes/boxes.h"
#include "kernels/nodes/model.h"
#include "test/kernels/nodes/suites.h"

enum { MOST = 40 };

/* Fill ${cards} from ${text}, which has one digit for each rank: the number of the rank's box. */
static int cards_of(const char *text, struct ar_box_card *cards)
{
    int n = (int)strlen(text);

    memset(cards, 0, MOST * sizeof *cards);
    for (int r = 0; r < n; r++) {
        cards[r].host = 1000 + (uint64_t)text[r];
        cards[r].asked = cards[r].handles = 1;
    }
    return n;
}

static const struct {
    const char *ranks;
    int count, each;
} even[] = {
    {"0011", 2, 2},     {"0101", 2, 2},
    {"00001111", 2, 4}, {"001122", 3, 2},
    {"220011", 3, 2},   {"0", 1, 1},
    {"0000", 1, 4},     {"012012012", 3, 3},
    {"1001", 2, 2},     {"0000000011111111", 2, 8},
};

START_TEST(test_equal_boxes_are_found)
{
    struct ar_box_card cards[MOST];
    int ranks = cards_of(even[_i].ranks, cards), seen[MOST] = {0};
    struct ar_boxes b;
    char why[AR_WHY];

    for (int r = 0; r < ranks; r++) {
        ck_assert(ar_boxes_find(cards, ranks, r, &b, why));
        ck_assert_int_eq(b.count, even[_i].count);
        ck_assert_int_eq(b.ranks, even[_i].each);
        ck_assert(b.box >= 0 && b.box < b.count && b.at >= 0 && b.at < b.ranks);
        ck_assert_int_eq(seen[b.box * b.ranks + b.at]++, 0); /* no two ranks have the same place in
                                                                a box */
        if (r > 0 && even[_i].ranks[r] == even[_i].ranks[0])
            ck_assert_int_eq(b.box, 0);
    }
}
END_TEST

static const struct {
    const char *ranks, *why;
} uneven[] = {
    {"00111", " with unequal numbers of ranks: 2 where rank 0 is, 3 where rank 2 is"},
    {"0001", " with unequal numbers of ranks: 3 where rank 0 is, 1 where rank 3 is"},
    {"01", " with one rank each"},
    {"0123", " with one rank each"},
    {"0000000000000000011111111111111111", " with more than 16 ranks each"},
};

START_TEST(test_other_layouts_are_refused)
{
    struct ar_box_card cards[MOST];
    int ranks = cards_of(uneven[_i].ranks, cards);
    struct ar_boxes b;
    char why[AR_WHY];

    for (int r = 0; r < ranks; r++) {
        ck_assert(!ar_boxes_find(cards, ranks, r, &b, why));
        ck_assert_str_eq(why, uneven[_i].why);
    }
}
END_TEST

START_TEST(test_what_one_rank_lacks_stops_all)
{
    static const char *const why_of[] = {
        ", and SYMTUNER_AR_NODES differs between ranks 0 and 2",
        ", and the NCCL of rank 2 has no ncclCommSplit",
        ", and the communicator of rank 2 does not block",
        ", and the thread of rank 2 drives 3 ranks",
    };
    struct ar_box_card cards[MOST];
    int ranks = cards_of("0011", cards);
    struct ar_boxes b;
    char why[AR_WHY];

    cards[2].asked = _i != 0;
    cards[2].unable = _i == 1 ? AR_BOX_NO_SPLIT : _i == 2 ? AR_BOX_UNBLOCKED : 0;
    cards[2].handles = _i == 3 ? 3 : 1;
    for (int r = 0; r < ranks; r++) {
        ck_assert(!ar_boxes_find(cards, ranks, r, &b, why));
        ck_assert_str_eq(why, why_of[_i]);
    }
}
END_TEST

START_TEST(test_nobody_is_changed_who_did_not_ask)
{
    struct ar_box_card cards[MOST];
    int ranks = cards_of("0011", cards);
    struct ar_boxes b;
    char why[AR_WHY];

    for (int r = 0; r < ranks; r++)
        cards[r].asked = 0;
    ck_assert(!ar_boxes_find(cards, ranks, 1, &b, why));
    ck_assert_str_eq(why, "; SYMTUNER_AR_NODES=1 adds up box by box (docs/nodes.md)");
    for (int r = 0; r < ranks; r++)
        cards[r].ruled = 1;
    ck_assert(ar_boxes_find(cards, ranks, 1, &b, why));
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

/* Set times that begin at ${least} us and grow by ${per_mib} us per MiB. */
static void set_way(struct ar_nodes_figures *f, enum ar_way way, double least, double per_mib)
{
    for (int i = 0; i < AR_NODES_SIZES; i++)
        f->us[way][i] = (float)(least + per_mib * (double)ar_nodes_size[i] / (1 << 20));
}

START_TEST(test_steps_lie_on_lines_between_the_figures)
{
    struct ar_nodes_figures f = {.us = {{10, 26, 266}}};

    ck_assert_double_eq(ar_nodes_step(&f, AR_WAY_NCCL, 1), 10);
    ck_assert_double_eq(ar_nodes_step(&f, AR_WAY_NCCL, 1 << 16), 10);
    ck_assert_double_eq_tol(ar_nodes_step(&f, AR_WAY_NCCL, (1 << 20) / 2 + (1 << 15)), 18, 1e-9);
    ck_assert_double_eq(ar_nodes_step(&f, AR_WAY_NCCL, 1 << 20), 26);
    ck_assert_double_eq(ar_nodes_step(&f, AR_WAY_NCCL, 2 << 20), 42);
    ck_assert_double_eq(ar_nodes_step(&f, AR_WAY_NCCL, 1 << 24), 266);
    ck_assert_double_eq(ar_nodes_step(&f, AR_WAY_NCCL, 1 << 25), 522);
}
END_TEST

/* Each piece, whatever its length, takes 5 us for reduce-scatter (RS), 20 us for the all-reduce of
 * the boxes (AR) and 5 us for all-gather (AG). The expected times were worked out by hand. */
START_TEST(test_pieces_overlap_as_the_picture_says)
{
    struct ar_nodes_figures f;

    set_way(&f, AR_WAY_NCCL, 1000, 0);
    set_way(&f, AR_WAY_BOX, 10, 0);
    set_way(&f, AR_WAY_NETWORK, 20, 0);
    ck_assert_double_eq(ar_nodes_time(&f, 1 << 20, 0), 1000);
    ck_assert_double_eq(ar_nodes_time(&f, 1 << 20, 1), 30);
    /* 50 us: RS, AR, AR and AG, one after the other */
    ck_assert_double_eq(ar_nodes_time(&f, 1 << 20, 2), 50);
    ck_assert_double_eq(ar_nodes_time(&f, 1 << 20, 4), 90);
    set_way(&f, AR_WAY_NETWORK, 1, 0);
    ck_assert_double_eq(ar_nodes_time(&f, 1 << 20, 1), 11);
    /* 20 us: RS, RS, AG and AG, one after the other; the ARs run beside them. */
    ck_assert_double_eq(ar_nodes_time(&f, 1 << 20, 2), 20);
}
END_TEST

START_TEST(test_the_choice_follows_the_figures)
{
    /* The expected numbers of pieces for 64 KiB, 256 KiB, ... 1 GiB. bench/nodes.py --check has the
     * same numbers. */
    static const int chosen[] = {0, 0, 1, 1, 2, 4, 8, 16};
    struct ar_nodes_figures f = {0};
    int last = 0;
    double best;

    for (uint64_t bytes = 1; bytes < 1ull << 40; bytes *= 2)
        ck_assert_int_eq(ar_nodes_pieces(&f, bytes), 0); /* without figures NCCL runs all calls */
    set_way(&f, AR_WAY_NCCL, 50, 100);
    set_way(&f, AR_WAY_BOX, 40, 5);
    set_way(&f, AR_WAY_NETWORK, 30, 40);
    for (int i = 0; i < (int)(sizeof chosen / sizeof *chosen); i++)
        ck_assert_int_eq(ar_nodes_pieces(&f, 1ull << (16 + 2 * i)), chosen[i]);
    for (uint64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 2) {
        int pieces = ar_nodes_pieces(&f, bytes);

        ck_assert_int_ge(pieces, last);
        last = pieces;
        ck_assert_double_lt(ar_nodes_time(&f, bytes, pieces), 0.9 * ar_nodes_time(&f, bytes, 0));
    }
    ck_assert_int_gt(last, 1);
    best = ar_nodes_time(&f, 1 << 24, ar_nodes_pieces(&f, 1 << 24));
    set_way(&f, AR_WAY_NCCL, best * 1.05, 0); /* adding up box by box would be only 5 % faster */
    ck_assert_int_eq(ar_nodes_pieces(&f, 1 << 24), 0);
    set_way(&f, AR_WAY_NCCL, best * 1.2, 0);
    ck_assert_int_gt(ar_nodes_pieces(&f, 1 << 24), 0);
}
END_TEST

START_TEST(test_the_slowest_rank_counts)
{
    struct ar_nodes_figures a = {.us = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}}, b = a;

    b.us[1][2] = 60;
    a.us[2][0] = 70;
    ar_nodes_slower(&a, &b);
    ck_assert_float_eq(a.us[1][2], 60);
    ck_assert_float_eq(a.us[2][0], 70);
    ck_assert_float_eq(a.us[0][0], 1);
}
END_TEST

Suite *nodes_suite_model(void)
{
    Suite *s = suite_create("nodes_model");
    TCase *t = tcase_create("model");

    tcase_add_loop_test(t, test_equal_boxes_are_found, 0, (int)(sizeof even / sizeof *even));
    tcase_add_loop_test(t, test_other_layouts_are_refused, 0,
                        (int)(sizeof uneven / sizeof *uneven));
    tcase_add_loop_test(t, test_what_one_rank_lacks_stops_all, 0, 4);
    tcase_add_test(t, test_nobody_is_changed_who_did_not_ask);
    tcase_add_test(t, test_steps_lie_on_lines_between_the_figures);
    tcase_add_test(t, test_pieces_overlap_as_the_picture_says);
    tcase_add_test(t, test_the_choice_follows_the_figures);
    tcase_add_test(t, test_the_slowest_rank_counts);
    suite_add_tcase(s, t);
    return s;
}
