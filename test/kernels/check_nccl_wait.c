/* SPDX-License-Identifier: Apache-2.0 */
/* check_nccl_wait.c - tests communicators with blocking = 0 (test/kernels/fake/nccl.c). The library
 * must wait for NCCL, but not for ever, and call nothing on a communicator that is in progress. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

enum { RANKS = 2, LIMIT_MS = 150, SLACK_MS = 5000 /* how late a busy machine may be */ };

static char memory[RANKS][8192] __attribute__((aligned(4096)));
static symtuner_ar *handle[RANKS];
static struct symtuner_ar_config config;
static const ncclComm_t comm[RANKS] = {(ncclComm_t)1, (ncclComm_t)2};
static void *const buffer[RANKS] = {memory[0], memory[1]};

static struct outcome {
    ncclResult_t result;
    const char *step; /* the first step that failed; NULL: no step failed */
    char error[256];
} of[RANKS]; /* [rank] if each rank has a thread; otherwise [0] is for all ranks */

static void reset(int polls)
{
    setenv("SYMTUNER_LOG", "off", 1);
    memset(&fake, 0, sizeof fake);
    fake.devices = RANKS;
    fake.peers = 1;
    fake_nccl_reset(RANKS);
    fake_nccl.polls = polls;
    fake_nccl.odd_rank = -1;
    memset(handle, 0, sizeof handle);
    memset(of, 0, sizeof of);
    config = (struct symtuner_ar_config){
        .size = sizeof config, .bulk_bytes = 1 << 20, .timeout_ms = LIMIT_MS};
}

/* Choose how the ${call}-th call on ${rank} from now on ends. ncclInProgress: the call never ends.
 * An error: the call ends with it. ncclSuccess: the call ends well, but the kernel of its
 * all-gather never ends. */
