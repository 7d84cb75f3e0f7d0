/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_measure.c - tests how ranks on several boxes (machines) measure the network before the
 * first call: what happens if a rank has an error meanwhile, and what they measure if calls stall.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/steps.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"

#define RULE "kernels network-pieces=2"

/* The ranks measure in ROUNDS rounds. In each round, every rank makes EACH all-reduces over all
 * ranks, and then EACH all-reduces between the boxes. */
enum { ROUNDS = 10, EACH = 9 };

static void must_be_box_by_box(void)
{
    for (int r = 0; r < net.ranks; r++) {
        ck_assert_msg(created[r] == ncclSuccess, "rank %d: %s", r, created_error[r]);
        ck_assert_msg(handle[r]->nodes != NULL, "rank %d: %s", r, handle[r]->gate);
    }
}

/* Create the handles, and let CUDA call number ${at} of rank 3 fail; 0: no call fails. Return how
 * many CUDA calls rank 3 has made. */
static int create_while_failing(const char *rule, int at)
{
    group_reset(4, 2, rule);
    if (rule == NULL)
        setenv("SYMTUNER_AR_NODES", "1", 1);
    net.adds_nothing = true; /* so the fake NCCL loses no time with adding */
    fake.fail_on = 4, fake.fail_at = at;
    group_create();
    return fake.calls;
}

/* The handles are created many times. Each time another CUDA call of rank 3 fails. The earliest of
 * these calls comes shortly before the ranks measure. The other ranks must not wait for rank 3 in
 * ncclAllReduce, and all ranks must have the same outcome. */
START_TEST(test_what_fails_while_measuring_stops_all)
{
    const int first = create_while_failing(RULE, 0) - 20, step = 14;
    int last, told = 0;

    group_destroy();
    last = create_while_failing(NULL, 0);
    must_be_box_by_box();
    group_destroy();
    ck_assert_int_gt(last, first + 40);
    for (int at = first + _i; at <= last; at += step) {
        create_while_failing(NULL, at);
        ck_assert_msg(!whole_nccl.hung, "a rank waits after call %d of %d", at, last);
        for (int r = 0; r < 4; r++) {
            ck_assert_int_eq(created[r] == ncclSuccess, created[0] == ncclSuccess);
            if (created[0] == ncclSuccess)
                ck_assert_int_eq(handle[r]->nodes == NULL, handle[0]->nodes == NULL);
        }
        if (created[0] == ncclSuccess && handle[0]->nodes == NULL) {
            group_must_be_nccls("not box by box: rank ");
            told++;
        }
        group_destroy();
    }
    ck_assert_int_gt(told, 0);
}
END_TEST

/* On rank 3 NCCL refuses one all-reduce between the boxes, in round ${_i} of the measurement. No
 * rank may begin the next round. */
START_TEST(test_what_nccl_refuses_between_the_boxes_stops_all)
{
    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    net.adds_nothing = true;
    net.refuse_on = 3;
    net.refuse_at = (2 * _i + 1) * EACH + 1 + _i % EACH;
    group_create();
    group_must_be_nccls("not box by box: rank 3: ncclAllReduce at the start: an error");
    ck_assert_int_eq(net.refuse_at, 0);
    ck_assert_int_eq(net.all_reduces, 4 * EACH * (_i + 1));
    group_destroy();
}
END_TEST

/* The program's time limit is a day. If rank 3 could not launch its kernel, the other ranks would
 * wait a day for it. So while the ranks measure, kernels wait only a minute. */
START_TEST(test_kernels_wait_a_minute_while_measuring)
{
    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    net.adds_nothing = true;
    group_config.timeout_ms = 86400000;
    group_create();
    must_be_box_by_box();
    ck_assert_uint_eq(fake.launch[fake.launches - 1].args.timeout_ns, 60000000000);
    for (int r = 0; r < 4; r++)
        ck_assert_uint_eq(handle[r]->nodes->box->timeout_ns, 86400000000000);
    group_destroy();
}
END_TEST

/* ---- stalls ---------------------------------------------------------------------------------- */

/* While ${stalls} is set, each rank has a clock of its own from its first all-reduce of 64 KiB on.
 * Only steps advance this clock. A step is the launch of a kernel or a call of NCCL. On rank r a
 * step takes STEP_US * (r + 1), or STALL_US if it stalls. Steps ${good} to ${bad} - 1 do not stall,
 * and all others do. */
enum { STEP_US = 10, STALL_US = 30000 };
static bool stalls;
static int good, bad;
static int all_steps[NET_RANKS]; /* how many steps each rank has made */
static _Thread_local int steps;  /* how many steps the rank of this thread has made */
static _Thread_local long clock_us;

void __real_fake_step(enum fake_what what, const void *stream, const void *from, const void *to,
                      size_t bytes);
void __wrap_fake_step(enum fake_what what, const void *stream, const void *from, const void *to,
                      size_t bytes);
int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

void __wrap_fake_step(enum fake_what what, const void *stream, const void *from, const void *to,
                      size_t bytes)
{
    const bool first = what == FAKE_NCCL && bytes == 1 << 16;
    int rank;

    __real_fake_step(what, stream, from, to, bytes);
    if (!stalls || (what != FAKE_NCCL && what != FAKE_LAUNCH) || (steps == 0 && !first))
        return;
    cudaGetDevice(&rank);
    clock_us += steps >= good && steps < bad ? STEP_US * (rank + 1) : STALL_US;
    all_steps[rank] = ++steps;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    if (steps == 0 || id != CLOCK_MONOTONIC)
        return __real_clock_gettime(id, t);
    *t = (struct timespec){.tv_sec = clock_us / 1000000, .tv_nsec = clock_us % 1000000 * 1000};
    return 0;
}

/* Create a group in which steps ${from} to ${to} - 1 do not stall, and all others do. Return the
 * times that its ranks measure. */
static struct ar_nodes_figures figures_with(int from, int to)
{
    struct ar_nodes_figures figures;

    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    net.adds_nothing = true;
    good = from, bad = to;
    stalls = true;
    group_create();
    stalls = false;
    must_be_box_by_box();
    figures = handle[0]->nodes->figures;
    group_destroy();
    return figures;
}

/* All steps stall, except for a stretch that is as long as two rounds. It begins at about round
 * ${_i}, and so contains all steps of at least one round. So the ranks must measure the same times
 * as without stalls. */
START_TEST(test_one_good_round_is_enough)
{
    const struct ar_nodes_figures fine = figures_with(0, INT_MAX);
    const int round = all_steps[3] / ROUNDS;
    const struct ar_nodes_figures found = figures_with(_i * round, (_i + 2) * round);

    for (int w = 0; w < AR_WAYS; w++)
        for (int i = 0; i < AR_NODES_SIZES; i++)
            ck_assert_float_eq(found.us[w][i], fine.us[w][i]);
    ck_assert_float_eq(fine.us[AR_WAY_NCCL][0], 4 * STEP_US); /* the time of rank 3 */
}
END_TEST

Suite *nodes_suite_measure(void)
{
    Suite *s = suite_create("nodes_measure");
    TCase *t = tcase_create("measure");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_what_fails_while_measuring_stops_all, 0, 14);
    tcase_add_loop_test(t, test_what_nccl_refuses_between_the_boxes_stops_all, 0, ROUNDS);
    tcase_add_test(t, test_kernels_wait_a_minute_while_measuring);
    tcase_add_loop_test(t, test_one_good_round_is_enough, 0, ROUNDS - 1);
    suite_add_tcase(s, t);
    return s;
}
