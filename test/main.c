/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - runs every suite of suites.h; exits with 1 if a test failed. */
#include "test/suites.h"

typedef Suite *(*suite_of)(void);

#define ENTRY(name) name##_suite,
static const suite_of pure[] = {PURE_SUITES(ENTRY)};
static const suite_of process[] = {PROCESS_SUITES(ENTRY)};

static int run(const suite_of *suites, size_t count, int always_fork)
{
    SRunner *runner = srunner_create(NULL);
    int failed;

    for (size_t i = 0; i < count; i++)
        if (suites[i])
            srunner_add_suite(runner, suites[i]());
    if (always_fork)
        srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed;
}

int main(void)
{
    int failed = run(pure, sizeof pure / sizeof *pure, 0);

    failed += run(process, sizeof process / sizeof *process, 1);
    return failed ? 1 : 0;
}