static void odd(int rank, int call, ncclResult_t end)
{
    fake_nccl.odd_rank = rank;
    fake_nccl.calls = 0;
    fake_nccl.odd_call = call;
    fake_nccl.odd_end = end;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void note(int rank, const char *step, ncclResult_t result, const symtuner_ar *h)
{
    if (result == ncclSuccess || of[rank].step != NULL)
        return;
    of[rank].result = result;
    of[rank].step = step;
    strcpy(of[rank].error, symtuner_ar_error(h));
}

/* Create ${n} handles from rank ${first} on, use them and destroy them, all in this thread. If a
 * step after the creation fails, skip the other steps up to symtuner_ar_destroy. */
static void live(int first, int n)
{
    symtuner_ar **h = &handle[first];

    note(first, "create", symtuner_ar_create(h, &comm[first], n, &config), NULL);
    if (of[first].step != NULL)
        return;
    note(first, "register", symtuner_ar_register(h, &buffer[first], NULL, n, sizeof memory[0]),
         h[0]);
    for (int i = 0; i < n && of[first].step == NULL; i++) {
        struct symtuner_ar_plan plan = {.size = sizeof plan};
        char *p = memory[first + i];

        symtuner_ar_force(h[i], "chunked", 0, 0);
        note(first, "query", symtuner_ar_query(p, p, 1024, ncclFloat, ncclSum, h[i], &plan), h[i]);
        must(plan.zero_copy == 1);
        for (int r = 0; r < RANKS; r++)
            must(ar_window_find(h[i], p, 1)->peer[r] == memory[r]);
        symtuner_ar_force(h[i], "nccl", 0, 0);
        for (int k = 0; k < 2; k++)
            note(first, "all_reduce",
                 symtuner_ar_all_reduce(p, p, 1024, ncclFloat, ncclSum, h[i], NULL), h[i]);
    }
    if (of[first].step == NULL)
        note(first, "deregister", symtuner_ar_deregister(h, &buffer[first], n), h[0]);
    note(first, "destroy", symtuner_ar_destroy(h, n), NULL);
    for (int i = 0; i < n; i++)
        must(h[i] == NULL);
}

static void live_alone(int rank)
{
    live(rank, 1);
}

/* LeakSanitizer ignores what is allocated below this function: its name contains never_ends
 * (main.c). */
static __attribute__((noinline)) void live_where_one_never_ends(int rank)
{
    live(rank, 1);
    must(handle[rank] == NULL);
}

static void all_is_well(void)
{
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(of[r].step == NULL, "rank %d: %s: %s", r, of[r].step, of[r].error);
    ck_assert_int_eq(fake_nccl.early, 0);
    ck_assert_int_eq(fake_nccl.depth, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_nccl.reduces, 2 * RANKS);
}

START_TEST(test_a_thread_of_several_ranks_waits_for_every_call)
{
    reset(_i);
    config.timeout_ms = 0;
    live(0, RANKS);
    all_is_well();
}
END_TEST

START_TEST(test_ranks_of_threads_wait_for_every_call)
{
    reset(_i);
    config.timeout_ms = 0;
    fake_nccl_threads(live_alone);
    all_is_well();
}
END_TEST

/* Check that ${error} names an NCCL call that ${step} makes. */
static void names_the_call(const char *step, const char *error)
{
    static const char *const calls[][2] = {
        {"create", "not a usable communicator"},        {"create", "ncclAllGather"},
        {"create", "ncclCommWindowRegister"},           {"register", "ncclAllGather"},
        {"register", "ncclCommWindowRegister of 8192"}, {"all_reduce", "ncclAllReduce"},
        {"deregister", "ncclAllGather"},                {"deregister", "ncclCommWindowDeregister"},
        {"destroy", "ncclCommWindowDeregister"},
    };
    bool named = false;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        named = named || (strcmp(step, calls[i][0]) == 0 && strstr(error, calls[i][1]) != NULL);
    ck_assert_msg(named, "%s: %s", step, error);
}

/* In round n, call number n on the communicator of rank 1 never ends. The test is over when all
 * steps of live() together make fewer than n calls. */
START_TEST(test_a_call_that_never_ends_is_an_error_in_time)
{
    int steps = 0;
    const char *last = "";
    ncclResult_t state;

    if (_i == 1)
        setenv("SYMTUNER_AR_PROBE", "1", 1);
    for (int call = 1;; call++) {
        double start;

        reset(2);
        odd(1, call, ncclInProgress);
        start = now_ms();
        live(0, RANKS);
        ck_assert_int_eq(fake_nccl.early, 0);
        ck_assert_int_eq(fake_nccl.depth, 0);
        if (fake_nccl.calls < call)
            break;
        fake_nccl.odd_end = ncclSuccess; /* NCCL ends the call after all, and writes its results */
        do
            must(ncclCommGetAsyncError(comm[1], &state) == ncclSuccess);
        while (state == ncclInProgress && fake_nccl.calls > 1);
        ck_assert(now_ms() - start >= LIMIT_MS && now_ms() - start < LIMIT_MS + SLACK_MS);
        ck_assert_ptr_nonnull(of[0].step);
        ck_assert_int_eq(of[0].result, ncclRemoteError);
        ck_assert_msg(strstr(of[0].error, "still in progress after 150 ms, the time limit") !=
                              NULL &&
                          strstr(of[0].error, "SYMTUNER_AR_TIMEOUT_MS") != NULL &&
                          strstr(of[0].error, "ncclCommAbort ends it") != NULL,
                      "call %d: %s", call, of[0].error);
        names_the_call(of[0].step, of[0].error);
        steps += strcmp(last, of[0].step) != 0;
        last = of[0].step;
    }
    unsetenv("SYMTUNER_AR_PROBE");
    ck_assert_int_eq(steps, 5); /* create, register, all_reduce, deregister, destroy */
    all_is_well();
}
END_TEST

START_TEST(test_where_another_rank_never_ends_nobody_waits_for_ever)
{
    for (int call = 1;; call++) {
        double start;

        reset(2);
        odd(1, call, ncclInProgress);
        start = now_ms();
        fake_nccl_threads(live_where_one_never_ends);
        ck_assert(now_ms() - start < 4 * LIMIT_MS + SLACK_MS);
        ck_assert_int_eq(fake_nccl.early, 0);
        if (fake_nccl.calls < call)
            break;
        ck_assert_int_eq(of[1].result, ncclRemoteError);
        ck_assert_msg(strstr(of[1].error, "still in progress after 150 ms") != NULL, "%s",
                      of[1].error);
        if (strcmp(of[1].step, "create") == 0 || strcmp(of[1].step, "register") == 0)
            ck_assert_ptr_nonnull(of[0].step);
    }
    all_is_well();
}
END_TEST

START_TEST(test_an_error_that_comes_later_is_passed_on)
{
    for (int call = 1;; call++) {
        reset(2);
        odd(1, call, ncclRemoteError);
        live(0, RANKS);
        ck_assert_int_eq(fake_nccl.early, 0);
        ck_assert_int_eq(fake.live, 0);
        ck_assert_int_eq(fake_nccl.live, 0);
        if (fake_nccl.calls < call)
            break;
        if (of[0].step == NULL) /* no step notices an error of the very last call */
            continue;
        ck_assert_int_eq(of[0].result, ncclRemoteError);
        ck_assert_msg(strstr(of[0].error, "fake remote") != NULL, "%s", of[0].error);
        names_the_call(of[0].step, of[0].error);
    }
    all_is_well();
}
END_TEST

/* NCCL reports that it launched the all-gather, but the all-gather's kernel waits for another rank
 * for ever. symtuner_ar_create must give up in time. */
START_TEST(test_a_gather_that_never_ends_is_an_error_in_time)
{
    static const int gathers[] = {2, 3, 4, 5, 7};

    reset(2);
    odd(1, gathers[_i], ncclSuccess);
    live(0, RANKS);
    ck_assert_ptr_nonnull(fake.endless);
    ck_assert_int_eq(of[0].result, ncclRemoteError);
    ck_assert_str_eq(of[0].step, "create");
    ck_assert_msg(strstr(of[0].error, "ncclAllGather: still in progress after 150 ms") != NULL,
                  "%s", of[0].error);
}
END_TEST

/* A refused rank gets no handle. Its error stays, because the all-gather may still read it. */
START_TEST(test_a_refused_rank_frees_nothing_of_a_gather_that_never_ends)
{
    reset(2);
    config.transport = 9;
    odd(1, 2, ncclSuccess);
    live(0, RANKS);
    ck_assert_ptr_nonnull(fake.endless);
    ck_assert_int_eq(of[0].result, ncclInvalidArgument);
    ck_assert_ptr_nonnull(strstr(of[0].error, "config.transport 9 is unknown"));
}
END_TEST

/* ---- calls ----------------------------------------------------------------------------------- */

static ncclResult_t reduce(int rank)
{
    return symtuner_ar_all_reduce(memory[rank], memory[rank], 1024, ncclFloat, ncclSum,
                                  handle[rank], NULL);
}

static void make_group(void)
{
    ck_assert_msg(symtuner_ar_create(handle, comm, RANKS, &config) == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
    for (int r = 0; r < RANKS; r++)
        symtuner_ar_force(handle[r], "nccl", 0, 0);
}

START_TEST(test_after_a_call_that_never_ends_a_handle_answers_at_once)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    double start;
    int live_before, idles;

    reset(2);
    make_group();
    live_before = fake.live;
    odd(0, 1, ncclInProgress);
    ck_assert_int_eq(reduce(0), ncclRemoteError);
    handle[0]->endpoint.limit_ns = 600000000000; /* ten minutes, so the test would notice a second
                                                    wait */
    start = now_ms();
    symtuner_ar_force(handle[0], NULL, 0, 0); /* the library's own kernels are refused, too */
    ck_assert_int_eq(reduce(0), ncclRemoteError);
    ck_assert_int_eq(symtuner_ar_status(handle[0]), ncclRemoteError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(handle[0]), "ncclAllReduce: still in progress"));
    ck_assert_int_eq(
        symtuner_ar_query(memory[0], memory[0], 1024, ncclFloat, ncclSum, handle[0], &plan),
        ncclSuccess);
    idles = fake.idles;
    ck_assert_int_eq(symtuner_ar_destroy(&handle[0], 1), ncclRemoteError);
    ck_assert_int_eq(fake.idles, idles); /* a wait for the GPU could last for ever */
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(NULL), "rank 0 frees nothing: ncclAllReduce: "));
    ck_assert_int_eq(fake.live, live_before);
    ck_assert_int_eq(symtuner_ar_destroy(&handle[1], 1), ncclSuccess);
    ck_assert(now_ms() - start < SLACK_MS);
    ck_assert_int_eq(fake_nccl.early, 0);
}
END_TEST

