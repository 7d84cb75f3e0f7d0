/* SPDX-License-Identifier: Apache-2.0 */
/* check_forced.c - tests ranks on several boxes (machines) whose program forces a transport. */
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

Suite *nodes_suite_forced(void)
{
    Suite *s = suite_create("nodes_forced");
    TCase *t = tcase_create("forced");

    tcase_add_test(t, test_a_forced_transport_leaves_nothing);
    suite_add_tcase(s, t);
    return s;
}
