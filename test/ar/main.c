/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - run the suites of check-ar. */
#include <stdio.h>
#include <stdlib.h>

#include "test/ar/suites.h"

int main(void)
{
    SRunner *runner = srunner_create(st_suite_shape());
    int failed;

    srunner_add_suite(runner, st_suite_select());
    srunner_add_suite(runner, st_suite_rules());
    srunner_add_suite(runner, st_suite_probe());
#if __has_include(<cuda_runtime_api.h>) && __has_include(<nccl.h>)
    srunner_add_suite(runner, st_suite_api());
    srunner_add_suite(runner, st_suite_comm());
#else
    puts("check-ar: ar_api skipped, needs cuda_runtime_api.h and nccl.h");
#endif
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
