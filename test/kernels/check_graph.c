/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_graph.c - tests CUDA graphs that hold calls of a handle. The memory that the calls use is
 * kept as long as the graph exists, and the calls of one graph run one after the other. Runs on
 * test/kernels/fake/cuda.c, where every stream belongs to the capture with the id fake.capture.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/handle.h"
#include "kernels/host/destroy.h"
#include "kernels/order/graph.h"
#include "kernels/order/side.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/suites.h"

static void call_on(symtuner_ar *h, const char *stream)
{
    ck_assert_msg(symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, h,
                                         (cudaStream_t)(uintptr_t)stream) == ncclSuccess,
                  "%s", symtuner_ar_error(h));
}

/* Two captures take turns. In each capture, the second call waits for the first call of the same
 * capture. */
START_TEST(test_captures_by_turns_keep_their_order)
{
    void *waited[2];

    for (int turn = 0; turn < 2; turn++)
        for (unsigned capture = 5; capture <= 6; capture++) {
            fake.capture = capture;
            call_on(handles[0], memory[1] + 64 * turn);
            waited[capture - 5] = fake.waited;
        }
    ck_assert_int_eq(fake.waits, 2);
    ck_assert_ptr_ne(waited[0], waited[1]);
    fake_graph_gone(5);
    fake_graph_gone(6);
}
END_TEST

/* The same cudaStream_t may stand for different streams: it may be cudaStreamPerThread, or a new
 * stream may get the handle of a destroyed one. */
START_TEST(test_streams_are_told_apart_by_number)
{
    call_on(handles[0], memory[1]);
    call_on(handles[0], memory[1]);
    ck_assert_int_eq(fake.waits, 0);
    fake.others = 1000;
    call_on(handles[0], memory[1]);
    ck_assert_int_eq(fake.waits, 1);
    handles[0]->one_stream = true;
    fake.others = 2000;
    fake.idles = 0;
    call_on(handles[0], memory[1]);
    ck_assert_int_eq(fake.idles, 1);
}
END_TEST

/* A stream of another GPU is a mistake of the caller. CUDA calls it an invalid resource handle. */
START_TEST(test_a_stream_of_another_gpu_is_named)
{
    fake.foreign = memory[1];
    want_error(symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, handles[2],
                                      (cudaStream_t)memory[1]),
               ncclUnhandledCudaError, handles[2], "does the stream belong to GPU 2?");
    fake.foreign = NULL;
    call_on(handles[2], memory[1]);
}
END_TEST

static void *call_on_its_own(void *h)
{
    call_on(h, (const char *)cudaStreamPerThread);
    return NULL;
}

/* Also in a capture, cudaStreamPerThread is another stream in each thread. */
START_TEST(test_streams_of_threads_are_told_apart_in_a_capture)
{
    pthread_t thread;

    fake.capture = 5;
    for (int k = 0; k < 2; k++)
        call_on_its_own(handles[0]);
    ck_assert_int_eq(fake.waits, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, call_on_its_own, handles[0]), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(fake.waits, 1);
    fake.capture = 0;
    fake_graph_gone(5);
}
END_TEST

START_TEST(test_a_call_gets_a_stream_that_it_can_use)
{
    static const unsigned long long capture[] = {0, 0, 0, 7}, in[] = {0, 0, 7, 7};
    static const int made[] = {1, 1, 2, 2}, want[] = {0, 0, 2, 0};
    const int live = fake.live;
    cudaStream_t side[4] = {NULL};
    struct ar_side *list = NULL;

    for (int i = 0; i < 4; i++) {
        fake.capture = in[i]; /* all streams are in this capture */
        ck_assert_int_eq(ar_side_find(handles[0], &list, capture[i], &side[i]), ncclSuccess);
        ck_assert(side[i] != NULL && side[i] == side[want[i]] && fake.live == live + made[i]);
    }
    fake.capture = 0;
    ck_assert_ptr_ne(side[2], side[0]);
    ar_side_free(list);
    ck_assert_int_eq(fake.live, live);
}
END_TEST

