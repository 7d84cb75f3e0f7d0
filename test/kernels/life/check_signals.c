/* SPDX-License-Identifier: Apache-2.0 */
/* check_signals.c - checks that signals for the program do not reach the library's threads. */
#include <check.h>
#include <string.h>

#include "kernels/group/gpu_wait.h"
#include "kernels/group/multicast.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/suites.h"
#include "test/base/signals.h"

START_TEST(test_the_thread_that_waits_for_a_gpu)
{
    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    __atomic_store_n(&fake.busy, 2, __ATOMIC_RELEASE);
    ck_assert_int_eq(threads_with_signals(), 1);
    ck_assert_int_eq(ar_gpu_wait(1, 100000000), cudaErrorNotReady); /* its thread still waits */
    ck_assert_int_eq(threads_with_signals(), 1);
    __atomic_store_n(&fake.busy, 0, __ATOMIC_RELEASE);
}
END_TEST

START_TEST(test_the_threads_that_ask_for_multicast)
{
    static symtuner_ar rank[3];
    symtuner_ar *handles[] = {&rank[0], &rank[1], &rank[2]};
    const struct ar_window windows[3] = {0};
    struct ar_multicast m;
    char why[AR_WHY];

    ck_assert_int_eq(threads_with_signals(), 1);
    ck_assert_int_eq(ar_multicast_begin(&m, handles, windows, 3, why), ncclSuccess);
    ck_assert_int_eq(threads_with_signals(), 1);
    ar_multicast_end(&m, false);
}
END_TEST

Suite *st_suite_signals(void)
{
    Suite *s = suite_create("ar_signals");
    TCase *t = tcase_create("signals");

    tcase_add_test(t, test_the_thread_that_waits_for_a_gpu);
    tcase_add_test(t, test_the_threads_that_ask_for_multicast);
    suite_add_tcase(s, t);
    return s;
}
