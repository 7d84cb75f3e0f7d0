/* SPDX-License-Identifier: Apache-2.0 */
/* check_auto.c - checks SYMTUNER_AR_IPC=auto: which calls the kernel tma_ipc runs, and which memory
 * the ranks let their peers map (show). */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/memory.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

enum { BYTES = 16 << 20, FLOATS = BYTES / 4 };
enum { STEPS = 12, BUCKETS = 100 };

static symtuner_ar *h[2];
static char *const place[2] = {(char *)((uintptr_t)1 << 40), (char *)((uintptr_t)2 << 40)};
static int says;            /* config.beside of the handles */
static bool decides;        /* the ranks call symtuner_ar_decide, as the drop-in does */
static int given[2][STEPS]; /* [r][i]: how many calls of rank r went to NCCL by step i */

static pthread_barrier_t step;

static void create(int rank)
{
    struct symtuner_ar_config config = small();
    ncclComm_t comm = (ncclComm_t)(uintptr_t)(rank + 1);

    config.beside = says;
    ck_assert_int_eq(symtuner_ar_create(&h[rank], &comm, 1, &config), ncclSuccess);
}

static void destroy(int rank)
{
    symtuner_ar_destroy(&h[rank], 1);
}

static void make(void)
{
    memset(&fake, 0, sizeof fake);
    fake.devices = fake.peers = 2;
    fake.arch = 90;
    fake_nccl_reset(2);
    fake_memory_clear();
    setenv("SYMTUNER_AR_IPC", "auto", 1);
    fake_nccl_threads(create);
    for (int r = 0; r < 2; r++)
        fake_allocation(place[r], 4 * BYTES, r);
    pthread_barrier_init(&step, NULL, 2);
    decides = true;
    says = SYMTUNER_AR_UNKNOWN;
}

static void drop(void)
{
    fake_nccl_threads(destroy);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
    unsetenv("SYMTUNER_AR_IPC");
    pthread_barrier_destroy(&step);
}

/* The description of the handle ${h[0]} must contain ${part}. */
static void must_say(const char *part)
{
    static char text[1 << 14];

    symtuner_ar_describe(h[0], text, sizeof text);
    ck_assert_msg(strstr(text, part) != NULL, "%.500s", text);
}

/* Make a call on rank ${rank}. Return whether symtuner_ar_decide gave it to NCCL. */
static int reduce(int rank, char *p)
{
    int nccl = 0;

    pthread_barrier_wait(&step);
    if (decides)
        ck_assert_int_eq(symtuner_ar_decide(SYMTUNER_AR_ALL_REDUCE, p, p, FLOATS, ncclFloat32,
                                            ncclSum, h[rank], &nccl),
                         ncclSuccess);
    if (!nccl)
        ck_assert_int_eq(symtuner_ar_all_reduce(p, p, FLOATS, ncclFloat32, ncclSum, h[rank], NULL),
                         ncclSuccess);
    return nccl;
}

static void all_reduce_steps(int rank)
{
    int nccl = 0;

    for (int i = 0; i < STEPS; i++)
        given[rank][i] = nccl += reduce(rank, place[rank]);
}

/* Make the calls of a program with many gradient buckets, each an allocation of its own. */
static void bucket_steps(int rank)
{
    int nccl = 0;

    for (int i = 0; i < STEPS; i++)
        for (int b = 0; b < BUCKETS; b++)
            given[rank][i] = nccl += reduce(rank, place[rank] + (size_t)b * 8 * BYTES);
}

/* Each part is a little longer than 8 MiB. The kernel one_lamport would run shorter ones. */
static void reduce_scatter_steps(int rank)
{
    for (int i = 0; i < STEPS; i++)
        ck_assert_int_eq(symtuner_ar_reduce_scatter(place[rank], place[rank] + 2 * BYTES,
                                                    FLOATS / 2 + 4, ncclFloat32, ncclSum,
                                                    h[rank], NULL),
                         ncclSuccess);
}

/* NCCL runs the first calls. Then kernel tma_ipc takes over, in the same call on both ranks. */
START_TEST(test_nccl_runs_calls_until_all_have_mapped)
{
    fake_nccl_threads(all_reduce_steps);
    for (int i = 0; i < STEPS; i++)
        ck_assert_int_eq(given[0][i], given[1][i]);
    /* a rank shows an allocation in the third call that uses it */
    ck_assert_int_eq(given[0][2], 3);
    ck_assert_int_lt(given[0][STEPS - 1], 7);
    ck_assert_int_eq(fake.launches, 2 * (STEPS - given[0][STEPS - 1]));
    ck_assert_int_eq(fake_nccl.reduces, 0);
}
END_TEST

