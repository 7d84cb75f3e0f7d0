/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_mixing.c - tests how a graph with calls of a handle and the calls outside of it wait for
 * each other: which nodes the graph gets for this, and when calls outside of graphs wait. Runs on
 * test/kernels/fake/cuda.c, where every stream belongs to the capture with the id fake.capture.
 * test/kernels/nodes/check_turns.c tests that graphs and calls then really wait.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/event_nodes.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/suites.h"

static void start(void)
{
    fake_node_count = 0;
    fake_fronts = 0;
    set_up();
}

static void end(void)
{
    fake.capture = 0;
    fake.fails = NULL;
    fake_fronts = 0;
    fake_graph_gone(5);
    fake_graph_gone(6);
    tear_down();
}

static void call_on(symtuner_ar *h, int stream)
{
    ck_assert_msg(symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, h,
                                         (cudaStream_t)memory[stream]) == ncclSuccess,
                  "%s", symtuner_ar_error(h));
}

/* Return the node that the next node of a captured stream would follow. */
static cudaGraphNode_t front(void)
{
    return (cudaGraphNode_t)(uintptr_t)(FAKE_BEFORE * (fake.launches + 1));
}

/* Each graph has one node that waits for the event, in front of its first call, and one that
 * records the event, behind its last call so far. */
START_TEST(test_a_graph_has_a_node_at_each_end)
{
    for (unsigned capture = 5; capture <= 6; capture++) {
        const struct fake_node *n = &fake_nodes[(capture - 5) * 2];
        const cudaGraphNode_t first = front();

        fake.capture = capture;
        for (int k = 0; k < 3; k++) {
            call_on(handles[0], 1 + k / 2); /* the third call is on another stream */
            ck_assert_int_eq(fake_node_count, (int)(capture - 4) * 2);
            ck_assert(!n[0].records && n[1].records);
            for (int i = 0; i < 2; i++) {
                ck_assert_ptr_eq(n[i].event, handles[0]->eager.done);
                ck_assert_ptr_eq(n[i].graph, (cudaGraph_t)(uintptr_t)capture);
                ck_assert_uint_eq(n[i].befores, 1);
            }
            ck_assert_ptr_eq(n[0].before[0], first);
            ck_assert_ptr_eq(n[1].before[0], front());
        }
    }
}
END_TEST

/* If the capture has several last nodes after a call, an empty node joins them for the node that
 * records the event. */
START_TEST(test_a_call_with_several_ends_is_joined)
{
    fake.capture = 5;
    for (int k = 0; k < 2; k++) {
        fake_fronts = 2 * (size_t)(1 - k);
        call_on(handles[0], 1);
        ck_assert_int_eq(fake_node_count, 2);
        ck_assert_uint_eq(fake_nodes[0].befores, 2);
        ck_assert_uint_eq(fake_nodes[1].befores, 1);
        ck_assert_ptr_eq(fake_nodes[1].before[0],
                         k == 0 ? (cudaGraphNode_t)(uintptr_t)fake.capture : front());
    }
}
END_TEST

/* A call in place on a group of one rank captures no nodes. */
START_TEST(test_a_call_without_nodes_moves_nothing)
{
    static const int one[] = {0};
    struct symtuner_ar_config config = small();
    symtuner_ar *lone;

    ck_assert_int_eq(symtuner_ar_create_local(&lone, one, 1, &config), ncclSuccess);
    fake.capture = 5;
    for (int k = 0; k < 3; k++) {
        call_on(lone, 1);
        ck_assert_int_eq(fake_node_count, 2);
        ck_assert_uint_eq(fake_nodes[1].befores, 1);
        ck_assert_ptr_eq(fake_nodes[1].before[0], front());
    }
    fake.capture = 0;
    fake_graph_gone(5);
    symtuner_ar_destroy(&lone, 1);
}
END_TEST

/* As long as there are graphs, a call outside of them waits even for calls on its own stream. */
START_TEST(test_calls_wait_as_long_as_there_are_graphs)
{
    call_on(handles[0], 1);
    ck_assert_int_eq(fake.waits, 0);
    for (unsigned capture = 5; capture <= 6; capture++) {
        fake.capture = capture;
        call_on(handles[0], 1);
    }
    fake.capture = 0;
    for (int graphs = 2; graphs >= 0; graphs--) {
        fake.waits = 0;
        call_on(handles[0], 1);
        ck_assert_int_eq(fake.waits, graphs > 0);
        ck_assert(graphs == 0 || fake.waited == handles[0]->eager.done);
        fake_graph_gone(graphs == 2 ? 5 : 6);
    }
    call_on(handles[1], 1); /* another handle has no graphs */
    ck_assert_int_eq(fake.waits, 0);
}
END_TEST

