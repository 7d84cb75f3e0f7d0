/* SPDX-License-Identifier: Apache-2.0 */
/* check_abort.c - tests what symtuner_ar_abort waits for, and for how long, on a fake CUDA. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "kernels/group/nccl_wait.h"
#include "kernels/host/launch.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/suites.h"

enum { LEAVE_MS = 50, DRAIN_MS = 2000, LATE_MS = 1500 }; /* LATE_MS: delay of a busy machine */

static void set_up_registered(void)
{
    void *buffers[N];

    set_up();
    for (int r = 0; r < N; r++)
        buffers[r] = memory[r];
    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 1 << 20), ncclSuccess);
}

static uint32_t verdict(const symtuner_ar *h)
{
    return __atomic_load_n(&h->state->dead, __ATOMIC_RELAXED);
}

/* Let rank 0 make an all-reduce with the copy engines, or with kernels only. */
static void call(const char *kernel)
{
    ck_assert_int_eq(symtuner_ar_force(handles[0], kernel, 0, 0), ncclSuccess);
    ck_assert_int_eq(
        symtuner_ar_all_reduce(memory[0], memory[0], 4096, ncclFloat, ncclSum, handles[0], NULL),
        ncclSuccess);
}

/* Abort the handle of rank 0, and return how many ms that took. */
static int abort_ms(void)
{
    const uint64_t before = ar_now_ns();

    ck_assert_int_eq(symtuner_ar_abort(handles[0]), ncclSuccess);
    return (int)((ar_now_ns() - before) / 1000000);
}

START_TEST(test_an_abort_waits_for_queued_copies)
{
    call(_i == 0 ? "copy" : "chunked");
    fake.unreached = 150; /* 150 polls, one per ms, find that the copies have not ended */
    ck_assert_int_ge(abort_ms(), _i == 0 ? 150 : LEAVE_MS);
    ck_assert_int_eq(fake.unreached, _i == 0 ? 0 : 150);
    if (_i == 0)
        ck_assert_uint_eq(verdict(handles[0]), AR_PEERS_GONE);
    ck_assert_uint_eq(verdict(handles[1]), AR_ALIVE);
}
END_TEST

START_TEST(test_an_abort_waits_for_copies_no_longer_than_its_limit)
{
    int ms;

    call("copy");
    /* the copy never ends, for example behind a kernel of NCCL that only ncclCommAbort ends */
    fake.unreached = -1;
    ms = abort_ms();
    ck_assert_int_ge(ms, DRAIN_MS);
    ck_assert_int_le(ms, DRAIN_MS + LEAVE_MS + LATE_MS);
}
END_TEST

/* An abort does not wait for the copies of graphs: only the program knows when it launches them,
 * and nobody can wait for an event that was recorded in a capture. */
START_TEST(test_an_abort_does_not_wait_for_graphs)
{
    ck_assert_int_eq(symtuner_ar_reserve(handles, N, SIZE_MAX), ncclSuccess);
    fake.capture = 7;
    call("copy");
    fake.capture = 0;
    fake.unreached = -1;
    ck_assert_int_lt(abort_ms(), LEAVE_MS + LATE_MS);
    ck_assert_int_eq(fake.queries, 0);
    fake_graph_gone(7);
}
END_TEST

static void *leave_late(void *handle)
{
    usleep(200000);
    ar_copies_leave(handle, false, NULL);
    return NULL;
}

START_TEST(test_an_abort_waits_for_a_call_that_submits_copies)
{
    pthread_t thread;

    ck_assert_int_eq(ar_copies_enter(handles[0]), ncclSuccess);
    pthread_create(&thread, NULL, leave_late, handles[0]);
    symtuner_ar_abort(handles[0]);
    /* symtuner_ar_abort has waited until the other thread's call had submitted its copies */
    ck_assert(__atomic_load_n(&handles[0]->has_copied, __ATOMIC_RELAXED));
    pthread_join(thread, NULL);
    ck_assert_int_eq(fake.queries, 1);
    want_error(ar_copies_enter(handles[0]), ncclInvalidUsage, handles[0], "aborted");
    ck_assert_int_eq(handles[0]->copying, 0);
}
END_TEST

static void *abort_too(void *out)
{
    *(int *)out = abort_ms();
    return NULL;
}

/* Two threads abort the handle at the same time. Each of them may let NCCL unmap memory as soon as
 * its own symtuner_ar_abort returns, so both must wait for the copy. */