/* If the caller does not call symtuner_ar_decide, the library itself gives the same calls to
 * NCCL. */
START_TEST(test_the_library_decides_alone)
{
    decides = false;
    fake_nccl_threads(all_reduce_steps);
    ck_assert_int_ge(fake_nccl.reduces, 6);
    ck_assert_int_lt(fake_nccl.reduces, 14);
    ck_assert_int_eq(fake.launches, 2 * STEPS - fake_nccl.reduces);
}
END_TEST

/* Mapping memory of cuMemCreate has never run on GPUs, so only SYMTUNER_AR_IPC=1 does it. */
START_TEST(test_created_memory_is_left_to_nccl)
{
    for (int r = 0; r < 2; r++)
        fake_created(place[r], 4 * BYTES, r, 1);
    fake_nccl_threads(all_reduce_steps);
    ck_assert_int_eq(given[0][STEPS - 1], STEPS);
    ck_assert_int_eq(fake_memory.exported, 0);
}
END_TEST

START_TEST(test_all_buckets_of_a_step_are_mapped)
{
    for (int b = 0; b < BUCKETS; b++)
        for (int r = 0; r < 2; r++)
            fake_allocation(place[r] + (size_t)b * 8 * BYTES, 4 * BYTES, r);
    fake_nccl_threads(bucket_steps);
    ck_assert_int_eq(given[0][2], 3 * BUCKETS);
    ck_assert_int_eq(given[0][6], given[0][STEPS - 1]); /* from some step on, NCCL runs no calls */
    ck_assert_int_eq(fake_memory.handles, 2 * BUCKETS);
}
END_TEST

/* Memory that a peer has mapped does not become free, even if its owner frees it. So a rank shows
 * only a limited part of its memory. */
START_TEST(test_a_large_allocation_is_not_shown)
{
    for (int r = 0; r < 2; r++)
        fake_allocation(place[r], 10ull << 30, r);
    fake_nccl_threads(all_reduce_steps);
    ck_assert_int_eq(given[0][STEPS - 1], STEPS);
    ck_assert_int_eq(fake_memory.handles, 0);
}
END_TEST

/* Memory for which CUDA gives no handle cannot be shown. It must not count towards the amount of
 * memory that a rank may show. */
START_TEST(test_memory_that_cannot_be_shown_takes_no_room)
{
    for (int r = 0; r < 2; r++)
        fake_allocation(place[r], 5ull << 30, r);
    fake_memory.no_handles = true;
    fake_nccl_threads(all_reduce_steps);
    ck_assert_int_eq(given[0][STEPS - 1], STEPS);
    ck_assert_int_eq(fake_memory.handles, 2); /* each rank asks once */
    fake_memory.no_handles = false;
    for (int r = 0; r < 2; r++)
        fake_allocation(place[r], 5ull << 30, r);
    fake_nccl_threads(all_reduce_steps);
    ck_assert_int_lt(given[0][STEPS - 1], STEPS);
}
END_TEST

/* A forced kernel runs all calls, so nothing is gained by showing the buffers later. */
START_TEST(test_a_forced_kernel_shows_at_once)
{
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(symtuner_ar_force(h[r], "tma_ipc", 0, 0), ncclSuccess);
    decides = false;
    fake_nccl_threads(all_reduce_steps);
    ck_assert_int_eq(fake_nccl.reduces, 0);
    ck_assert(fake.launch[0].args.at_send == ar_ipc_place(1, 0));
}
END_TEST

/* If nothing runs beside the calls, kernels that need no mapping are faster. */
START_TEST(test_a_program_that_runs_alone_maps_nothing)
{
    fake_nccl_threads(destroy);
    setenv("SYMTUNER_AR_BESIDE", "alone", 1);
    fake_nccl_threads(create);
    unsetenv("SYMTUNER_AR_BESIDE");
    ck_assert_ptr_null(h[0]->ipc);
    must_say("SYMTUNER_AR_IPC=auto has no effect: the calls run alone\n");
}
END_TEST

/* The JAX package says that its calls run alone, and asks symtuner_ar_query which kernel runs them.
 * With SYMTUNER_AR_IPC=auto this would change from call to call, and symtuner_ar_query could not
 * know it. So "auto" maps nothing in such programs, whatever SYMTUNER_AR_BESIDE says. */
