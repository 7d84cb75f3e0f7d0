/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - runs the suites of check-ar. */
#include <stdlib.h>

#include "test/kernels/suites.h"

/* LeakSanitizer calls these functions. They tell it to ignore leaks below functions whose names
 * contain never_ends. In such functions a kernel never ends, so the library must not free the
 * memory that this kernel could still use. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:never_ends\n";
}

const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}

int main(void)
{
    SRunner *runner = srunner_create(st_suite_layout());
    int failed;

    srunner_add_suite(runner, st_suite_select());
    srunner_add_suite(runner, st_suite_choices());
    srunner_add_suite(runner, st_suite_options());
    srunner_add_suite(runner, st_suite_rules());
    srunner_add_suite(runner, st_suite_rules_coll());
    srunner_add_suite(runner, st_suite_probe());
    srunner_add_suite(runner, st_suite_probe_file());
#ifdef ST_AR_API
    srunner_add_suite(runner, st_suite_api());
    srunner_add_suite(runner, st_suite_abort());
    srunner_add_suite(runner, st_suite_destroy());
    srunner_add_suite(runner, st_suite_signals());
    srunner_add_suite(runner, st_suite_exit());
    srunner_add_suite(runner, st_suite_comm());
    srunner_add_suite(runner, st_suite_bootstrap());
    srunner_add_suite(runner, st_suite_window());
    srunner_add_suite(runner, st_suite_overlaps());
    srunner_add_suite(runner, st_suite_windows());
    srunner_add_suite(runner, st_suite_nccl());
    srunner_add_suite(runner, st_suite_call());
    srunner_add_suite(runner, st_suite_nccl_wait());
    srunner_add_suite(runner, st_suite_alike());
    srunner_add_suite(runner, st_suite_graph());
    srunner_add_suite(runner, st_suite_mixing());
    srunner_add_suite(runner, st_suite_follower());
    srunner_add_suite(runner, st_suite_multicast());
    srunner_add_suite(runner, st_suite_dropin());
    srunner_add_suite(runner, st_suite_halves());
    srunner_add_suite(runner, st_suite_operator());
    srunner_add_suite(runner, st_suite_grow());
    srunner_add_suite(runner, st_suite_grow_local());
    srunner_add_suite(runner, st_suite_ipc());
    srunner_add_suite(runner, st_suite_agree());
    srunner_add_suite(runner, st_suite_ipc_auto());
    srunner_add_suite(runner, st_suite_post());
    srunner_add_suite(runner, st_suite_vmm());
    srunner_add_suite(runner, st_suite_heap());
#endif
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
