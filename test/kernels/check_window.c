/* SPDX-License-Identifier: Apache-2.0 */
/* check_window.c - checks lists of handles and of registered buffers, groups from
 * symtuner_ar_create_local, how handles are destroyed, and which GPU is current when NCCL is asked
 * to deregister a buffer. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

START_TEST(test_registration_is_all_ranks_at_once)
{
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};

    want_error(symtuner_ar_register(handles, buffers, NULL, 2, 4096), ncclInvalidUsage, handles[0],
               "in one call, not 2");
    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 4096), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_deregister(handles, buffers, N), ncclSuccess);
    want_error(symtuner_ar_deregister(handles, buffers, N), ncclInvalidUsage, handles[0],
               "is not registered");
    buffers[2] = NULL;
    want_error(symtuner_ar_register(handles, buffers, NULL, N, 4096), ncclInvalidArgument,
               handles[2], "buffers[2] is NULL");
    buffers[2] = memory[2];
    want_error(symtuner_ar_register(handles, buffers, NULL, N, 0), ncclInvalidArgument, handles[0],
               "bytes is 0");
    buffers[2] = memory[2] + 8;
    want_error(symtuner_ar_register(handles, buffers, NULL, N, 4096), ncclInvalidArgument,
               handles[0], "16-byte aligned");
}
END_TEST

START_TEST(test_a_local_group_is_registered_and_destroyed_whole)
{
    static const int pair[] = {0, 1};
    struct symtuner_ar_config config = small();
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};
    symtuner_ar *twice[N] = {handles[0], handles[1], handles[1], handles[3]};
    symtuner_ar *mixed[N] = {handles[0], handles[1], NULL, NULL}, *other[2];
    int live;

    ck_assert_int_eq(symtuner_ar_create_local(other, pair, 2, &config), ncclSuccess);
    mixed[2] = other[0];
    mixed[3] = other[1];
    live = fake.live;
    want_error(symtuner_ar_register(twice, buffers, NULL, N, 4096), ncclInvalidUsage, handles[1],
               "handles[1] and handles[2] are the same");
    want_error(symtuner_ar_register(mixed, buffers, NULL, N, 4096), ncclInvalidUsage, handles[0],
               "handles[2] and handles[0] are of different groups");
    want_error(symtuner_ar_destroy(twice, N), ncclInvalidUsage, NULL, "are the same");
    want_error(symtuner_ar_destroy(mixed, N), ncclInvalidUsage, NULL, "4 handles of a local group");
    want_error(symtuner_ar_destroy(&other[1], 1), ncclInvalidUsage, other[1], "not 1 of them");
    ck_assert_int_eq(fake.live, live);
    ck_assert_int_eq(symtuner_ar_destroy(other, 2), ncclSuccess);
    ck_assert_ptr_null(other[1]);
    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 4096), ncclSuccess);
}
END_TEST

START_TEST(test_lists_that_are_none_are_named)
{
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};
    symtuner_ar *hole[N] = {handles[0], handles[1], NULL, handles[3]};
    struct symtuner_ar_plan plan = {.size = sizeof plan};

    want_error(symtuner_ar_query(memory[0], memory[0], 1, ncclFloat, ncclSum, NULL, &plan),
               ncclInvalidArgument, NULL, "handle is NULL");
    want_error(symtuner_ar_query(memory[0], memory[0], 1, ncclFloat, ncclSum, handles[0], NULL),
               ncclInvalidArgument, handles[0], "plan_out is NULL");
    want_error(symtuner_ar_destroy(NULL, 1), ncclInvalidArgument, NULL, "handles is NULL");
    want_error(symtuner_ar_destroy(handles, 17), ncclInvalidArgument, NULL, "17 handles");
    want_error(symtuner_ar_register(NULL, buffers, NULL, N, 1), ncclInvalidArgument, NULL,
               "handles is NULL");
    want_error(symtuner_ar_register(handles, NULL, NULL, N, 1), ncclInvalidArgument, NULL,
               "buffers is NULL");
    want_error(symtuner_ar_deregister(handles, buffers, 0), ncclInvalidArgument, NULL, "0 handles");
    want_error(symtuner_ar_deregister(hole, buffers, N), ncclInvalidArgument, NULL,
               "handles[2] is NULL");
}
END_TEST

static const struct {
    uint32_t error, abort; /* what the test writes to rank 1's mailbox */
    ncclResult_t want;
    const char *part;
} ends[] = {{AR_TIMEOUT, 0, ncclRemoteError, "rank 1 is freed: a kernel waited for a peer"},
            {AR_OVERLAP, 0, ncclInvalidUsage, "ran at the same time"},
            {AR_ABORTED, AR_ABORTED, ncclSuccess, NULL},
            {AR_TIMEOUT, AR_ABORTED, ncclSuccess, NULL},
            {AR_ALIVE, AR_ABORTED, ncclSuccess, NULL}};

