/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_heap.c - checks that a group gives back all heap memory that it took. No other test checks
 * this: fake.live counts only what CUDA allocates, and LeakSanitizer runs only with SAN=address.
 */
#include <check.h>
#include <malloc.h>
#include <stdlib.h>

#include "kernels/group/gpu_wait.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

enum { COUNT = 1024, ROUNDS = 10, SERIES = 5 };

/* Make calls on ${h} with every kind of kernel, outside of captures and in one. Also make a call
 * that fails. */
static void call_in_all_ways(symtuner_ar *h)
{
    static const char *const kernels[] = {"two_ll8", "chunked", "copy", "engines", "tma_ipc"};
    char text[8192];
    double scalar = 2;
    ncclRedOp_t op;

    symtuner_ar_op_create_premul_sum(&op, &scalar, ncclDouble, ncclScalarHostImmediate, h);
    for (int i = 0; i < 4 * 5; i++) {
        fake.capture = i / 5 % 2 ? 7 : 0;
        symtuner_ar_force(h, kernels[i % 5], 0, 0);
        if (i < 10)
            symtuner_ar_all_reduce(memory[0], memory[0], COUNT, ncclFloat, ncclSum, h, NULL);
        else
            symtuner_ar_all_gather(memory[0], memory[1], COUNT, ncclFloat, h, NULL);
    }
    fake.capture = 0;
    symtuner_ar_all_reduce(NULL, memory[0], COUNT, ncclFloat, ncclSum, h, NULL);
    symtuner_ar_describe(h, text, sizeof text);
    fake_graph_gone(7);
}

/* Make a group, use it, and destroy it. Returns whether every step worked. */
static bool live_once(bool comm, const struct symtuner_ar_config *config)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2};
    void *buffers[2] = {memory[0], memory[1]};
    symtuner_ar *h[2];
    bool fine;

    fake_nccl_reset(2);
    if ((comm ? symtuner_ar_create(h, comms, 2, config)
              : symtuner_ar_create_local(h, devices, 2, config)) != ncclSuccess)
        return false;
    fine = symtuner_ar_register(h, buffers, NULL, 2, 65536) == ncclSuccess;
    for (int r = 0; r < 2; r++)
        call_in_all_ways(h[r]);
    fine = symtuner_ar_deregister(h, buffers, 2) == ncclSuccess && fine;
    fine = symtuner_ar_reserve(h, 2, 1 << 20) == ncclSuccess && fine;
    return symtuner_ar_destroy(h, 2) == ncclSuccess && fine;
}

/* Return whether the heap stayed as it was in a series of ${rounds} equal rounds. ${before} is how
 * many bytes of the heap were in use when the series began. With a leak, the heap grows in each
 * series. Without a leak it may grow in some series, because it keeps some freed memory for later.
 * With sanitizers it never grows here: they have their own allocators, so mallinfo2 gives 0 before
 * and after. */
static bool is_as_it_was(size_t before, size_t rounds)
{
    return mallinfo2().uordblks < before + 16 * rounds;
}

START_TEST(test_groups_leave_the_heap_as_it_was)
{
    struct symtuner_ar_config config = small();
    bool fine = false;

    config.transport = _i / 2 ? SYMTUNER_AR_HOST : SYMTUNER_AR_AUTO;
    setenv("SYMTUNER_LOG", "off", 1);
    setenv("SYMTUNER_AR_IPC", "1", 1);
    setenv("SYMTUNER_RULE", "kernels kernel=two_ll8", 1);
    for (int series = 0; series < SERIES && !fine; series++) {
        const size_t before = mallinfo2().uordblks;

        for (int i = 0; i < ROUNDS; i++)
            ck_assert(live_once(_i % 2, &config));
        fine = is_as_it_was(before, ROUNDS);
    }
    ck_assert(fine);
    unsetenv("SYMTUNER_RULE");
    unsetenv("SYMTUNER_AR_IPC");
    unsetenv("SYMTUNER_LOG");
}
END_TEST

/* In each round, the first call to CUDA fails, then only the second, and so on. */
START_TEST(test_failures_leave_the_heap_as_it_was)
{
    enum { TIMES = 3 };
    struct symtuner_ar_config config = small();
    const int live = fake.live;
    bool fine = false;

    setenv("SYMTUNER_LOG", "off", 1);
    for (int series = 0; series < SERIES && !fine; series++) {
        const size_t before = mallinfo2().uordblks;

        for (int i = 0; i < TIMES; i++) {
            for (int at = 1; fake.calls + 1 >= at; at++) {
                fake.calls = 0;
                fake.fail_at = at;
                live_once(_i, &config);
            }
            fake.fail_at = 0;
            ck_assert_int_eq(fake.live, live);
        }
        fine = is_as_it_was(before, TIMES);
    }
    ck_assert(fine);
    unsetenv("SYMTUNER_LOG");
}
END_TEST

/* ar_gpu_wait uses a helper thread, or waits without one if none can be started. */
START_TEST(test_waiting_for_a_gpu_leaves_the_heap_as_it_was)
{
    bool fine = false;

    fake.no_thread = _i;
    for (int series = 0; series < SERIES && !fine; series++) {
        const size_t before = mallinfo2().uordblks;

        for (int i = 0; i < ROUNDS; i++)
            ck_assert_int_eq(ar_gpu_wait(1, 60000000000), cudaSuccess);
        fine = is_as_it_was(before, ROUNDS);
    }
    ck_assert(fine);
    fake.no_thread = 0;
}
END_TEST

Suite *st_suite_heap(void)
{
    Suite *suite = suite_create("ar_heap");
    TCase *heap = tcase_create("heap");

    tcase_add_checked_fixture(heap, set_up, tear_down);
    tcase_set_timeout(heap, 60);
    tcase_add_loop_test(heap, test_groups_leave_the_heap_as_it_was, 0, 4);
    tcase_add_loop_test(heap, test_failures_leave_the_heap_as_it_was, 0, 2);
    tcase_add_loop_test(heap, test_waiting_for_a_gpu_leaves_the_heap_as_it_was, 0, 2);
    suite_add_tcase(suite, heap);
    return suite;
}