START_TEST(test_a_graph_keeps_a_local_group_alive)
{
    static const int pair[] = {0, 1};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[2], *other[2];
    struct ar_state *state;
    int before = fake.live, live;

    ck_assert_int_eq(symtuner_ar_create_local(h, pair, 2, &config), ncclSuccess);
    fake.capture = 7;
    call_on(h[1], memory[1]);
    fake.capture = 0;
    live = fake.live;
    state = h[1]->state;
    ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
    ck_assert_ptr_null(h[0]);
    ck_assert_ptr_null(h[1]);
    ck_assert_int_eq(fake.live, live); /* everything is kept: the counters, and both ranks' scratch
                                          memory */
    ck_assert_int_eq(state->dead, AR_ALIVE);
    ck_assert_int_eq(symtuner_ar_create_local(other, pair, 2, &config), ncclSuccess);
    ck_assert_int_gt(fake.live, live);
    fake_graph_gone(7);
    ck_assert_int_eq(symtuner_ar_destroy(other, 2), ncclSuccess); /* this also frees what the graph
                                                                     kept */
    ck_assert_int_eq(fake.live, before);
}
END_TEST

START_TEST(test_a_graph_that_is_gone_keeps_nothing)
{
    static const int pair[] = {0, 1};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[2];
    int before = fake.live;

    ck_assert_int_eq(symtuner_ar_create_local(h, pair, 2, &config), ncclSuccess);
    for (unsigned capture = 11; capture < 211; capture++) { /* many graphs, one after the other */
        fake.capture = capture;
        call_on(h[0], memory[1]);
        fake_graph_gone(capture);
    }
    fake.capture = 0;
    ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
    ck_assert_int_eq(fake.live, before);
}
END_TEST

START_TEST(test_a_capture_that_cannot_be_held_is_an_error)
{
    /* which call fails: 1 makes an event, 2 makes a user object, 3 gives the graph that object */
    for (int at = 1; at <= 3; at++) {
        int live = fake.live;

        fake.capture = 20 + (unsigned)at;
        fake.fail_at = fake.calls + at;
        ck_assert_int_eq(
            symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, handles[0], NULL),
            ncclUnhandledCudaError);
        fake.fail_at = 0;
        ck_assert(!ar_graphs_live(handles[0], ~0ull, 0));
        ck_assert_int_eq(fake.live, live);
    }
    ck_assert_int_eq(fake.launches, 0);
}
END_TEST

enum { RANKS = 2 };

static char *buffer[RANKS][2];

static void make_pair(symtuner_ar **h)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();
    void *list[RANKS];

    memset(&fake, 0, sizeof fake);
    fake_nccl_reset(RANKS);
    fake.devices = RANKS;
    fake.peers = 1;
    ck_assert_msg(symtuner_ar_create(h, comms, RANKS, &config) == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
    for (int b = 0; b < 2; b++) {
        for (int r = 0; r < RANKS; r++)
            list[r] = buffer[r][b] = aligned_alloc(4096, 4096);
        ck_assert_int_eq(symtuner_ar_register(h, list, NULL, RANKS, 4096), ncclSuccess);
    }
}

static void free_buffers(void)
{
    for (int r = 0; r < RANKS; r++)
        for (int b = 0; b < 2; b++)
            free(buffer[r][b]);
}

/* After symtuner_ar_destroy the communicator may end, and the access to the peers with it. So the
 * graph keeps only the counters. If a kernel is replayed later, they tell it that its handle is
 * gone. */
START_TEST(test_of_a_communicators_handle_a_graph_keeps_the_counters)
{
    symtuner_ar *h[RANKS];
    struct ar_state *state[RANKS];

    make_pair(h);
    fake.capture = 31;
    symtuner_ar_force(h[0], "copy", 0, 0);
    ck_assert_int_eq(
        symtuner_ar_all_reduce(buffer[0][0], buffer[0][1], 1000, ncclFloat, ncclSum, h[0], NULL),
        ncclSuccess);
    /* a copy cannot check whether the handle is gone, so a kernel in front of all copies checks */
    ck_assert_ptr_eq(fake.launch[0].kernel, ar_kernel_signal);
    ck_assert_int_eq(fake.launch[0].args.ranks, 0);
    ck_assert_ptr_eq(fake.launch[0].args.state, h[0]->state);
    ck_assert_int_eq(fake.copies_before_launch, 0);
    fake.capture = 0;
    for (int r = 0; r < RANKS; r++)
        state[r] = h[r]->state;
    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    ck_assert_ptr_null(h[0]);
    ck_assert_int_eq(fake_nccl.live, 0); /* NCCL's memory and windows are freed */
    ck_assert_int_gt(fake.live, 0);
    ck_assert_int_eq(state[0]->dead, AR_DESTROYED);
    fake_graph_gone(31);
    ar_deferred_free(~UINT64_C(0));
    ck_assert_int_eq(fake.live, 0);
    free_buffers();
}
END_TEST