START_TEST(test_destroy_returns_the_error_of_a_kernel_and_frees)
{
    handles[1]->mailbox->error = ends[_i].error;
    handles[1]->mailbox->abort = ends[_i].abort;
    if (ends[_i].part != NULL)
        want_error(symtuner_ar_destroy(handles, N), ends[_i].want, NULL, ends[_i].part);
    else
        ck_assert_int_eq(symtuner_ar_destroy(handles, N), ends[_i].want);
    for (int r = 0; r < N; r++)
        ck_assert_ptr_null(handles[r]);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

/* If another GPU than the communicator's is current when a window is deregistered, the fake NCCL
 * ends the test. */
START_TEST(test_windows_are_deregistered_on_their_own_gpu)
{
    const ncclComm_t comms[2] = {(ncclComm_t)1, (ncclComm_t)2};
    void *buffers[2] = {memory[0], memory[1]};
    int current = -1, live;
    symtuner_ar *h[2];

    fake_nccl_reset(2);
    ck_assert_int_eq(symtuner_ar_create(h, comms, 2, NULL), ncclSuccess);
    live = fake_nccl.live;
    for (int caller = 0; caller < 3; caller++) {
        ck_assert_int_eq(symtuner_ar_register(h, buffers, NULL, 2, 4096), ncclSuccess);
        ck_assert_int_eq(fake_nccl.live, live + 2);
        cudaSetDevice(caller);
        if (caller < 2)
            ck_assert_int_eq(symtuner_ar_deregister(h, buffers, 2), ncclSuccess);
        else
            ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
        cudaGetDevice(&current);
        ck_assert_int_eq(current, caller);
    }
    ck_assert_int_eq(fake_nccl.live, 0);
    cudaSetDevice(0);
}
END_TEST

/* If the calling thread captures a graph, neither the library nor the NCCL functions that it calls
 * may spoil the capture. */
START_TEST(test_a_capture_of_the_thread_goes_on)
{
    const ncclComm_t comms[2] = {(ncclComm_t)1, (ncclComm_t)2};
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    void *buffers[2] = {memory[0], memory[1]};
    symtuner_ar *h[2];

    fake_nccl_reset(2);
    cudaThreadExchangeStreamCaptureMode(&mode);
    fake.capture = 5;
    ck_assert_int_eq(symtuner_ar_create(h, comms, 2, NULL), ncclSuccess);
    for (int again = 0; again < 2; again++) { /* in the second round symtuner_ar_destroy deregisters
                                                 the buffers */
        ck_assert_int_eq(symtuner_ar_register(h, buffers, NULL, 2, 4096), ncclSuccess);
        if (!again)
            ck_assert_int_eq(symtuner_ar_deregister(h, buffers, 2), ncclSuccess);
    }
    ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
    fake.capture = 0;
    ck_assert_int_eq(fake.prohibited, 0);
    cudaThreadExchangeStreamCaptureMode(&mode);
    ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal);
}
END_TEST

/* CUDA refuses to wait for a GPU while one of its streams is captured, and also ends the capture.
 * So symtuner_ar_destroy waits for the event of the latest call instead. A handle with one_stream
 * records no event; then symtuner_ar_destroy waits for the GPU. */
START_TEST(test_destroy_waits_for_the_latest_call)
{
    static const int pair[] = {0, 1};
    symtuner_ar *h[2];

    for (int silent = 0; silent < 2; silent++) {
        struct symtuner_ar_config config = small();
        int idles = fake.idles;
        void *done;

        config.one_stream = silent;
        ck_assert_int_eq(symtuner_ar_create_local(h, pair, 2, &config), ncclSuccess);
        ck_assert_int_eq(
            symtuner_ar_all_reduce(memory[1], memory[1], 8, ncclFloat, ncclSum, h[1], NULL),
            ncclSuccess);
        done = h[1]->eager.done;
        fake.global_capture = !silent;
        ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
        fake.global_capture = 0;
        ck_assert_int_eq(fake.prohibited, 0);
        ck_assert(silent || fake.synchronized == done);
        ck_assert_int_eq(fake.idles - idles, silent);
    }
}
END_TEST