START_TEST(test_a_group_with_a_call_that_never_ends_is_late_as_a_whole)
{
    double start;

    reset(2);
    make_group();
    odd(1, 3, ncclInProgress); /* registering never ends on rank 1, but does end on rank 0 */
    for (int r = 0; r < RANKS; r++)
        handle[r]->endpoint.limit_ns = 1500000000;
    start = now_ms();
    ck_assert_int_eq(symtuner_ar_register(handle, buffer, NULL, RANKS, 4096), ncclRemoteError);
    ck_assert(now_ms() - start < 2900); /* both ranks wait within one time limit, not one after the
                                           other */
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(symtuner_ar_status(handle[r]), ncclRemoteError);
        ck_assert_ptr_nonnull(
            strstr(symtuner_ar_error(handle[r]), "Register of 4096 bytes: still"));
    }
    ck_assert_int_eq(symtuner_ar_destroy(handle, RANKS), ncclRemoteError);
}
END_TEST

static void *abort_soon(void *h)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    symtuner_ar_abort(h);
    return NULL;
}

START_TEST(test_an_abort_ends_a_wait_that_never_ends)
{
    pthread_t other;
    double start;

    reset(2);
    config.timeout_ms = 0; /* 0 means ten minutes */
    make_group();
    odd(1, 1, ncclInProgress);
    ck_assert_int_eq(pthread_create(&other, NULL, abort_soon, handle[1]), 0);
    start = now_ms();
    ck_assert_int_eq(reduce(1), ncclInvalidUsage);
    ck_assert(now_ms() - start < SLACK_MS);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(handle[1]), "ncclAllReduce: aborted after"));
    ck_assert_int_eq(symtuner_ar_destroy(handle, RANKS), ncclRemoteError);
    pthread_join(other, NULL);
}
END_TEST

