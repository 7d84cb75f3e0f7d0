/* SPDX-License-Identifier: Apache-2.0 */
/* check_destroy.c - tests threads that destroy handles of one process at the same time, on a fake
 * CUDA and a fake NCCL. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "kernels/host/destroy.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

enum { RANKS = 2, GRAPH = 5 };

static symtuner_ar *h[RANKS]; /* rank r is on GPU r */

static void set_up_pair(void)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();

    memset(&fake, 0, sizeof fake);
    fake_nccl_reset(RANKS);
    fake.devices = RANKS;
    fake.peers = 1;
    ck_assert_int_eq(symtuner_ar_create(h, comms, RANKS, &config), ncclSuccess);
}

/* Free what waits for its graph, and check that nothing is left. */
static void tear_down_pair(void)
{
    symtuner_ar *none = NULL;

    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_destroy(&none, 1), ncclSuccess);
    ck_assert_int_eq(fake.live + fake_nccl.live, 0);
}

/* Capture a call of rank 0 into a graph. */
static void capture(void)
{
    static char memory_of_call[64] __attribute__((aligned(64)));

    fake.capture = GRAPH;
    ck_assert_int_eq(
        symtuner_ar_all_reduce(memory_of_call, memory_of_call, 8, ncclFloat, ncclSum, h[0], NULL),
        ncclSuccess);
    fake.capture = 0;
}

static const symtuner_ar *going; /* the handle that is being destroyed */
static int left;                 /* fake.live before the other thread frees what it can */

/* Let the graph go, and then do what a symtuner_ar_destroy of another thread does first: free what
 * can be freed now. The fake CUDA calls this function after symtuner_ar_destroy has put off the
 * freeing of its handle, but while it still uses the handle. */
static void destroy_in_another_thread(void)
{
    if (going->state->dead != AR_DESTROYED)
        return;
    fake.meanwhile = NULL;
    fake_graph_gone(GRAPH);
    left = fake.live;
    ar_deferred_free(~UINT64_C(0));
    ck_assert_int_eq(fake.live, left);
}

/* A graph contains a call of rank 0, so symtuner_ar_destroy puts off the freeing of its handle. No
 * other thread may free the handle before symtuner_ar_destroy is done with it. */
START_TEST(test_a_handle_is_freed_after_its_destroyer_is_done)
{
    capture();
    going = h[0];
    fake.meanwhile = destroy_in_another_thread;
    ck_assert_int_eq(symtuner_ar_destroy(&h[0], 1), ncclSuccess);
    ck_assert_ptr_null(fake.meanwhile); /* the other thread came at the right time */
}
END_TEST

static pthread_t thread;
static atomic_bool destroyed; /* whether that thread has destroyed the handle of rank 1 */
static bool in_time;          /* whether it had done so when the other handle was freed */

static void *destroy_rank_1(void *unused)
{
    (void)unused;
    symtuner_ar_destroy(&h[1], 1);
    atomic_store(&destroyed, true);
    return NULL;
}

/* The fake CUDA calls this function when another handle is freed, as if it waited for a kernel. */
static void wait_for_another_thread(void)
{
    fake.meanwhile = NULL;
    pthread_create(&thread, NULL, destroy_rank_1, NULL);
    for (int ms = 0; ms < 3000 && !in_time; ms++) {
        usleep(1000);
        in_time = atomic_load(&destroyed);
    }
}

/* To free memory, CUDA may wait for a kernel, which may wait for a call that another thread makes
 * after it has destroyed a handle. So that thread must not have to wait until the memory is free.
 */
START_TEST(test_a_thread_destroys_while_another_frees)
{
    symtuner_ar *none = NULL;

    capture();
    ck_assert_int_eq(symtuner_ar_destroy(&h[0], 1), ncclSuccess);
    fake_graph_gone(GRAPH);
    fake.meanwhile = wait_for_another_thread;
    ck_assert_int_eq(symtuner_ar_destroy(&none, 1), ncclSuccess);
    ck_assert_ptr_null(fake.meanwhile);
    pthread_join(thread, NULL);
    ck_assert(in_time);
}
END_TEST

/* Make and destroy a handle on ${gpu}. Returns how much less is left afterwards. */
static int freed_by(int gpu)
{
    const int before = fake.live;
    symtuner_ar *other;

    ck_assert_int_eq(symtuner_ar_create_local(&other, &gpu, 1, NULL), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_destroy(&other, 1), ncclSuccess);
    return before - fake.live;
}

/* If a thread that works on GPU 1 freed a handle of GPU 0, CUDA would wait for the kernels on GPU
 * 0. These may wait for calls that the same thread makes later. So a thread that makes and destroys
 * handles on GPU 1 frees nothing on GPU 0. */
START_TEST(test_a_handle_is_freed_by_a_thread_of_its_gpu)
{
    capture();
    ck_assert_int_eq(symtuner_ar_destroy(&h[0], 1), ncclSuccess);
    fake_graph_gone(GRAPH);
    ck_assert_int_eq(freed_by(1), 0);
    ck_assert_int_gt(freed_by(0), 0);
}
END_TEST

Suite *st_suite_destroy(void)
{
    Suite *s = suite_create("ar_destroy");
    TCase *t = tcase_create("destroy");

    tcase_set_timeout(t, 10);
    tcase_add_checked_fixture(t, set_up_pair, tear_down_pair);
    tcase_add_test(t, test_a_handle_is_freed_after_its_destroyer_is_done);
    tcase_add_test(t, test_a_thread_destroys_while_another_frees);
    tcase_add_test(t, test_a_handle_is_freed_by_a_thread_of_its_gpu);
    suite_add_tcase(s, t);
    return s;
}
