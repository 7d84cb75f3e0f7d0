/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_meet.c - ranks that each have a thread, on fake_nccl.c: whatever fails on one of them, no
 * other waits for it for ever, and all learn why.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ar_handle.h"
#include "test/ar/fake_cuda.h"
#include "test/ar/fake_nccl.h"
#include "test/ar/suites.h"

enum { RANKS = 3 };

static struct {
    struct symtuner_ar_config config;
    symtuner_ar *handle;
    ncclResult_t result;
    char error[256], text[8192];
} at[RANKS];

static void reset(void)
{
    setenv("SYMTUNER_LOG", "off", 1);
    memset(at, 0, sizeof at);
    memset(&fake, 0, sizeof fake);
    fake.devices = RANKS;
    fake.peers = 1;
    fake_nccl_reset(RANKS);
    for (int r = 0; r < RANKS; r++)
        at[r].config =
            (struct symtuner_ar_config){.size = sizeof at[r].config, .bulk_bytes = 1 << 20};
}

static void create(int r)
{
    const ncclComm_t comm = (ncclComm_t)(uintptr_t)(r + 1);

    at[r].result = symtuner_ar_create(&at[r].handle, &comm, 1, &at[r].config);
    strcpy(at[r].error, symtuner_ar_error(NULL));
    if (at[r].result == ncclSuccess)
        symtuner_ar_describe(at[r].handle, at[r].text, sizeof at[r].text);
}

static void destroy(int r)
{
    symtuner_ar_destroy(&at[r].handle, 1);
}

/* With a sentence for whatever is not as it must be after every creation. */
static const char *wrong(void)
{
    for (int r = 0; r < RANKS; r++) {
        if ((at[r].result == ncclSuccess) != (at[0].result == ncclSuccess))
            return "one rank has a handle and another has none";
        if (at[r].result == ncclSuccess &&
            strcmp(strchr(at[r].text, '\n'), strchr(at[0].text, '\n')) != 0)
            return "ranks describe different groups";
    }
    return fake_nccl.hung ? "ranks wait for each other" : fake_nccl.depth ? "open group" : NULL;
}

static void finish(void)
{
    ck_assert_msg(wrong() == NULL, "%s; rank 0: %s", wrong(), at[0].error);
    if (at[0].result == ncclSuccess)
        fake_nccl_threads(destroy);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
}

static void all_fail_with(ncclResult_t own, int rank, const char *reason)
{
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(at[r].result, r == rank || rank < 0 ? own : ncclRemoteError);
        ck_assert_msg(strstr(at[r].error, reason) != NULL, "\"%s\" is not in \"%s\"", reason,
                      at[r].error);
    }
    finish();
}

START_TEST(test_ranks_of_threads_make_a_group)
{
    reset();
    fake_nccl_threads(create);
    ck_assert_int_eq(at[1].result, ncclSuccess);
    ck_assert_ptr_nonnull(strstr(at[1].text, "transport: NVLink peer memory\n"));
    finish();
}
END_TEST

START_TEST(test_a_rank_that_cannot_start_tells_the_others)
{
    reset();
    at[1].config.transport = 9;
    fake_nccl_threads(create);
    all_fail_with(ncclInvalidArgument, 1, "rank 1: config.transport 9 is unknown");
}
END_TEST

/* The first, second, ... CUDA call of rank 1: of creation, of a probe, of host memory. */
START_TEST(test_whatever_fails_on_one_rank_nobody_hangs)
{
    static const int transports[] = {SYMTUNER_AR_AUTO, SYMTUNER_AR_PEER, SYMTUNER_AR_HOST,
                                     SYMTUNER_AR_PEER};
    int failures = 0;

    if (_i == 3)
        setenv("SYMTUNER_AR_PROBE", "1", 1);
    for (int call = 1;; call++) {
        reset();
        fake.fail_on = 2;
        fake.fail_at = call;
        for (int r = 0; r < RANKS; r++)
            at[r].config.transport = transports[_i];
        fake_nccl_threads(create);
        ck_assert_msg(wrong() == NULL, "call %d fails: %s", call, wrong());
        if (at[0].result != ncclSuccess) {
            ck_assert_msg(strstr(at[0].error, "rank 1") != NULL, "%s", at[0].error);
            failures++;
        }
        finish();
        if (fake.calls < call)
            break;
    }
    unsetenv("SYMTUNER_AR_PROBE");
    ck_assert_int_gt(failures, 5);
}
END_TEST

START_TEST(test_a_full_gpu_is_no_hang_and_no_secret)
{
    for (int asked = SYMTUNER_AR_AUTO; asked <= SYMTUNER_AR_PEER; asked++) {
        reset();
        fake_nccl.no_memory = 2;
        for (int r = 0; r < RANKS; r++)
            at[r].config.transport = asked;
        fake_nccl_threads(create);
        if (asked == SYMTUNER_AR_PEER) {
            all_fail_with(ncclInvalidUsage, -1, "transport=peer asks for: rank 2: ");
            continue;
        }
        ck_assert_int_eq(at[0].result, ncclSuccess);
        ck_assert_ptr_nonnull(strstr(at[0].text, "pinned host memory; no peer memory: rank 2: "));
        ck_assert_ptr_nonnull(strstr(at[0].text, "scratch from ncclMemAlloc"));
        finish();
    }
}
END_TEST

START_TEST(test_a_window_that_fails_on_one_rank_fails_on_all)
{
    reset();
    fake_nccl.no_window = 0;
    fake_nccl_threads(create);
    ck_assert_int_eq(at[1].result, ncclSuccess);
    ck_assert_ptr_nonnull(strstr(at[1].text, "no peer memory: rank 0: ncclCommWindowRegister of"));
    finish();
}
END_TEST

Suite *st_suite_meet(void)
{
    Suite *suite = suite_create("ar_meet");
    TCase *t = tcase_create("create");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_ranks_of_threads_make_a_group);
    tcase_add_test(t, test_a_rank_that_cannot_start_tells_the_others);
    tcase_add_loop_test(t, test_whatever_fails_on_one_rank_nobody_hangs, 0, 4);
    tcase_add_test(t, test_a_full_gpu_is_no_hang_and_no_secret);
    tcase_add_test(t, test_a_window_that_fails_on_one_rank_fails_on_all);
    suite_add_tcase(suite, t);
    return suite;
}