START_TEST(test_a_buffer_in_a_graph_stays_registered)
{
    symtuner_ar *h[RANKS];
    void *used[RANKS], *other[RANKS];
    int windows;

    make_pair(h);
    for (int r = 0; r < RANKS; r++) {
        used[r] = buffer[r][1];
        other[r] = buffer[r][0];
    }
    windows = fake_nccl.live;
    fake.capture = 41;
    ck_assert_int_eq(symtuner_ar_all_reduce(used[1], used[1], 8, ncclFloat, ncclSum, h[1], NULL),
                     ncclSuccess);
    fake.capture = 0;
    want_error(symtuner_ar_deregister(h, used, RANKS), ncclInvalidUsage, h[0],
               "buffers[1]: a graph holds calls that use ");
    ck_assert_int_eq(fake_nccl.live, windows);
    ck_assert_int_eq(symtuner_ar_deregister(h, other, RANKS), ncclSuccess);
    fake_graph_gone(41);
    ck_assert_int_eq(symtuner_ar_deregister(h, used, RANKS), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    ck_assert_int_eq(fake.live, 0);
    free_buffers();
}
END_TEST

static symtuner_ar *of_rank[RANKS];
static ncclResult_t dropped[RANKS];

static void make_one(int rank)
{
    const ncclComm_t comm = (ncclComm_t)(uintptr_t)(rank + 1);
    void *own = buffer[rank][0] = aligned_alloc(4096, 4096);
    struct symtuner_ar_config config = small();

    must(symtuner_ar_create(&of_rank[rank], &comm, 1, &config) == ncclSuccess);
    must(symtuner_ar_register(&of_rank[rank], &own, NULL, 1, 4096) == ncclSuccess);
}

static void drop_one(int rank)
{
    void *own = buffer[rank][0];

    dropped[rank] = symtuner_ar_deregister(&of_rank[rank], &own, 1);
}

static void end_one(int rank)
{
    must(symtuner_ar_destroy(&of_rank[rank], 1) == ncclSuccess);
    free(buffer[rank][0]);
}

/* If rank 0 cannot deregister its buffer (a graph uses it, or the address is wrong), no rank does.
 * Otherwise the next call would be zero-copy on rank 0 only. */
START_TEST(test_all_ranks_deregister_or_none)
{
    memset(&fake, 0, sizeof fake);
    fake_nccl_reset(RANKS);
    fake.devices = RANKS;
    fake.peers = 1;
    fake_nccl_threads(make_one);
    for (int unknown = 0; unknown < 2; unknown++) {
        fake.capture = unknown ? 0 : 61;
        must(symtuner_ar_all_reduce(buffer[0][0], buffer[0][0], 8, ncclFloat, ncclSum, of_rank[0],
                                    NULL) == ncclSuccess);
        fake.capture = 0;
        buffer[0][0] += unknown;
        fake_nccl_threads(drop_one);
        buffer[0][0] -= unknown;
        want_error(dropped[0], ncclInvalidUsage, of_rank[0], unknown ? "not reg" : "a graph holds");
        want_error(dropped[1], ncclRemoteError, of_rank[1], "rank 0: buffers[0]: ");
        for (int r = 0; r < RANKS; r++)
            ck_assert_ptr_nonnull(ar_window_find(of_rank[r], buffer[r][0], 8));
        fake_graph_gone(61);
    }
    fake_nccl_threads(drop_one);
    ck_assert(dropped[0] == ncclSuccess && dropped[1] == ncclSuccess);
    fake_nccl_threads(end_one);
    ck_assert_int_eq(fake.live + fake_nccl.live, 0);
}
END_TEST

/* Calls on a handle run one after the other, even if NCCL runs some of them, or if the handle has
 * only one rank, so that its calls are copies. */
START_TEST(test_calls_without_our_kernels_keep_the_order)
{
    static const char *const names[] = {"two_ll8", "nccl", "two_ll8"};
    static const int one[] = {0};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[RANKS], *lone;

    make_pair(h);
    ck_assert_int_eq(symtuner_ar_create_local(&lone, one, 1, &config), ncclSuccess);
    for (unsigned capture = 0; capture <= 71; capture += 71) {
        fake.capture = capture;
        for (int k = 0; k < 3; k++) { /* each call is on another stream than the call before */
            symtuner_ar_force(h[0], names[k], 0, 0);
            fake.waits = 0;
            ck_assert_int_eq(symtuner_ar_all_reduce(buffer[0][0], buffer[0][0], 8, ncclFloat,
                                                    ncclSum, h[0],
                                                    (cudaStream_t)(buffer[1][0] + 64 * k)),
                             ncclSuccess);
            ck_assert_int_eq(fake.waits, k != 0);
            ck_assert(k == 0 || fake.waited == (capture ? h[0]->graphs->order : h[0]->eager).done);
            fake.waits = 0;
            ck_assert_int_eq(symtuner_ar_all_reduce(buffer[0][0], buffer[0][1], 8, ncclFloat,
                                                    ncclSum, lone,
                                                    (cudaStream_t)(buffer[1][0] + 64 * k)),
                             ncclSuccess);
            ck_assert_int_eq(fake.waits, k != 0);
        }
    }
    fake.capture = 0;
    ck_assert_int_eq(fake_nccl.reduces, 2);
    fake_graph_gone(71);
    ck_assert_int_eq(symtuner_ar_destroy(&lone, 1), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    free_buffers();
}
END_TEST

/* The program may deregister its window while a graph that used the window still exists. If another
 * buffer is registered in its place, the graph must not hold that buffer. */
START_TEST(test_a_graph_does_not_hold_who_comes_after)
{
    static char next[RANKS][4096] __attribute__((aligned(4096)));
    void *used[RANKS], *after[RANKS];
    symtuner_ar *h[RANKS];

    make_pair(h);
    for (int r = 0; r < RANKS; r++) {
        used[r] = buffer[r][1];
        after[r] = next[r];
        ((struct ar_window *)ar_window_find(h[r], used[r], 8))->ours = false;
    }
    fake.capture = 51;
    ck_assert_int_eq(symtuner_ar_all_reduce(used[1], used[1], 8, ncclFloat, ncclSum, h[1], NULL),
                     ncclSuccess);
    fake.capture = 0;
    ck_assert_int_eq(symtuner_ar_deregister(h, used, RANKS), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_register(h, after, NULL, RANKS, sizeof next[0]), ncclSuccess);
    ck_assert_msg(symtuner_ar_deregister(h, after, RANKS) == ncclSuccess, "%s",
                  symtuner_ar_error(h[0]));
    fake_graph_gone(51);
    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    free_buffers();
}
END_TEST

/* While a thread captures in mode global, CUDA lets other threads allocate and copy only in mode
 * relaxed. A refused call would also end that capture. */
START_TEST(test_a_capture_of_another_thread_stops_no_creation)
{
    static const int pair[] = {0, 1};
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2};
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    struct symtuner_ar_config config = small();
    symtuner_ar *h[RANKS], *local[2];

    make_pair(h);
    symtuner_ar_destroy(h, RANKS);
    cudaThreadExchangeStreamCaptureMode(&mode);
    fake.global_capture = 1;
    ck_assert_msg(symtuner_ar_create(h, comms, RANKS, &config) == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
    for (int probes = 0; probes < 2; probes++) {
        setenv("SYMTUNER_AR_PROBE", probes ? "1" : "0", 1);
        ck_assert_int_eq(symtuner_ar_create_local(local, pair, 2, &config), ncclSuccess);
        ck_assert_int_eq(symtuner_ar_destroy(local, 2), ncclSuccess);
    }
    unsetenv("SYMTUNER_AR_PROBE");
    fake.global_capture = 0;
    ck_assert_int_eq(fake.prohibited, 0);
    mode = cudaStreamCaptureModeGlobal;
    cudaThreadExchangeStreamCaptureMode(&mode);
    ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal); /* the calls keep the mode */
    symtuner_ar_destroy(h, RANKS);
    free_buffers();
}
END_TEST

/* No call of the library, not even a kernel's first launch, may end another thread's capture. */
START_TEST(test_a_capture_of_another_thread_goes_on_during_calls)
{
    const float scalar = 2;
    static char more[RANKS][4096] __attribute__((aligned(4096)));
    void *const list[RANKS] = {more[0], more[1]};
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h[RANKS];
    const char *name;
    ncclRedOp_t op;
    char text[4096];

    make_pair(h);
    fake.global_capture = 1;
    ck_assert_int_eq(symtuner_ar_register(h, list, NULL, RANKS, sizeof more[0]), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_reserve(h, RANKS, SIZE_MAX), ncclSuccess);
    for (int i = 0; (name = symtuner_ar_kernel_name(i)) != NULL; i++) {
        ck_assert_int_eq(symtuner_ar_force(h[0], name, 0, 0), ncclSuccess);
        symtuner_ar_all_reduce(more[0], more[0], 8, ncclFloat, ncclSum, h[0], NULL);
        symtuner_ar_reduce_scatter(more[0], buffer[0][0], 8, ncclFloat, ncclSum, h[0], NULL);
        if (strcmp(name, "nccl") != 0) /* a gather of NCCL would wait for rank 1 */
            symtuner_ar_all_gather(more[0], buffer[0][0], 8, ncclFloat, h[0], NULL);
    }
    ck_assert_int_gt(fake.launches, AR_FAMILIES);
    symtuner_ar_force(h[0], NULL, 0, 0);
    ck_assert_int_eq(symtuner_ar_op_create_premul_sum(&op, (void *)(uintptr_t)&scalar, ncclFloat,
                                                      ncclScalarHostImmediate, h[0]),
                     ncclSuccess);
    ck_assert_int_eq(symtuner_ar_op_destroy(op, h[0]), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_query(more[0], more[0], 8, ncclFloat, ncclSum, h[0], &plan),
                     ncclSuccess);
    symtuner_ar_describe(h[0], text, sizeof text);
    ck_assert_int_eq(symtuner_ar_status(h[0]), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_separate(NULL), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_deregister(h, list, RANKS), ncclSuccess);
    fake.global_capture = 0;
    ck_assert_int_eq(fake.prohibited, 0);
    symtuner_ar_destroy(h, RANKS);
    free_buffers();
}
END_TEST

Suite *st_suite_graph(void)
{
    Suite *s = suite_create("ar_graph");
    TCase *made = tcase_create("order"), *bare = tcase_create("life");

    tcase_add_checked_fixture(made, set_up, tear_down);
    tcase_add_test(made, test_captures_by_turns_keep_their_order);
    tcase_add_test(made, test_streams_are_told_apart_by_number);
    tcase_add_test(made, test_a_stream_of_another_gpu_is_named);
    tcase_add_test(made, test_streams_of_threads_are_told_apart_in_a_capture);
    tcase_add_test(made, test_a_call_gets_a_stream_that_it_can_use);
    tcase_add_test(made, test_a_graph_keeps_a_local_group_alive);
    tcase_add_test(made, test_a_graph_that_is_gone_keeps_nothing);
    tcase_add_test(made, test_a_capture_that_cannot_be_held_is_an_error);
    suite_add_tcase(s, made);
    tcase_add_test(bare, test_of_a_communicators_handle_a_graph_keeps_the_counters);
    tcase_add_test(bare, test_calls_without_our_kernels_keep_the_order);
    tcase_add_test(bare, test_a_graph_does_not_hold_who_comes_after);
    tcase_add_test(bare, test_a_buffer_in_a_graph_stays_registered);
    tcase_add_test(bare, test_all_ranks_deregister_or_none);
    tcase_add_test(bare, test_a_capture_of_another_thread_stops_no_creation);
    tcase_add_test(bare, test_a_capture_of_another_thread_goes_on_during_calls);
    suite_add_tcase(s, bare);
    return s;
}