/* An abort stops only the library's kernels. NCCL has no error, so symtuner_ar_destroy gives NCCL
 * some time to deregister the windows. */
START_TEST(test_after_an_abort_a_destroy_frees_everything)
{
    reset(_i);
    config.timeout_ms = 0;
    make_group();
    ck_assert_int_eq(symtuner_ar_register(handle, buffer, NULL, RANKS, 4096), ncclSuccess);
    for (int r = 0; r < RANKS; r++)
        symtuner_ar_abort(handle[r]);
    ck_assert_int_eq(symtuner_ar_status(handle[0]), ncclInvalidUsage);
    ck_assert_msg(symtuner_ar_destroy(handle, RANKS) == ncclSuccess, "%s", symtuner_ar_error(NULL));
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
    ck_assert_int_eq(fake_nccl.early, 0);
}
END_TEST

/* An abort ends the wait for an all-gather. After that, a second registration must not queue a copy
 * behind that all-gather, since the copy could wait for ever. */
START_TEST(test_an_abort_ends_a_gather_that_never_ends)
{
    pthread_t other;

    reset(2);
    config.timeout_ms = 0;
    make_group();
    odd(1, 1, ncclSuccess);
    ck_assert_int_eq(pthread_create(&other, NULL, abort_soon, handle[1]), 0);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(symtuner_ar_register(handle, buffer, NULL, RANKS, 4096),
                         again ? ncclRemoteError : ncclInvalidUsage); /* rank 0 was not aborted */
        ck_assert_ptr_nonnull(strstr(symtuner_ar_error(handle[0]), "ncclAllGather: aborted after"));
    }
    pthread_join(other, NULL);
}
END_TEST

