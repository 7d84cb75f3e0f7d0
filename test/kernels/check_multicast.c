/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_multicast.c - checks registering with multicast, and what multicast changes for calls that
 * may go to NCCL. NCCL gives a rank its multicast address only when all ranks have asked, so a
 * thread must ask for all its ranks before it waits.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

static symtuner_ar *handle[FAKE_RANKS];
static void *buffer[FAKE_RANKS];

static void set_up_nccl(int ranks)
{
    memset(&fake, 0, sizeof fake);
    fake_nccl_reset(ranks);
    fake.devices = ranks;
    fake.peers = 1;
    fake_nccl.multicast = true;
    setenv("SYMTUNER_LOG", "off", 1);
    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=yes", 1);
}

static void make_ranks(int first, int n)
{
    struct symtuner_ar_config config = {
        .size = sizeof config, .bulk_bytes = 1 << 20, .beside = SYMTUNER_AR_ALONE};
    ncclComm_t comms[FAKE_RANKS];

    for (int r = first; r < first + n; r++) {
        comms[r] = (ncclComm_t)(uintptr_t)(r + 1);
        buffer[r] = aligned_alloc(4096, 4096);
    }
    must(symtuner_ar_create(&handle[first], &comms[first], n, &config) == ncclSuccess);
    must(symtuner_ar_register(&handle[first], &buffer[first], NULL, n, 4096) == ncclSuccess);
}

static void one_rank(int rank)
{
    make_ranks(rank, 1);
}

static void end(int ranks)
{
    ck_assert_int_eq(symtuner_ar_destroy(handle, ranks), ncclSuccess);
    ck_assert_int_eq(fake.live + fake_nccl.live, 0);
    for (int r = 0; r < ranks; r++)
        free(buffer[r]);
}

/* Return how many ranks have a multicast address of the buffer. */
static int have(int ranks)
{
    int n = 0;

    for (int r = 0; r < ranks; r++)
        n += ar_window_find(handle[r], buffer[r], 16)->multicast != NULL;
    return n;
}

/* NCCL allocates memory when it makes multicast addresses. This must not end a capture of another
 * thread. */
START_TEST(test_asking_ends_no_capture)
{
    set_up_nccl(3);
    fake.global_capture = 1;
    make_ranks(0, 3);
    fake.global_capture = 0;
    ck_assert_int_eq(have(3), 3);
    ck_assert_int_eq(fake.prohibited, 0);
    end(3);
}
END_TEST

START_TEST(test_one_thread_asks_for_all_its_ranks_at_once)
{
    for (int ranks = 2; ranks <= FAKE_RANKS; ranks++) {
        set_up_nccl(ranks);
        make_ranks(0, ranks);
        ck_assert(!fake_nccl.hung);
        ck_assert_int_eq(have(ranks), ranks > 2 ? ranks : 0);
        ck_assert_int_eq(fake_nccl.asks, ranks > 2 ? ranks : 0); /* scratch memory needs no
                                                                    multicast address */
        end(ranks);
    }
}
END_TEST

START_TEST(test_ranks_of_their_own_threads_ask_together)
{
    set_up_nccl(FAKE_RANKS);
    fake_nccl_threads(one_rank);
    ck_assert(!fake_nccl.hung);
    ck_assert_int_eq(have(FAKE_RANKS), FAKE_RANKS);
    end(FAKE_RANKS);
}
END_TEST

START_TEST(test_multicast_is_on_all_ranks_or_on_none)
{
    set_up_nccl(FAKE_RANKS);
    fake_nccl.no_multicast = 2;
    make_ranks(0, FAKE_RANKS);
    ck_assert(!fake_nccl.hung);
    ck_assert_int_eq(have(FAKE_RANKS), 0);
    end(FAKE_RANKS);
}
END_TEST

/* Where all ranks have multicast, NCCL runs long messages. In case 1 no machine has multicast. In
 * case 2 the last rank has none, for example because of NCCL_NVLS_ENABLE=0. In both cases our
 * kernels run the long messages of all ranks. */
START_TEST(test_long_messages_are_nccls_where_all_ranks_have_multicast)
{
    static const char *const one_without[] = {NULL, NULL, "no"};

    for (int without = 0; without < 3; without++) {
        struct symtuner_ar_plan plan = {.size = sizeof plan};
        char *m = (char *)(uintptr_t)0x100000000; /* nobody reads or writes at this address */

        set_up_nccl(FAKE_RANKS);
        if (without == 1)
            setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
        fake_nccl.machine_of_last = one_without[without];
        make_ranks(0, FAKE_RANKS);
        for (int r = 0; r < FAKE_RANKS; r++) {
            ck_assert_int_eq(
                symtuner_ar_query(m, m, 10 << 20, ncclFloat, ncclSum, handle[r], &plan),
                ncclSuccess);
            ck_assert_int_eq(strcmp(plan.kernel, "nccl") == 0, without == 0);
            ck_assert_int_eq(strstr(plan.why, "unmeasured: NCCL uses multicast") != NULL,
                             without == 0);
        }
        end(FAKE_RANKS);
    }
}
END_TEST

START_TEST(test_without_a_thread_to_ask_nothing_is_registered)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2, (ncclComm_t)3};
    struct symtuner_ar_config config = {.size = sizeof config, .bulk_bytes = 1 << 20};

    set_up_nccl(3);
    for (int r = 0; r < 3; r++)
        buffer[r] = aligned_alloc(4096, 4096);
    ck_assert_int_eq(symtuner_ar_create(handle, comms, 3, &config), ncclSuccess);
    fake.no_thread = 1;
    ck_assert_int_eq(symtuner_ar_register(handle, buffer, NULL, 3, 4096), ncclSystemError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(handle[0]), "no thread to ask NCCL"));
    fake.no_thread = 0;
    ck_assert_int_eq(symtuner_ar_register(handle, buffer, NULL, 3, 4096), ncclSuccess);
    ck_assert_int_eq(have(3), 3);
    end(3);
}
END_TEST

Suite *st_suite_multicast(void)
{
    Suite *s = suite_create("ar_multicast");
    TCase *t = tcase_create("multicast");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_asking_ends_no_capture);
    tcase_add_test(t, test_one_thread_asks_for_all_its_ranks_at_once);
    tcase_add_test(t, test_ranks_of_their_own_threads_ask_together);
    tcase_add_test(t, test_without_a_thread_to_ask_nothing_is_registered);
    tcase_add_test(t, test_multicast_is_on_all_ranks_or_on_none);
    tcase_add_test(t, test_long_messages_are_nccls_where_all_ranks_have_multicast);
    suite_add_tcase(s, t);
    return s;
}
