/* SPDX-License-Identifier: Apache-2.0 */
/* check_overlaps.c - tests registered buffers that overlap. Whichever registration each rank takes
 * for a call, all ranks must reach the same memory. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"
#include "test/kernels/windows/comms.h"

/* ---- a local group --------------------------------------------------------------------------- */

static void fill(void **buffers, int page)
{
    for (int r = 0; r < N; r++)
        buffers[r] = memory[r] + page * PAGE;
}

static ncclResult_t add(int page, int pages)
{
    void *buffers[N];

    fill(buffers, page);
    return symtuner_ar_register(handles, buffers, NULL, N, (size_t)pages * PAGE);
}

static ncclResult_t undo(int page)
{
    void *buffers[N];

    fill(buffers, page);
    return symtuner_ar_deregister(handles, buffers, N);
}

/* Return whether calls on the pages from ${page} on are zero-copy. All ranks must say the same. */
static bool zero_copy(int page, int pages)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    const size_t bytes = (size_t)pages * PAGE;
    int n = 0;

    for (int r = 0; r < N; r++) {
        char *p = memory[r] + page * PAGE;

        symtuner_ar_force(handles[r], "chunked", 0, 0);
        must(symtuner_ar_query(p, p, bytes / 4, ncclFloat, ncclSum, handles[r], &plan) ==
             ncclSuccess);
        must(plan.zero_copy == symtuner_ar_registered(handles[r], p, bytes));
        n += plan.zero_copy;
    }
    must(n == 0 || n == N);
    return n == N;
}

START_TEST(test_a_buffer_may_be_registered_again)
{
    static const int orders[][2] = {{4, 8}, {8, 4}};

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(add(0, orders[i][0]), ncclSuccess);
        ck_assert_int_eq(add(0, orders[i][1]), ncclSuccess);
        ck_assert(zero_copy(0, 4) && zero_copy(0, 8) && zero_copy(7, 1) && !zero_copy(0, 9));
        ck_assert_int_eq(undo(0), ncclSuccess); /* this ends the newer registration */
        ck_assert(zero_copy(0, 4) && zero_copy(0, 8) == (i == 1));
        ck_assert_int_eq(undo(0), ncclSuccess);
        ck_assert(!zero_copy(0, 4));
        want_error(undo(0), ncclInvalidUsage, handles[0], "is not registered");
    }
}
END_TEST

/* The newest registration of a buffer need not be the last entry in the library's table of windows.
 * symtuner_ar_deregister must find it all the same. */
START_TEST(test_deregister_takes_the_newest)
{
    ck_assert_int_eq(add(100, 1), ncclSuccess);
    ck_assert_int_eq(add(0, 4), ncclSuccess);
    ck_assert_int_eq(undo(100), ncclSuccess);
    ck_assert_int_eq(add(0, 8), ncclSuccess);
    ck_assert_int_eq(undo(0), ncclSuccess);
    ck_assert(zero_copy(0, 4) && !zero_copy(0, 8));
}
END_TEST

START_TEST(test_buffers_may_overlap_in_part)
{
    ck_assert_int_eq(add(0, 8), ncclSuccess);
    ck_assert_int_eq(add(4, 8), ncclSuccess);
    ck_assert(zero_copy(0, 8) && zero_copy(4, 8) && zero_copy(5, 2) && !zero_copy(0, 12));
    ck_assert_int_eq(undo(0), ncclSuccess);
    ck_assert(zero_copy(4, 4) && !zero_copy(0, 8));
}
END_TEST

/* On rank 0 the third buffer begins in the first one. On the other ranks it lies far away. If a
 * call uses memory of both, rank 0 cannot tell which of them the other ranks use. So all ranks run
 * calls on either buffer through scratch memory. */
START_TEST(test_ranks_whose_buffers_overlap_otherwise_stage_them)
{
    void *buffers[N];

    ck_assert_int_eq(add(0, 8), ncclSuccess);
    ck_assert_int_eq(add(60, 2), ncclSuccess);
    fill(buffers, 32);
    buffers[0] = memory[0] + 4 * PAGE;
    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 2 * PAGE), ncclSuccess);
    for (int r = 0; r < N; r++)
        ck_assert_int_eq(symtuner_ar_registered(handles[r], buffers[r], PAGE), 0);
    ck_assert(!zero_copy(4, 1) && !zero_copy(0, 1) && zero_copy(60, 2));
    ck_assert_int_eq(symtuner_ar_deregister(handles, buffers, N), ncclSuccess);
    ck_assert(!zero_copy(0, 1));
    ck_assert_int_eq(undo(0), ncclSuccess);
    ck_assert_int_eq(add(0, 8), ncclSuccess);
    ck_assert(zero_copy(0, 8));
}
END_TEST

START_TEST(test_one_call_deregisters_what_one_call_registered)
{
    void *buffers[N];

    ck_assert_int_eq(add(0, 1), ncclSuccess);
    ck_assert_int_eq(add(1, 1), ncclSuccess);
    fill(buffers, 0);
    buffers[2] = memory[2] + PAGE;
    want_error(symtuner_ar_deregister(handles, buffers, N), ncclInvalidUsage, handles[0],
               "buffers[0] and buffers[2] were not registered last in one call");
    ck_assert(zero_copy(0, 1) && zero_copy(1, 1));
}
END_TEST

