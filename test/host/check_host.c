/* SPDX-License-Identifier: Apache-2.0 */
/* check_host.c - the built libsymtuner.so under a stand-in for every NCCL release. */
#include <stdio.h>
#include <stdlib.h>

#include "test/host/nccl.h"

int main(int argc, char **argv)
{
    SRunner *runner = srunner_create(order_suite());
    int failed;

    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH/libsymtuner.so\n", argv[0]);
        return 2;
    }
    setenv("SO_UNDER_TEST", argv[1], 1);
    setenv("NCCL_DEBUG", "WARN", 1); /* else warnings go to stderr too */
    srunner_add_suite(runner, rules_host_suite());
    srunner_add_suite(runner, variables_suite());
    srunner_add_suite(runner, threads_suite());
    srunner_add_suite(runner, life_suite());
    srunner_add_suite(runner, agree_suite());
    srunner_set_fork_status(runner, CK_FORK); /* what the plugin finds once is per process */
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
