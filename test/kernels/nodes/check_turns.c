/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_turns.c - makes calls on one handle by turns in two captures and outside of captures, and
 * then launches the two graphs by turns. Most calls use streams of the library, too: those of the
 * kernels "copy", "engines" and "tma_engines", and those that add up box by box (machine by
 * machine). The real kernels run on the CPU (test/kernels/emulated/emulate.h). As in CUDA, a stream
 * that waits for an event of a capture joins the capture (test/whole/cuda.c).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/kernels/fake/cuda.h"
#include "test/kernels/nodes/group.h"
#include "test/kernels/nodes/suites.h"
#include "test/kernels/suites.h"
#include "test/whole/cuda.h"

/* ${force}: the kernel of all calls; NULL: the rule chooses. ${each}: number of ranks in a box.
 * Each case makes six calls by turns: calls 0 and 3 in one capture, calls 1 and 4 in another one,
 * and call 2 outside of captures. Call 5, outside of captures, comes between the launches of the
 * two graphs. */
static const struct {
    const char *force, *rule;
    int ranks, each;
    bool gathers;
} cases[] = {
    {.force = "one_ll8", .ranks = 2, .each = 2},
    {.force = "copy", .ranks = 2, .each = 2},
    {.force = "copy", .ranks = 2, .each = 2, .gathers = true},
    {.force = "engines", .ranks = 2, .each = 2, .gathers = true},
    {.force = "tma_engines", .ranks = 3, .each = 3},
    {.rule = "kernels kernel=one_ll8 ctas=2 threads=64; kernels network-pieces=2",
     .ranks = 4,
     .each = 2},
};

enum { RANKS = 4, CALLS = 6, COUNT = 1024, PLACE = 8192 };

static int now; /* the index of the case that runs */
static char *memory[RANKS];
static ncclResult_t result[RANKS][CALLS], status[RANKS];
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

/* Make the calls of rank ${r} by turns. Then launch both graphs twice, each on its own stream, and
 * make a call on a third stream after each launch. */
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
    for (int call = 0; call < CALLS - 1; call++)
        make_call(r, call, stream[call % 3]);
    for (int i = 0; i < 2; i++) {
        cudaStreamEndCapture(stream[i], &graph[i]);
        cudaGraphInstantiate(&exec[i], graph[i], 0);
    }
    for (int i = 0; i < 4; i++) {
        cudaGraphLaunch(exec[i % 2], stream[i % 2]);
        /* The fake NCCL counts a call when it is made, but a captured call when its graph runs. So
         * wait for the graph before the next call. */
        if (cases[now].force == NULL)
            cudaStreamSynchronize(stream[i % 2]);
        make_call(r, CALLS - 1, stream[2]);
    }
    cudaDeviceSynchronize();
    status[r] = symtuner_ar_status(handle[r]);
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
    for (int r = 0; r < cases[_i].ranks; r++) {
        ck_assert_int_eq(status[r], ncclSuccess);
        for (int call = 0; call < CALLS; call++) {
            ck_assert_msg(result[r][call] == ncclSuccess, "rank %d, call %d: %s", r, call,
                          error[r][call]);
            for (int i = 0; i < COUNT; i++)
                ck_assert_msg(recv_of(r, call)[i] == expected(call, i),
                              "rank %d, call %d: element %d is %g", r, call, i,
                              (double)recv_of(r, call)[i]);
        }
    }
    group_destroy();
    for (int r = 0; r < cases[_i].ranks; r++)
        free(memory[r]);
}
END_TEST

/* ---- a handle of one rank, whose calls are copies -------------------------------------------- */

/* Each letter of ${steps} is a step, on a stream of its own. G is a graph, which is captured just
 * before it is launched. E is a call outside of graphs. The test holds up the first step. If
 * ${mixes} is true, the other steps must wait for the first one. Otherwise
 * NCCL_GRAPH_MIXING_SUPPORT is 0, and they must not wait. */
static const struct {
    const char *steps;
    bool mixes;
} chains[] = {{"GE", true},    {"GG", true},  {"EG", true},  {"GEGGE", true},
              {"EEGEG", true}, {"GE", false}, {"GG", false}, {"EG", false}};

enum { STEPS = 8 };

static int gate;

static void CUDART_CB hold(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&gate, __ATOMIC_ACQUIRE))
        usleep(100);
}

/* Step ${k} copies numbers[k] to numbers[k + 1]. A graph does this in two calls. Step 0 is held up
 * before its last call. */
static void take_step(symtuner_ar *lone, float *numbers, int k, bool graph, cudaStream_t stream)
{
    static float between[STEPS];
    cudaGraph_t made;
    cudaGraphExec_t exec;

    if (graph)
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    if (graph)
        must(symtuner_ar_all_reduce(&numbers[k], &between[k], 1, ncclFloat, ncclSum, lone,
                                    stream) == ncclSuccess);
    if (k == 0)
        cudaLaunchHostFunc(stream, hold, NULL);
    must(symtuner_ar_all_reduce(graph ? &between[k] : &numbers[k], &numbers[k + 1], 1, ncclFloat,
                                ncclSum, lone, stream) == ncclSuccess);
    if (!graph)
        return;
    cudaStreamEndCapture(stream, &made);
    cudaGraphInstantiate(&exec, made, 0);
    cudaGraphLaunch(exec, stream);
    cudaGraphDestroy(made);
    cudaGraphExecDestroy(exec); /* CUDA keeps the graph until its launch has ended */
}

START_TEST(test_graphs_and_calls_wait_for_each_other)
{
    const int device = 0, steps = (int)strlen(chains[_i].steps);
    struct symtuner_ar_config config = {.size = sizeof config, .bulk_bytes = 1 << 20};
    cudaStream_t stream[STEPS];
    float numbers[STEPS + 1] = {42};
    symtuner_ar *lone;

    memset(&fake, 0, sizeof fake);
    gate = 0;
    if (!chains[_i].mixes)
        setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
    ck_assert_int_eq(symtuner_ar_create_local(&lone, &device, 1, &config), ncclSuccess);
    unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
    cudaSetDevice(device);
    for (int k = 0; k < steps; k++) {
        cudaStreamCreateWithFlags(&stream[k], cudaStreamNonBlocking);
        take_step(lone, numbers, k, chains[_i].steps[k] == 'G', stream[k]);
    }
    usleep(20000); /* steps that do not wait end in this time */
    if (!chains[_i].mixes)
        ck_assert_int_eq(cudaStreamSynchronize(stream[1]), cudaSuccess);
    __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
    cudaDeviceSynchronize();
    ck_assert(numbers[steps] == (chains[_i].mixes ? 42.0f : 0.0f));
    for (int k = 0; k < steps; k++)
        cudaStreamDestroy(stream[k]);
    ck_assert_int_eq(symtuner_ar_destroy(&lone, 1), ncclSuccess);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

Suite *nodes_suite_turns(void)
{
    Suite *s = suite_create("nodes_turns");
    TCase *t = tcase_create("turns"), *waits = tcase_create("waits");

    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, test_captures_and_calls_take_turns, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_loop_test(waits, test_graphs_and_calls_wait_for_each_other, 0,
                        (int)(sizeof chains / sizeof *chains));
    suite_add_tcase(s, t);
    suite_add_tcase(s, waits);
    return s;
}
