/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_lost.c - tests ranks on several boxes (machines) after some of the ranks were lost. Every
 * other rank must get an error, from symtuner_ar_status or symtuner_ar_destroy. symtuner_ar_abort
 * and ncclCommAbort must end what still runs on its GPU.
 *
 * An example: ranks 0 and 1 are in one box, ranks 2 and 3 in the other, and rank 3 is lost. The
 * kernel of rank 2 waits for rank 3, and gives up after the time limit. Rank 2 still makes its NCCL
 * call, so rank 0, which makes this call with it, goes on. Rank 0 then waits in its box for rank 1,
 * whose NCCL call waits for rank 3. After one more time limit, rank 0 gives up. symtuner_ar_status
 * does not notice that the call of rank 1 waits in NCCL. symtuner_ar_destroy notices this after one
 * time limit.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"

enum { RANKS = 4, LIMIT_MS = 3000, COUNT = 1000 };

/* ${status} is a part of the error that a rank gets from symtuner_ar_status. NULL: it gets none,
 * because the rank's call waits in NCCL. */
static const struct {
    bool lost[RANKS];
    const char *status[RANKS];
} cases[] = {
    {.lost = {[2] = true, [3] = true}},
    {.lost = {[3] = true}, .status = {[0] = "in the box", [2] = "in the box"}},
};

static int now; /* the index of the case that runs */
static float send[RANKS][COUNT], recv[RANKS][COUNT];
static cudaStream_t stream[RANKS];
static ncclResult_t result[RANKS];
static char error[RANKS][256];
static double seconds[RANKS];
static bool by_status[RANKS];

/* LeakSanitizer calls this at the end of each test's process. If a call never ends, its handle
 * frees nothing, so leaks are ignored then. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
static int frees_nothing;

int __lsan_is_turned_off(void)
{
    return frees_nothing;
}

static double time_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static ncclResult_t call(int r)
{
    return symtuner_ar_all_reduce(send[r], recv[r], COUNT, ncclFloat, ncclSum, handle[r],
                                  stream[r]);
}

static void good_call(int r)
{
    cudaSetDevice(r);
    cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
    result[r] = call(r);
    cudaStreamSynchronize(stream[r]);
}

/* Make a call on rank ${r} while other ranks are lost. Ask for the status until there is an error,
 * or until the time is over. If there was no error, destroy the handle. */
static void call_alone(int r)
{
    const double start = time_s(), limit = LIMIT_MS / 1000.0;
    const double until = start + (cases[now].status[r] != NULL ? 2 * limit + 5 : limit + 0.5);

    if (cases[now].lost[r])
        return;
    result[r] = call(r);
    while (result[r] == ncclSuccess && time_s() < until) {
        usleep(10000);
        result[r] = symtuner_ar_status(handle[r]);
        by_status[r] = result[r] != ncclSuccess;
    }
    snprintf(error[r], sizeof error[r], "%s", symtuner_ar_error(handle[r]));
    if (result[r] == ncclSuccess) {
        result[r] = symtuner_ar_destroy(&handle[r], 1);
        snprintf(error[r], sizeof error[r], "%s", symtuner_ar_error(NULL));
    }
    seconds[r] = time_s() - start;
}

static void abort_one(int r)
{
    if (!cases[now].lost[r] && handle[r] != NULL)
        symtuner_ar_abort(handle[r]);
    if (!cases[now].lost[r])
        group_abort(r);
    cudaStreamSynchronize(stream[r]);
}

START_TEST(test_survivors_get_an_error)
{
    char limit[16];

    now = _i;
    frees_nothing = 1;
    snprintf(limit, sizeof limit, "%d", LIMIT_MS);
    group_reset(RANKS, 2, "kernels kernel=one_ll8 ctas=2 threads=64; kernels network-pieces=2");
    setenv("SYMTUNER_AR_TIMEOUT_MS", limit, 1);
    fake.arch = 90;
    whole_nccl.limit_s = 60; /* the fake NCCL waits longer than this test */
    group_create();
    for (int r = 0; r < RANKS; r++)
        ck_assert(created[r] == ncclSuccess && handle[r]->nodes != NULL);
    net_threads(good_call);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(result[r], ncclSuccess);
    net_threads(call_alone);
    for (int r = 0; r < RANKS; r++) {
        if (cases[_i].lost[r])
            continue;
        ck_assert_msg(result[r] == ncclRemoteError, "rank %d: %d, %s", r, result[r], error[r]);
        ck_assert_msg(by_status[r] == (cases[_i].status[r] != NULL), "rank %d: %s", r, error[r]);
        ck_assert_msg(strstr(error[r], by_status[r] ? cases[_i].status[r]
                                                    : "ncclCommAbort ends them") != NULL,
                      "rank %d: %s", r, error[r]);
        ck_assert_double_lt(seconds[r], 2 * LIMIT_MS / 1000.0 + 10);
    }
    ck_assert(!whole_nccl.hung);
    net_threads(abort_one);
    ck_assert(!whole_nccl.hung);
}
END_TEST