static void ask_nccl(void)
{
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(ncclAllReduce(memory[r], memory[r], 1, ncclFloat, ncclSum, comm[r], NULL),
                         ncclInProgress);
}

START_TEST(test_every_call_waits_for_what_the_caller_asked_of_nccl)
{
    reset(3);
    make_group();
    ask_nccl();
    ck_assert_int_eq(symtuner_ar_register(handle, buffer, NULL, RANKS, 4096), ncclSuccess);
    ask_nccl();
    ck_assert_int_eq(reduce(0), ncclSuccess);
    ck_assert_int_eq(reduce(1), ncclSuccess);
    ask_nccl();
    ck_assert_int_eq(symtuner_ar_deregister(handle, buffer, RANKS), ncclSuccess);
    ask_nccl();
    ck_assert_int_eq(symtuner_ar_destroy(handle, RANKS), ncclSuccess);
    ck_assert_int_eq(fake_nccl.early, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
}
END_TEST

/* The caller closes the NCCL group and then waits for NCCL itself, so the library must not wait. */
START_TEST(test_in_the_callers_group_nothing_is_waited_for)
{
    ncclResult_t state;

    reset(3);
    make_group();
    ck_assert_int_eq(ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(reduce(r), ncclSuccess);
    ck_assert_int_eq(ncclGroupEnd(), ncclInProgress);
    for (int r = 0; r < RANKS; r++)
        do
            ck_assert_int_eq(ncclCommGetAsyncError(comm[r], &state), ncclSuccess);
        while (state == ncclInProgress);
    ck_assert_int_eq(symtuner_ar_destroy(handle, RANKS), ncclSuccess);
    ck_assert_int_eq(fake_nccl.early, 0);
}
END_TEST

START_TEST(test_waiting_in_a_capture_asks_cuda_nothing)
{
    struct fake_cuda before;

    reset(100);
    config.timeout_ms = 0;
    make_group();
    fake.capture = 7;
    ck_assert_int_eq(reduce(0), ncclSuccess); /* creates the library's record of the capture */
    before = fake;
    ck_assert_int_eq(reduce(0), ncclSuccess);
    before.records++; /* cudaEventRecord marks the end of the call */
    ck_assert_int_eq(memcmp(&before, &fake, sizeof fake), 0);
    fake.capture = 0;
    symtuner_ar_destroy(handle, RANKS);
}
END_TEST

Suite *st_suite_nccl_wait(void)
{
    Suite *suite = suite_create("ar_nccl_wait");
    TCase *t = tcase_create("blocking = 0");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_a_thread_of_several_ranks_waits_for_every_call, 1, 4);
    tcase_add_loop_test(t, test_ranks_of_threads_wait_for_every_call, 1, 4);
    tcase_add_loop_test(t, test_a_call_that_never_ends_is_an_error_in_time, 0, 2);
    tcase_add_test(t, test_where_another_rank_never_ends_nobody_waits_for_ever);
    tcase_add_test(t, test_an_error_that_comes_later_is_passed_on);
    tcase_add_loop_test(t, test_a_gather_that_never_ends_is_an_error_in_time, 0, 5);
    tcase_add_test(t, test_a_refused_rank_frees_nothing_of_a_gather_that_never_ends);
    tcase_add_test(t, test_after_a_call_that_never_ends_a_handle_answers_at_once);
    tcase_add_test(t, test_a_group_with_a_call_that_never_ends_is_late_as_a_whole);
    tcase_add_test(t, test_an_abort_ends_a_wait_that_never_ends);
    tcase_add_loop_test(t, test_after_an_abort_a_destroy_frees_everything, 0, 4);
    tcase_add_test(t, test_an_abort_ends_a_gather_that_never_ends);
    tcase_add_test(t, test_every_call_waits_for_what_the_caller_asked_of_nccl);
    tcase_add_test(t, test_in_the_callers_group_nothing_is_waited_for);
    tcase_add_test(t, test_waiting_in_a_capture_asks_cuda_nothing);
    suite_add_tcase(suite, t);
    return suite;
}