/* If CUDA could not record the event of the latest call, symtuner_ar_destroy waits for the GPU. */
START_TEST(test_destroy_waits_for_a_call_that_failed)
{
    static const int pair[] = {0, 1};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[2];

    ck_assert_int_eq(symtuner_ar_create_local(h, pair, 2, &config), ncclSuccess);
    for (int fails = 0; fails < 2; fails++) {
        fake.fails = fails ? "cudaEventRecord" : NULL;
        ck_assert_int_eq(
            symtuner_ar_all_reduce(memory[1], memory[1], 8, ncclFloat, ncclSum, h[1], NULL),
            fails ? ncclUnhandledCudaError : ncclSuccess);
    }
    fake.fails = NULL;
    fake.idles = 0;
    ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
    ck_assert_int_eq(fake.idles, 1);
}
END_TEST

/* symtuner_ar_discard frees nothing while a kernel may run on the handle's GPU, or while a graph
 * contains a call of the handle. Later calls of symtuner_ar_destroy free everything except for the
 * windows, which NCCL has freed with the communicator. */
START_TEST(test_a_discarded_handle_is_freed_later)
{
    const ncclComm_t comms[2] = {(ncclComm_t)1, (ncclComm_t)2};
    int live = fake.live, made, of_nccl;
    symtuner_ar *h[2], *none[1] = {NULL};

    fake_nccl_reset(2);
    ck_assert_int_eq(symtuner_ar_create(h, comms, 2, NULL), ncclSuccess);
    made = fake.live;
    of_nccl = fake_nccl.live;
    fake.capture = 5;
    ck_assert_int_eq(
        symtuner_ar_all_reduce(memory[1], memory[1], 8, ncclFloat, ncclSum, h[1], NULL),
        ncclSuccess);
    fake.capture = 0;
    __atomic_store_n(&fake.busy, 1, __ATOMIC_RELEASE); /* GPU 0 is busy */
    ck_assert_int_eq(symtuner_ar_discard(h, 2), ncclSuccess);
    ck_assert(h[0] == NULL && h[1] == NULL && fake.live >= made && fake_nccl.live == of_nccl);
    made = fake.live;
    ck_assert_int_eq(symtuner_ar_destroy(none, 1), ncclSuccess);
    ck_assert(fake.live == made && fake_nccl.live == of_nccl);
    fake_graph_gone(5);
    ck_assert_int_eq(symtuner_ar_destroy(none, 1), ncclSuccess); /* GPU 1 is idle */
    ck_assert(fake.live < made && fake.live > live);
    ck_assert_int_eq(fake_nccl.live, of_nccl - 1);
    __atomic_store_n(&fake.busy, 0, __ATOMIC_RELEASE);
    ck_assert_int_eq(symtuner_ar_destroy(none, 1), ncclSuccess);
    ck_assert_int_eq(fake.live, live);
    ck_assert_int_eq(fake_nccl.live, of_nccl - 2);
}
END_TEST

START_TEST(test_only_handles_of_communicators_are_discarded)
{
    symtuner_ar *none[2] = {NULL, NULL};
    int live = fake.live;

    ck_assert_int_eq(symtuner_ar_discard(none, 2), ncclSuccess);
    want_error(symtuner_ar_discard(NULL, 1), ncclInvalidArgument, NULL, "handles is NULL");
    want_error(symtuner_ar_discard(handles, 17), ncclInvalidArgument, NULL, "17 handles");
    want_error(symtuner_ar_discard(handles, N), ncclInvalidUsage, NULL,
               "handles[0] is of a local group");
    ck_assert(handles[0] != NULL && fake.live == live);
    ck_assert_int_eq(symtuner_ar_status(handles[0]), ncclSuccess);
}
END_TEST

Suite *st_suite_window(void)
{
    Suite *s = suite_create("ar_window");
    TCase *made = tcase_create("lists");

    tcase_add_checked_fixture(made, set_up, tear_down);
    tcase_add_test(made, test_registration_is_all_ranks_at_once);
    tcase_add_test(made, test_a_local_group_is_registered_and_destroyed_whole);
    tcase_add_test(made, test_lists_that_are_none_are_named);
    tcase_add_loop_test(made, test_destroy_returns_the_error_of_a_kernel_and_frees, 0,
                        (int)(sizeof ends / sizeof *ends));
    tcase_add_test(made, test_destroy_waits_for_the_latest_call);
    tcase_add_test(made, test_destroy_waits_for_a_call_that_failed);
    tcase_add_test(made, test_a_discarded_handle_is_freed_later);
    tcase_add_test(made, test_only_handles_of_communicators_are_discarded);
    tcase_add_test(made, test_a_capture_of_the_thread_goes_on);
    tcase_add_test(made, test_windows_are_deregistered_on_their_own_gpu);
    suite_add_tcase(s, made);
    return s;
}