START_TEST(test_what_the_program_says_counts_for_auto)
{
    fake_nccl_threads(destroy);
    says = SYMTUNER_AR_ALONE;
    setenv("SYMTUNER_AR_BESIDE", "compute", 1);
    fake_nccl_threads(create);
    unsetenv("SYMTUNER_AR_BESIDE");
    ck_assert_ptr_null(h[0]->ipc);
    ck_assert_int_eq(h[0]->beside, AR_BESIDE_COMPUTE);
    must_say("SYMTUNER_AR_IPC=auto has no effect: the calls run alone\n");
}
END_TEST

START_TEST(test_auto_is_for_all_reduces)
{
    fake_nccl_threads(reduce_scatter_steps);
    ck_assert_int_eq(fake_nccl.scatters, 2 * STEPS);
    ck_assert_int_eq(fake_memory.handles, 0);
}
END_TEST

START_TEST(test_the_plan_says_that_nccl_runs_the_first_calls)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};

    ck_assert_int_eq(
        symtuner_ar_query(place[0], place[0], FLOATS, ncclFloat32, ncclSum, h[0], &plan),
        ncclSuccess);
    ck_assert_str_eq(plan.kernel, "tma_ipc");
    ck_assert_ptr_nonnull(strstr(plan.why, "NCCL until all ranks have mapped the buffers"));
    must_say("SYMTUNER_AR_IPC=auto: NCCL runs long all-reduces until both ranks have mapped their "
             "buffers\n");
}
END_TEST

START_TEST(test_decide_answers_on_success_only)
{
    char *p = place[0];
    int nccl = 7;

    want_error(symtuner_ar_decide(SYMTUNER_AR_ALL_REDUCE, p, p, FLOATS, (ncclDataType_t)99, ncclSum,
                                  h[0], &nccl),
               ncclInvalidArgument, h[0], "data type 99 is unknown");
    ck_assert_int_eq(nccl, 7);
    want_error(
        symtuner_ar_decide(SYMTUNER_AR_ALL_REDUCE, p, p, FLOATS, ncclFloat32, ncclSum, h[0], NULL),
        ncclInvalidArgument, h[0], "nccl_out is NULL");
    ck_assert_int_eq(
        symtuner_ar_decide(SYMTUNER_AR_ALL_REDUCE, p, p, 0, ncclFloat32, ncclSum, h[0], &nccl),
        ncclSuccess);
    ck_assert_int_eq(nccl, 0);
}
END_TEST

/* A local group (symtuner_ar_create_local) has no NCCL that could run the first calls. */
START_TEST(test_a_local_group_maps_nothing)
{
    struct symtuner_ar_config config = small();

    memset(&fake, 0, sizeof fake);
    fake.devices = fake.peers = 2;
    fake.arch = 90;
    setenv("SYMTUNER_AR_IPC", "auto", 1);
    ck_assert_int_eq(symtuner_ar_create_local(h, devices, 2, &config), ncclSuccess);
    ck_assert_ptr_null(h[0]->ipc);
    must_say("SYMTUNER_AR_IPC=auto has no effect: the group was made without NCCL\n");
    symtuner_ar_destroy(h, 2);
    unsetenv("SYMTUNER_AR_IPC");
}
END_TEST

Suite *st_suite_ipc_auto(void)
{
    Suite *s = suite_create("ar_ipc_auto");
    TCase *two = tcase_create("two ranks"), *local = tcase_create("local");

    tcase_add_checked_fixture(two, make, drop);
    tcase_add_test(two, test_nccl_runs_calls_until_all_have_mapped);
    tcase_add_test(two, test_the_library_decides_alone);
    tcase_add_test(two, test_all_buckets_of_a_step_are_mapped);
    tcase_add_test(two, test_created_memory_is_left_to_nccl);
    tcase_add_test(two, test_a_large_allocation_is_not_shown);
    tcase_add_test(two, test_memory_that_cannot_be_shown_takes_no_room);
    tcase_add_test(two, test_a_forced_kernel_shows_at_once);
    tcase_add_test(two, test_a_program_that_runs_alone_maps_nothing);
    tcase_add_test(two, test_what_the_program_says_counts_for_auto);
    tcase_add_test(two, test_auto_is_for_all_reduces);
    tcase_add_test(two, test_the_plan_says_that_nccl_runs_the_first_calls);
    tcase_add_test(two, test_decide_answers_on_success_only);
    suite_add_tcase(s, two);
    tcase_add_test(local, test_a_local_group_maps_nothing);
    suite_add_tcase(s, local);
    return s;
}