START_TEST(test_a_second_abort_waits_as_the_first)
{
    pthread_t thread;
    int first;

    call("copy");
    fake.unreached = 300;
    pthread_create(&thread, NULL, abort_too, &first);
    while (__atomic_load_n(&handles[0]->mailbox->abort, __ATOMIC_RELAXED) == 0)
        usleep(1000);
    abort_ms();
    ck_assert_int_eq(fake.unreached, 0);
    pthread_join(thread, NULL);
    abort_ms(); /* a third abort finds nothing to wait for */
    ck_assert_int_eq(fake.queries, 301);
}
END_TEST

static void *abort_rank_0(void *handle)
{
    symtuner_ar_abort(handle);
    return NULL;
}

/* A thread whose call fails because another thread aborts the handle may destroy the handle at
 * once. The other thread is still in symtuner_ar_abort then, so symtuner_ar_destroy waits for it.
 */
START_TEST(test_a_destroy_waits_for_a_thread_that_aborts)
{
    const uint64_t before = ar_now_ns();
    symtuner_ar *aborted = handles[0];
    pthread_t thread;

    pthread_create(&thread, NULL, abort_rank_0, aborted);
    while (symtuner_ar_status(aborted) == ncclSuccess)
        sched_yield();
    ck_assert_int_eq(symtuner_ar_destroy(handles, N), ncclSuccess);
    ck_assert_uint_ge((ar_now_ns() - before) / 1000000, LEAVE_MS);
    pthread_join(thread, NULL);
}
END_TEST

static void *synchronize(void *handle)
{
    return (void *)(intptr_t)symtuner_ar_synchronize(handle);
}

/* symtuner_ar_synchronize waits for the GPU without freeing anything, so another thread may abort
 * the handle meanwhile. */
START_TEST(test_an_abort_while_another_thread_waits)
{
    pthread_t thread;
    void *result;
    int live;

    call("chunked");
    live = fake.live;
    __atomic_store_n(&fake.synchronized, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&fake.busy, handles[0]->device + 1, __ATOMIC_RELEASE);
    pthread_create(&thread, NULL, synchronize, handles[0]);
    while (__atomic_load_n(&fake.synchronized, __ATOMIC_RELAXED) != handles[0]->eager.done)
        sched_yield();
    abort_ms();
    ck_assert_int_ne(__atomic_load_n(&fake.busy, __ATOMIC_RELAXED), 0);
    __atomic_store_n(&fake.busy, 0, __ATOMIC_RELEASE);
    pthread_join(thread, &result);
    ck_assert_int_eq((int)(intptr_t)result, ncclSuccess);
    ck_assert_int_eq(fake.live, live);
    ck_assert_int_eq(symtuner_ar_synchronize(NULL), ncclInvalidArgument);
}
END_TEST

/* An abort must not end a capture. In case 0 another thread captures. In case 1 the capture holds
 * calls of the handle. */
START_TEST(test_an_abort_ends_no_capture)
{
    ck_assert_int_eq(symtuner_ar_reserve(handles, N, SIZE_MAX), ncclSuccess);
    call("copy");
    fake.global_capture = _i == 0;
    fake.capture = _i == 0 ? 0 : 7;
    if (_i == 1)
        call("copy");
    fake.unreached = 100;
    abort_ms();
    ck_assert_int_eq(fake.unreached, 0); /* the call outside of the capture has ended */
    ck_assert_int_eq(fake.prohibited, 0);
    want_error(
        symtuner_ar_all_reduce(memory[0], memory[0], 4096, ncclFloat, ncclSum, handles[0], NULL),
        ncclInvalidUsage, handles[0], "aborted");
    ck_assert_int_eq(fake.prohibited, 0);
    fake.global_capture = 0;
    fake.capture = 0;
    fake_graph_gone(7);
}
END_TEST

Suite *st_suite_abort(void)
{
    Suite *s = suite_create("ar_abort");
    TCase *t = tcase_create("abort");

    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, set_up_registered, tear_down);
    tcase_add_loop_test(t, test_an_abort_waits_for_queued_copies, 0, 2);
    tcase_add_test(t, test_an_abort_waits_for_copies_no_longer_than_its_limit);
    tcase_add_test(t, test_an_abort_does_not_wait_for_graphs);
    tcase_add_test(t, test_an_abort_waits_for_a_call_that_submits_copies);
    tcase_add_test(t, test_a_second_abort_waits_as_the_first);
    tcase_add_test(t, test_a_destroy_waits_for_a_thread_that_aborts);
    tcase_add_test(t, test_an_abort_while_another_thread_waits);
    tcase_add_loop_test(t, test_an_abort_ends_no_capture, 0, 2);
    suite_add_tcase(s, t);
    return s;
}
