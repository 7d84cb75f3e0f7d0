/* SPDX-License-Identifier: Apache-2.0 */
/* check_measure.c - tests what happens if a rank has an error while the ranks measure the network
 * before the first call. */
#include <check.h>
#include <stdlib.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"

#define RULE "kernels network-pieces=2"

enum { OVER_ALL = 21 }; /* number of all-reduces over all ranks; as many between the boxes follow */

static void must_be_box_by_box(void)
{
    for (int r = 0; r < net.ranks; r++) {
        ck_assert_msg(created[r] == ncclSuccess, "rank %d: %s", r, created_error[r]);
        ck_assert_msg(handle[r]->nodes != NULL, "rank %d: %s", r, handle[r]->gate);
    }
}

/* Create the handles while call number ${at} of rank 3 to CUDA fails; 0: none fails. Returns how
 * many calls to CUDA rank 3 has made. */
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

/* In each round, another call of rank 3 to CUDA fails. The first of these calls comes shortly
 * before the ranks measure. The other ranks must not wait for rank 3 in ncclAllReduce, and all must
 * go on alike. */
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

/* In each round, NCCL refuses another all-reduce between the boxes on rank 3. */
START_TEST(test_what_nccl_refuses_between_the_boxes_stops_all)
{
    group_reset(4, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    net.adds_nothing = true;
    net.refuse_on = 3;
    net.refuse_at = OVER_ALL + 1 + 4 * _i;
    group_create();
    group_must_be_nccls("not box by box: rank 3: ncclAllReduce at the start: an error");
    ck_assert_int_eq(net.refuse_at, 0);
    group_destroy();
}
END_TEST

/* The program's time limit is a day. If rank 3 could not launch its kernel, the others would wait
 * for it a day. So while the ranks measure, kernels wait only a minute. */
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

Suite *nodes_suite_measure(void)
{
    Suite *s = suite_create("nodes_measure");
    TCase *t = tcase_create("measure");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_what_fails_while_measuring_stops_all, 0, 14);
    tcase_add_loop_test(t, test_what_nccl_refuses_between_the_boxes_stops_all, 0, 6);
    tcase_add_test(t, test_kernels_wait_a_minute_while_measuring);
    suite_add_tcase(s, t);
    return s;
}
