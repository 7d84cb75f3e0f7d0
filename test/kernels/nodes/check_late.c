/* SPDX-License-Identifier: Apache-2.0 */
/* check_late.c - destroys handles over several boxes (machines) whose graphs CUDA releases late. */
#include <check.h>
#include <pthread.h>
#include <unistd.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"

enum { RANKS = 4, CAPTURE = 7, LATE_US = 50000 };

static void capture_call(int r)
{
    static _Alignas(16) float data[RANKS][1024];

    ck_assert_int_eq(symtuner_ar_all_reduce(data[r], data[r], 1024, ncclFloat, ncclSum, handle[r],
                                            (cudaStream_t)(uintptr_t)(100 + r)),
                     ncclSuccess);
}

static void *release_graphs(void *unused)
{
    (void)unused;
    usleep(LATE_US);
    fake_graph_gone(CAPTURE);
    return NULL;
}

/* The program has destroyed its graphs, but CUDA has not released them yet. The communicators of
 * each handle must be gone when symtuner_ar_destroy returns: from NCCL 2.31 on, ncclCommDestroy
 * waits for the other ranks of the box, so all ranks must call it at the same time. */
START_TEST(test_destroy_waits_for_graphs_that_go_late)
{
    pthread_t late;

    group_reset(RANKS, 2, "kernels network-pieces=2");
    group_create();
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(created[r] == ncclSuccess, "%s", created_error[r]);
    fake.capture = CAPTURE;
    net_threads(capture_call);
    fake.capture = 0;
    ck_assert_int_eq(pthread_create(&late, NULL, release_graphs, NULL), 0);
    for (int r = 0; r < RANKS; r++) {
        symtuner_ar *h = handle[r];

        ck_assert_int_eq(symtuner_ar_destroy(&h, 1), ncclSuccess);
        handle[r] = NULL;
    }
    pthread_join(late, NULL);
    ck_assert_int_eq(whole_nccl.live, RANKS); /* only the program's own communicators are left */
    group_destroy();
}
END_TEST

Suite *nodes_suite_late(void)
{
    Suite *s = suite_create("nodes_late");
    TCase *t = tcase_create("late");

    tcase_add_test(t, test_destroy_waits_for_graphs_that_go_late);
    suite_add_tcase(s, t);
    return s;
}