START_TEST(test_there_are_64_places)
{
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < AR_MAX_WINDOWS; i++)
            ck_assert_int_eq(add(0, i + 1), ncclSuccess);
        want_error(add(0, 1), ncclInvalidUsage, handles[0], "all 64 places for windows are taken");
        ck_assert(zero_copy(0, 64));
        for (int i = 0; i < AR_MAX_WINDOWS; i++)
            ck_assert_int_eq(undo(0), ncclSuccess);
    }
}
END_TEST

/* A window is a registered buffer. It is blocked, that is, no call uses it, if a later window
 * overlaps it on some ranks only (kernels/group/handle.h). In these calls in place, only rank 0's
 * part lies in a blocked window. All ranks must look at the longer buffer only, so that they choose
 * alike. */
START_TEST(test_in_place_the_longer_buffer_decides)
{
    void *buffers[N];

    tear_down();
    setenv("SYMTUNER_RULE", "kernels coll=any registered=yes kernel=chunked", 1);
    set_up();
    unsetenv("SYMTUNER_RULE");
    ck_assert_int_eq(add(10, 8), ncclSuccess);
    ck_assert_int_eq(add(8, 4), ncclSuccess);
    fill(buffers, 90);
    buffers[1] = memory[1] + 8 * PAGE; /* blocks the second window, not the first one */
    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, PAGE), ncclSuccess);
    for (int coll = AR_REDUCE_SCATTER; coll <= AR_ALL_GATHER; coll++)
        for (int r = 0; r < N; r++) {
            struct symtuner_ar_plan plan = {.size = sizeof plan};
            char *whole = memory[r] + 10 * PAGE, *part = whole + r * 2 * PAGE;
            const bool scatter = coll == AR_REDUCE_SCATTER;

            ck_assert(symtuner_ar_registered(handles[r], part, 2 * PAGE) == (r > 0) &&
                      symtuner_ar_registered(handles[r], whole, 8 * PAGE));
            ck_assert_int_eq(symtuner_ar_query_coll(coll, scatter ? whole : part,
                                                    scatter ? part : whole, 2 * PAGE / 4, ncclFloat,
                                                    ncclSum, handles[r], &plan),
                             ncclSuccess);
            ck_assert_str_eq(plan.why, "rules: SYMTUNER_RULE:1 \"inline:1\"");
        }
}
END_TEST

/* ---- a communicator whose program registers windows of its own ------------------------------- */

/* Register the window object[number] with ${n} handles from ${first} on. */
static ncclResult_t show(int number, int first, int n, size_t bytes)
{
    const ncclWindow_t window = (ncclWindow_t)object[number];
    const ncclWindow_t windows[RANKS] = {window, window, window};

    return symtuner_ar_register(&win_h[first], &object[number][first], windows, n, bytes);
}

/* Put the window object[number] at the same place on all ranks, and register it. */
static void put(int number, uintptr_t at, size_t bytes)
{
    for (int r = 0; r < RANKS; r++)
        object[number][r] = (void *)(at + ((uintptr_t)r << 40));
    must(show(number, 0, RANKS, bytes) == ncclSuccess);
}

static ncclResult_t drop(int rank, int number)
{
    return symtuner_ar_deregister_window(win_h[rank], (ncclWindow_t)object[number]);
}

/* Return on how many ranks a call of ${bytes} at the start of object[number] would use a window. */
static int takers(int number, size_t bytes)
{
    int n = 0;

    for (int r = 0; r < RANKS; r++)
        n += symtuner_ar_registered(win_h[r], object[number][r], bytes);
    return n;
}

/* Like XLA, register windows of several lengths at one address, and deregister them in any
 * order. */
START_TEST(test_windows_at_one_address_end_in_any_order)
{
    static const int orders[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 3, 1}, {2, 1, 3}};
    static const size_t bytes[] = {0, 2 * PAGE, 6 * PAGE, 4 * PAGE};

    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        bool gone[4] = {false};

        for (int k = 1; k <= 3; k++)
            put(k, 1 << 20, bytes[k]);
        for (int k = 0; k < 3; k++) {
            size_t longest = 0;

            for (int r = 0; r < RANKS; r++)
                ck_assert_int_eq(drop(r, orders[i][k]), ncclSuccess);
            gone[orders[i][k]] = true;
            for (int w = 1; w <= 3; w++)
                if (!gone[w] && bytes[w] > longest)
                    longest = bytes[w];
            for (size_t b = PAGE; b <= 6 * PAGE; b += PAGE)
                ck_assert_int_eq(takers(1, b), b <= longest ? RANKS : 0);
        }
        want_error(drop(0, 1), ncclInvalidUsage, win_h[0], "is not registered");
    }
}
END_TEST

