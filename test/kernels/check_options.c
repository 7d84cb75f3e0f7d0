/* SPDX-License-Identifier: Apache-2.0 */
/* check_options.c - checks right and wrong values of the environment variables SYMTUNER_AR_*. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host/options.h"
#include "test/kernels/suites.h"

static const struct {
    const char *name, *value, *error;
} bad[] = {
    {"SYMTUNER_AR_KERNEL", "oneshot",
     "SYMTUNER_AR_KERNEL=\"oneshot\" is unknown; write one of nccl"},
    {"SYMTUNER_AR_CTAS", "0", "SYMTUNER_AR_CTAS=\"0\" is not a number from 1 to 512"},
    {"SYMTUNER_AR_CTAS", "-1", "SYMTUNER_AR_CTAS=\"-1\""},
    {"SYMTUNER_AR_CTAS", "8x", "SYMTUNER_AR_CTAS=\"8x\""},
    {"SYMTUNER_AR_CTAS", " +7", "SYMTUNER_AR_CTAS=\" +7\""},
    {"SYMTUNER_AR_CTAS", "+7", "SYMTUNER_AR_CTAS=\"+7\""},
    {"SYMTUNER_AR_TIMEOUT_MS", "10s", "SYMTUNER_AR_TIMEOUT_MS=\"10s\" is not a number"},
    {"SYMTUNER_AR_TRANSPORT", "shm", "write one of auto peer host"},
    {"SYMTUNER_AR_LINKS", "nvswitch", "write one of nvlink pcie"},
    {"SYMTUNER_AR_IPC", "2", "write one of 0 1 auto"},
};

START_TEST(test_bad_environment_names_the_word_and_the_cure)
{
    struct ar_options options;
    char why[200] = "";

    setenv(bad[_i].name, bad[_i].value, 1);
    ck_assert_int_eq(ar_options_read(&options, why, sizeof why), -1);
    ck_assert_msg(strstr(why, bad[_i].error) != NULL, "row %d: got \"%s\"", _i, why);
    unsetenv(bad[_i].name);
}
END_TEST

START_TEST(test_good_environment_is_taken_over)
{
    struct ar_options options;
    char why[200];

    setenv("SYMTUNER_AR_KERNEL", "two_lamport", 1);
    setenv("SYMTUNER_AR_CTAS", "48", 1);
    setenv("SYMTUNER_AR_TIMEOUT_MS", "2000", 1);
    setenv("SYMTUNER_AR_TRANSPORT", "host", 1);
    ck_assert_int_eq(ar_options_read(&options, why, sizeof why), 0);
    ck_assert_int_eq(options.force.family, AR_TWO_LAMPORT);
    ck_assert_int_eq(options.force.ctas, 48);
    ck_assert_int_eq(options.timeout_ms, 2000);
    ck_assert_int_eq(options.transport, 2);
    ck_assert_int_eq(options.links, -1);
}
END_TEST

Suite *st_suite_options(void)
{
    Suite *s = suite_create("ar_options");
    TCase *t = tcase_create("all");

    tcase_add_loop_test(t, test_bad_environment_names_the_word_and_the_cure, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(t, test_good_environment_is_taken_over);
    suite_add_tcase(s, t);
    return s;
}