/* Creating a handle records the event, so a graph can wait for the event even before the first
 * call. */
START_TEST(test_the_event_is_recorded_before_the_first_graph)
{
    static const int one[] = {0};
    struct symtuner_ar_config config = small();
    symtuner_ar *lone;

    fake.records = 0;
    ck_assert_int_eq(symtuner_ar_create_local(&lone, one, 1, &config), ncclSuccess);
    ck_assert_int_eq(fake.records, 1);
    symtuner_ar_destroy(&lone, 1);
}
END_TEST

static const struct {
    const char *mixing; /* NCCL_GRAPH_MIXING_SUPPORT; NULL: not set */
    int one_stream;
    bool mixes;
} promises[] = {{NULL, 0, true}, {NULL, 1, false}, {"0", 0, false},     {"0x0", 0, false},
                {"1", 0, true},  {"2", 0, true},    {"1", 1, false},     {"", 0, true},
                {"no", 0, false}, {"1 or 0", 0, true}, {"99999999999999999999", 0, true}};

START_TEST(test_a_promise_leaves_the_nodes_out)
{
    static const int one[] = {0};
    struct symtuner_ar_config config = small();
    symtuner_ar *lone;

    unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
    if (promises[_i].mixing != NULL)
        setenv("NCCL_GRAPH_MIXING_SUPPORT", promises[_i].mixing, 1);
    config.one_stream = promises[_i].one_stream;
    fake.records = 0;
    ck_assert_int_eq(symtuner_ar_create_local(&lone, one, 1, &config), ncclSuccess);
    ck_assert_int_eq(fake.records, promises[_i].mixes);
    fake.capture = 5;
    call_on(lone, 1);
    fake.capture = 0;
    ck_assert_int_eq(fake_node_count, promises[_i].mixes ? 2 : 0);
    call_on(lone, 1);
    ck_assert_int_eq(fake.waits, promises[_i].mixes);
    fake_graph_gone(5);
    symtuner_ar_destroy(&lone, 1);
}
END_TEST

/* Each row has a CUDA call that fails, and how many nodes for events the graph then has after three
 * captured calls. */
static const struct {
    const char *call;
    int nodes;
    size_t befores; /* how many nodes the last node follows */
} failures[] = {
    {"cudaGraphAddEventWaitNode", 0, 0},   {"cudaStreamUpdateCaptureDependencies", 1, 1},
    {"cudaGraphAddEventRecordNode", 1, 1}, {"cudaGraphAddDependencies", 2, 1},
    {"cudaGraphRemoveDependencies", 2, 3}, /* the edges that stay do no harm */
};

/* Some graphs accept no nodes for events. The capture must go on without them, and CUDA's last
 * error, which the program may look at, must be clear. */
START_TEST(test_a_capture_goes_on_if_it_takes_no_nodes)
{
    cudaGetLastError();
    fake.capture = 5;
    fake.fails = failures[_i].call;
    for (int k = 0; k < 3; k++)
        call_on(handles[0], 1);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    ck_assert_int_eq(fake_node_count, failures[_i].nodes);
    if (failures[_i].nodes > 0)
        ck_assert_uint_eq(fake_nodes[failures[_i].nodes - 1].befores, failures[_i].befores);
    fake.fails = NULL;
    call_on(handles[0], 1);
    ck_assert_int_eq(fake_node_count, failures[_i].nodes); /* this graph gets no more nodes for
                                                              events */
    fake.capture = 6;
    call_on(handles[0], 1);
    ck_assert_int_eq(fake_node_count, failures[_i].nodes + 2);
}
END_TEST

Suite *st_suite_mixing(void)
{
    Suite *s = suite_create("ar_mixing");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, start, end);
    tcase_add_test(t, test_a_graph_has_a_node_at_each_end);
    tcase_add_test(t, test_a_call_with_several_ends_is_joined);
    tcase_add_test(t, test_a_call_without_nodes_moves_nothing);
    tcase_add_test(t, test_calls_wait_as_long_as_there_are_graphs);
    tcase_add_test(t, test_the_event_is_recorded_before_the_first_graph);
    tcase_add_loop_test(t, test_a_promise_leaves_the_nodes_out, 0,
                        (int)(sizeof promises / sizeof *promises));
    tcase_add_loop_test(t, test_a_capture_goes_on_if_it_takes_no_nodes, 0,
                        (int)(sizeof failures / sizeof *failures));
    suite_add_tcase(s, t);
    return s;
}
