/* SPDX-License-Identifier: Apache-2.0 */
/* check_forced.c - tests ranks on several boxes (machines) whose program forces a transport
 * or a kernel. */
#include <check.h>
#include <string.h>

#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"

/* No transport reaches another box, so creation fails. When it does, the handles of the boxes have
 * already been made. group_destroy checks that nothing is left of them. */
START_TEST(test_a_forced_transport_leaves_nothing)
{
    group_reset(4, 2, "kernels network-pieces=2");
    group_config.transport = SYMTUNER_AR_PEER;
    group_create();
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(created[r], ncclInvalidUsage);
        ck_assert_msg(strstr(created_error[r], "transport peer was asked for") != NULL, "%s",
                      created_error[r]);
    }
    group_destroy();
}
END_TEST

/* The kernel is forced on the handle of the box only, so that the query finds out late that it must
 * fail. */
START_TEST(test_a_query_that_fails_leaves_the_plan)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan, .pieces = 7, .why = "before"};
    char *memory = (char *)((uintptr_t)1 << 40);

    group_reset(4, 2, "kernels network-pieces=2");
    group_create();
    symtuner_ar_force(handle[0]->nodes->box, "pull", 0, 0);
    ck_assert_int_eq(
        symtuner_ar_query(memory, memory, 1 << 20, ncclFloat, ncclSum, handle[0], &plan),
        ncclInvalidUsage);
    ck_assert_str_eq(plan.why, "before");
    ck_assert_int_eq(plan.pieces, 7);
    group_destroy();
}
END_TEST

Suite *nodes_suite_forced(void)
{
    Suite *s = suite_create("nodes_forced");
    TCase *t = tcase_create("forced");

    tcase_add_test(t, test_a_forced_transport_leaves_nothing);
    tcase_add_test(t, test_a_query_that_fails_leaves_the_plan);
    suite_add_tcase(s, t);
    return s;
}
