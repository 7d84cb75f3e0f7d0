/* SPDX-License-Identifier: Apache-2.0 */
/* check_options.c - checks right and wrong values of the environment variables SYMTUNER_AR_*, and
 * what SYMTUNER_AR_SHARE_GPU does. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host/options.h"
#include "symtuner_ar.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
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
    {"SYMTUNER_AR_SHARE_GPU", "2", "SYMTUNER_AR_SHARE_GPU=\"2\" is not a number from 0 to 1"},
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

enum { SETTINGS = 2 }; /* in their second all-gather the ranks exchange their settings */

/* Make handles of two ranks, on one GPU if ${one_gpu}, and free them again. Both ranks have
 * SYMTUNER_AR_SHARE_GPU=${value}. In all-gather ${keep} the fake stores what rank 1 sends; in
 * all-gather ${say} it sends what was stored. Return why a call would go to NCCL, or to which
 * kernel it would go. */
static const char *where_calls_go(bool one_gpu, const char *value, int keep, int say)
{
    static struct symtuner_ar_plan plan;
    static char memory[4096];
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2};
    symtuner_ar *h[2];

    memset(&fake, 0, sizeof fake);
    fake_nccl_reset(2);
    fake_nccl.one_gpu = one_gpu;
    fake_nccl.keep = keep;
    fake_nccl.say = say;
    fake.devices = 2;
    fake.peers = 1;
    setenv("SYMTUNER_AR_SHARE_GPU", value, 1);
    ck_assert_msg(symtuner_ar_create(h, comms, 2, NULL) == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
    unsetenv("SYMTUNER_AR_SHARE_GPU");
    plan = (struct symtuner_ar_plan){.size = sizeof plan};
    ck_assert_int_eq(symtuner_ar_query(memory, memory, 64, ncclFloat, ncclSum, h[1], &plan),
                     ncclSuccess);
    symtuner_ar_destroy(h, 2);
    return strcmp(plan.kernel, "nccl") == 0 ? plan.why : plan.kernel;
}

START_TEST(test_ranks_share_a_gpu_only_if_all_ask_for_it)
{
    static const char refused[] =
        "several ranks are on one GPU, and not all of them have SYMTUNER_AR_SHARE_GPU=1; NCCL adds "
        "in an order of its own";

    ck_assert_str_eq(where_calls_go(false, "", 0, 0), "one_ll8");
    ck_assert_str_eq(where_calls_go(true, "", 0, 0), refused);
    ck_assert_str_eq(where_calls_go(true, "0", 0, 0), refused);
    ck_assert_str_eq(where_calls_go(true, "1", SETTINGS, 0), "one_ll8");
    ck_assert_str_eq(where_calls_go(true, "0", 0, SETTINGS), refused); /* rank 1 asks, rank 0 not */
    where_calls_go(true, "0", SETTINGS, 0);
    ck_assert_str_eq(where_calls_go(true, "1", 0, SETTINGS), refused);
}
END_TEST

Suite *st_suite_options(void)
{
    Suite *s = suite_create("ar_options");
    TCase *t = tcase_create("all");

    tcase_add_loop_test(t, test_bad_environment_names_the_word_and_the_cure, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(t, test_good_environment_is_taken_over);
    tcase_add_test(t, test_ranks_share_a_gpu_only_if_all_ask_for_it);
    suite_add_tcase(s, t);
    return s;
}