static void call_in_the_first_box(int r)
{
    if (r >= 2)
        return;
    result[r] = call(r);
    usleep(100000);
    ck_assert_int_eq(cudaStreamQuery(stream[r]), cudaErrorNotReady);
}

/* End a call that only the ranks of the first box have made. It waits in NCCL for the other box. It
 * runs on a communicator of the library, so ncclCommAbort on the program's communicator alone would
 * not end it. */
static void abort_and_discard(int r)
{
    symtuner_ar *list[2] = {NULL};

    symtuner_ar_abort(handle[r]);
    symtuner_ar_abort(handle[r]); /* a second abort must do nothing */
    ck_assert_int_eq(symtuner_ar_reserve(&handle[r], 1, COUNT), ncclInvalidUsage);
    ck_assert_int_eq(call(r), ncclInvalidUsage);
    group_abort(r);
    cudaStreamSynchronize(stream[r]);
    cudaStreamDestroy(stream[r]);
    if (r % 2) {
        symtuner_ar_discard(&handle[r], 1);
        ck_assert_ptr_null(handle[r]);
        return;
    }
    ck_assert_int_eq(symtuner_ar_create_local(&list[1], &r, 1, NULL), ncclSuccess);
    list[0] = handle[r];
    symtuner_ar_destroy(list, 1);
    ck_assert_ptr_null(list[0]);
    ck_assert_ptr_nonnull(list[1]); /* this handle is not in the list */
    symtuner_ar_destroy(&list[1], 1);
}

START_TEST(test_an_abort_ends_calls_that_wait_for_a_box)
{
    const double start = time_s();
    symtuner_ar *none = NULL;

    group_reset(RANKS, 2, "kernels kernel=one_ll8 ctas=2 threads=64; kernels network-pieces=2");
    fake.arch = 90;
    whole_nccl.limit_s = 60;
    group_create();
    net_threads(good_call);
    net_threads(call_in_the_first_box);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(result[r], ncclSuccess);
    net_threads(abort_and_discard);
    ck_assert(!whole_nccl.hung);
    ck_assert_double_lt(time_s() - start, 30);
    ck_assert_int_eq(symtuner_ar_destroy(&none, 1), ncclSuccess); /* frees what was discarded */
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(whole_nccl.live, 0);
}
END_TEST

/* Let the first all-reduce over the network take longer than the ranks' time limit. */
static bool answers_late(const struct whole_call *call)
{
    static int reduces;

    if (call->kind == WHOLE_ALL_REDUCE && __atomic_fetch_add(&reduces, 1, __ATOMIC_RELAXED) == 0)
        usleep(2 * LIMIT_MS * 1000);
    return true;
}

static void reset_with_limit(void)
{
    frees_nothing = 1;
    group_reset(RANKS, 2, NULL);
    setenv("SYMTUNER_AR_NODES", "1", 1);
    group_config.timeout_ms = LIMIT_MS;
}

START_TEST(test_measuring_ends_at_the_time_limit)
{
    const double start = time_s();

    reset_with_limit();
    whole_nccl.collective = answers_late;
    group_create();
    ck_assert_double_lt(time_s() - start, LIMIT_MS / 1000.0 + 10);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(created[r], ncclRemoteError);
        ck_assert_ptr_null(handle[r]);
        ck_assert_msg(strstr(created_error[r],
                             "measure at the start: still in progress after 3000 ms") != NULL,
                      "rank %d: %s", r, created_error[r]);
    }
}
END_TEST

/* On rank 3 NCCL refuses one of the all-reduces over all ranks. These run on the program's
 * communicator, which the library must not abort. */
START_TEST(test_measuring_ends_if_nccl_refuses_a_call)
{
    const double start = time_s();

    reset_with_limit();
    whole_nccl.limit_s = 60;
    net.refuse_on = 3;
    net.refuse_at = 5;
    group_create();
    ck_assert_double_lt(time_s() - start, LIMIT_MS / 1000.0 + 10);
    ck_assert(!whole_nccl.hung);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(created[r], r == 3 ? ncclSystemError : ncclRemoteError);
        ck_assert_ptr_null(handle[r]);
        ck_assert_msg(strstr(created_error[r], r == 3 ? "ncclAllReduce at the start: an error"
                                                      : "measure at the start") != NULL,
                      "rank %d: %s", r, created_error[r]);
    }
    net_threads(group_abort);
}
END_TEST

Suite *nodes_suite_lost(void)
{
    Suite *s = suite_create("nodes_lost");
    TCase *t = tcase_create("lost");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_survivors_get_an_error, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, test_measuring_ends_at_the_time_limit);
    tcase_add_test(t, test_measuring_ends_if_nccl_refuses_a_call);
    tcase_add_test(t, test_an_abort_ends_calls_that_wait_for_a_box);
    suite_add_tcase(s, t);
    return s;
}
