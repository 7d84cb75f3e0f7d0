/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - runs the suites of check-nodes. */
#include <stdlib.h>

#include "test/kernels/nodes/suites.h"

int main(void)
{
    SRunner *runner = srunner_create(nodes_suite_model());
    int failed;

    srunner_add_suite(runner, nodes_suite_create());
    srunner_add_suite(runner, nodes_suite_forced());
    srunner_add_suite(runner, nodes_suite_measure());
    srunner_add_suite(runner, nodes_suite_call());
    srunner_add_suite(runner, nodes_suite_late());
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