/* Rank 0 deregisters a window early. The others still have it, but no call uses it any more. */
START_TEST(test_a_window_that_one_rank_has_deregistered_is_no_window)
{
    put(0, 1 << 20, 4 * PAGE);
    ck_assert_int_eq(drop(0, 0), ncclSuccess);
    put(1, 1 << 20, 2 * PAGE);
    ck_assert(takers(1, 2 * PAGE) == RANKS && takers(1, 3 * PAGE) == 0);
    put(2, 1 << 20, 6 * PAGE);
    for (int r = 0; r < RANKS; r++) {
        const struct ar_window *w = ar_window_find(win_h[r], object[1][r], PAGE);

        /* Windows 1 and 2 begin at the same address, so calls take the newer one, window 2. It got
         * entry 2 of the table, because entry 0 is not free as long as one rank has window 0. */
        ck_assert(w->number == 3 && w - win_h[r]->windows == 2);
    }
    for (int r = 1; r < RANKS; r++)
        ck_assert_int_eq(drop(r, 0), ncclSuccess);
    put(3, 1 << 21, PAGE);
    for (int r = 0; r < RANKS; r++)
        ck_assert(ar_window_find(win_h[r], object[3][r], PAGE) == &win_h[r]->windows[0]);
}
END_TEST

/* Window 2 overlaps window 1 on rank 0 only, so window 1 is blocked. Window 0 lies in window 1. As
 * long as some rank may have window 1, no rank may use window 0, because a peer could take window 1
 * for the same call. Ranks learn that window 1 is gone when they next register a window
 * together. */
START_TEST(test_a_blocked_window_blocks_until_the_ranks_compare)
{
    put(0, 1 << 20, 4 * PAGE);
    put(1, 1 << 20, 8 * PAGE);
    ck_assert_int_eq(takers(0, 4 * PAGE), RANKS);
    for (int r = 0; r < RANKS; r++)
        object[2][r] = (char *)object[0][r] + (r == 0 ? 6 : 60) * PAGE;
    ck_assert_int_eq(show(2, 0, RANKS, 2 * PAGE), ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        ck_assert(takers(0, PAGE) == 0 && takers(1, 8 * PAGE) == 0 && takers(2, PAGE) == 0);
        ck_assert_int_eq(drop(r, 1), ncclSuccess);
    }
    ck_assert_int_eq(takers(0, PAGE), 0);
    put(3, 1 << 22, PAGE);
    ck_assert(takers(0, 4 * PAGE) == RANKS && takers(0, 5 * PAGE) == 0 && takers(2, PAGE) == 0);
}
END_TEST

START_TEST(test_a_window_that_is_not_there_is_named)
{
    want_error(symtuner_ar_deregister_window(NULL, NULL), ncclInvalidArgument, NULL,
               "handle is NULL");
    want_error(symtuner_ar_deregister_window(win_h[0], NULL), ncclInvalidUsage, win_h[0],
               "is not registered");
    ck_assert_int_eq(symtuner_ar_registered(NULL, object, 1), 0);
}
END_TEST

/* For one call, ranks may take different windows. So either all windows have a multicast address,
 * or none of them has one. */
START_TEST(test_windows_have_multicast_addresses_all_or_none)
{
    fake_nccl.multicast = true;
    put(0, 1 << 20, PAGE);
    ck_assert_ptr_nonnull(ar_window_find(win_h[1], object[0][1], PAGE)->multicast);
    fake_nccl.no_multicast = 2;
    put(1, 1 << 20, 2 * PAGE);
    fake_nccl.no_multicast = -1;
    put(2, 1 << 20, 3 * PAGE);
    for (size_t b = PAGE; b <= 3 * PAGE; b += PAGE)
        ck_assert_ptr_null(ar_window_find(win_h[1], object[0][1], b)->multicast);
}
END_TEST

Suite *st_suite_overlaps(void)
{
    Suite *s = suite_create("ar_overlaps");
    TCase *local = tcase_create("local group");
    TCase *comms = tcase_create("communicator");

    tcase_add_checked_fixture(local, set_up, tear_down);
    tcase_add_test(local, test_a_buffer_may_be_registered_again);
    tcase_add_test(local, test_deregister_takes_the_newest);
    tcase_add_test(local, test_buffers_may_overlap_in_part);
    tcase_add_test(local, test_ranks_whose_buffers_overlap_otherwise_stage_them);
    tcase_add_test(local, test_one_call_deregisters_what_one_call_registered);
    tcase_add_test(local, test_there_are_64_places);
    tcase_add_test(local, test_in_place_the_longer_buffer_decides);
    suite_add_tcase(s, local);
    tcase_add_checked_fixture(comms, set_up_comms, tear_down_comms);
    tcase_add_test(comms, test_windows_at_one_address_end_in_any_order);
    tcase_add_test(comms, test_a_window_that_one_rank_has_deregistered_is_no_window);
    tcase_add_test(comms, test_a_blocked_window_blocks_until_the_ranks_compare);
    tcase_add_test(comms, test_a_window_that_is_not_there_is_named);
    tcase_add_test(comms, test_windows_have_multicast_addresses_all_or_none);
    suite_add_tcase(s, comms);
    return s;
}
