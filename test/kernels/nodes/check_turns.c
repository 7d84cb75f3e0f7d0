/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_turns.c - two captures and a call outside of captures take turns on one handle. The calls
 * are those of which a part runs on streams of the library: kernels copy, engines and tma_engines,
 * and calls box by box. Runs with the real kernels on the CPU (emulate.h), where a stream that
 * waits for an event of a capture joins the capture, as in CUDA (test/whole/cuda.c).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"
#include "test/kernels/suites.h"
#include "test/whole/cuda.h"

/* ${force}: the kernel of all calls; NULL: as the rule says. ${each}: number of ranks of a box.
 * Each case makes five calls in turns: calls 0 and 3 in one capture, calls 1 and 4 in another one,
 * and call 2 outside of captures. */
static const struct {
    const char *force, *rule;
    int ranks, each;
    bool gathers;
} cases[] = {
    {.force = "copy", .ranks = 2, .each = 2},
    {.force = "copy", .ranks = 2, .each = 2, .gathers = true},
    {.force = "engines", .ranks = 2, .each = 2, .gathers = true},
    {.force = "tma_engines", .ranks = 3, .each = 3},
    {.rule = "kernels kernel=one_ll8 ctas=2 threads=64; kernels network-pieces=2",
     .ranks = 4,
     .each = 2},
};

enum { RANKS = 4, CALLS = 5, COUNT = 1024, PLACE = 8192 };

static int now; /* the index of the case that runs */
static char *memory[RANKS];
static ncclResult_t result[RANKS][CALLS];
static char error[RANKS][CALLS][256];

static float *send_of(int r, int call)
{
    return (float *)(void *)(memory[r] + call * 2 * PLACE);
}

static float *recv_of(int r, int call)
{
    return (float *)(void *)(memory[r] + (call * 2 + 1) * PLACE);
}

static void make_call(int r, int call, cudaStream_t stream)
{
    const size_t count = cases[now].gathers ? COUNT / (size_t)cases[now].ranks : COUNT;

    result[r][call] = cases[now].gathers
                          ? symtuner_ar_all_gather(send_of(r, call), recv_of(r, call), count,
                                                   ncclFloat, handle[r], stream)
                          : symtuner_ar_all_reduce(send_of(r, call), recv_of(r, call), count,
                                                   ncclFloat, ncclSum, handle[r], stream);
    strcpy(error[r][call], symtuner_ar_error(handle[r]));
}

/* Take the turns of one rank, and then replay both graphs. */
static void take_turns(int r)
{
    cudaStream_t stream[3];
    cudaGraph_t graph[2];
    cudaGraphExec_t exec[2];

    cudaSetDevice(r);
    for (int i = 0; i < 3; i++)
        cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking);
    for (int i = 0; i < 2; i++)
        cudaStreamBeginCapture(stream[i], cudaStreamCaptureModeRelaxed);
    for (int call = 0; call < CALLS; call++)
        make_call(r, call, stream[call % 3]);
    for (int i = 0; i < 2; i++) {
        cudaStreamEndCapture(stream[i], &graph[i]);
        cudaGraphInstantiate(&exec[i], graph[i], 0);
    }
    for (int i = 0; i < 2; i++) {
        cudaGraphLaunch(exec[i], stream[2]);
        cudaStreamSynchronize(stream[2]);
    }
    for (int i = 0; i < 2; i++) {
        cudaGraphExecDestroy(exec[i]);
        cudaGraphDestroy(graph[i]);
    }
    for (int i = 0; i < 3; i++)
        cudaStreamDestroy(stream[i]);
}

static void prepare(int r)
{
    void *own = memory[r];

    cudaSetDevice(r);
    if (cases[now].force != NULL) {
        must(symtuner_ar_register(&handle[r], &own, NULL, 1, CALLS * 2 * PLACE) == ncclSuccess);
        must(symtuner_ar_force(handle[r], cases[now].force, 0, 0) == ncclSuccess);
        must(symtuner_ar_reserve(&handle[r], 1, SIZE_MAX) == ncclSuccess);
    }
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < COUNT; i++) {
            send_of(r, call)[i] = (float)((r + 1) * 100 + call);
            recv_of(r, call)[i] = -1;
        }
}

static float expected(int call, int i)
{
    const int ranks = cases[now].ranks;
    float sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += (float)((r + 1) * 100 + call);
    return cases[now].gathers ? (float)((i / (COUNT / ranks) + 1) * 100 + call) : sum;
}

START_TEST(test_captures_and_calls_take_turns)
{
    now = _i;
    group_reset(cases[_i].ranks, cases[_i].each, cases[_i].rule);
    fake.arch = 90;
    for (int r = 0; r < cases[_i].ranks; r++)
        memory[r] = aligned_alloc(4096, CALLS * 2 * PLACE);
    group_create();
    for (int r = 0; r < cases[_i].ranks; r++) {
        ck_assert_msg(created[r] == ncclSuccess, "%s", created_error[r]);
        ck_assert((handle[r]->nodes != NULL) == (cases[_i].force == NULL));
    }
    net_threads(prepare);
    net_threads(take_turns);
    for (int r = 0; r < cases[_i].ranks; r++)
        for (int call = 0; call < CALLS; call++) {
            ck_assert_msg(result[r][call] == ncclSuccess, "rank %d, call %d: %s", r, call,
                          error[r][call]);
            for (int i = 0; i < COUNT; i++)
                ck_assert_msg(recv_of(r, call)[i] == expected(call, i),
                              "rank %d, call %d: element %d", r, call, i);
        }
    group_destroy();
    for (int r = 0; r < cases[_i].ranks; r++)
        free(memory[r]);
}
END_TEST

Suite *nodes_suite_turns(void)
{
    Suite *s = suite_create("nodes_turns");
    TCase *t = tcase_create("turns");

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, test_captures_and_calls_take_turns, 0,
                        (int)(sizeof cases / sizeof *cases));
    suite_add_tcase(s, t);
    return s;
}
