/* SPDX-License-Identifier: Apache-2.0 */
/* check_host.c - runs the built libsymtuner.so with a stand-in for every NCCL release. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/nccl.h"

/* Make a folder, put it into LD_LIBRARY_PATH, and execute this program again. The loader reads that
 * variable only when a process starts. */
static void search_own_folder(char **argv)
{
    static char folder[] = "/tmp/symtuner-libraries-XXXXXX";
    char path[4096];
    const char *before = getenv("LD_LIBRARY_PATH");

    if (getenv("CHECK_HOST_LIBRARIES") || !mkdtemp(folder))
        return;
    snprintf(path, sizeof path, "%s%s%s", folder, before ? ":" : "", before ? before : "");
    setenv("CHECK_HOST_LIBRARIES", folder, 1);
    setenv("LD_LIBRARY_PATH", path, 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    SRunner *runner;
    int failed;

    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH/libsymtuner.so\n", argv[0]);
        return 2;
    }
    search_own_folder(argv);
    runner = srunner_create(order_suite());
    setenv("SO_UNDER_TEST", argv[1], 1);
    setenv("NCCL_DEBUG", "WARN", 1); /* without this setting, warnings also go to stderr */
    srunner_add_suite(runner, rules_host_suite());
    srunner_add_suite(runner, variables_suite());
    srunner_add_suite(runner, copies_suite());
    srunner_add_suite(runner, threads_suite());
    srunner_add_suite(runner, life_suite());
    srunner_add_suite(runner, agree_suite());
    srunner_add_suite(runner, chain_suite());
    srunner_add_suite(runner, chain_which_suite());
    srunner_add_suite(runner, chain_profiler_suite());
    srunner_add_suite(runner, chain_events_suite());
    if (getenv("CHECK_PEERS"))
        srunner_add_suite(runner, chain_peer_suite());
    srunner_add_suite(runner, why_suite());
    /* the plugin looks some things up once per process, so each test needs a process of its own */
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (strncmp(getenv("CHECK_HOST_LIBRARIES"), "/tmp/symtuner-libraries-", 24) == 0)
        rmdir(getenv("CHECK_HOST_LIBRARIES"));
    return failed ? 1 : 0;
}
