/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_grow.c - checks scratch memory that grows when a call needs more. Its parts are called
 * arenas. Each rank of a communicator has a thread. A rank may be late, fail, or capture first. In
 * every case either all ranks get new scratch memory in the same call, or none does, and no rank
 * may wait for ever.
 */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernels/scratch/grow.h"
#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/scratch/ranks.h"
#include "test/kernels/suites.h"

static int no_shm;

int __real_shm_open(const char *, int, mode_t);
int __wrap_shm_open(const char *, int, mode_t);

int __wrap_shm_open(const char *name, int flags, mode_t mode)
{
    return no_shm ? -1 : __real_shm_open(name, flags, mode);
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void create(int r)
{
    const ncclComm_t comm = (ncclComm_t)(uintptr_t)(r + 1);
    struct symtuner_ar_config config = small();

    config.timeout_ms = 2000;
    config.bulk_bytes = 8 << 20;
    config.beside = SYMTUNER_AR_ALONE;
    at[r].result = symtuner_ar_create(&at[r].handle, &comm, 1, &config);
}

/* Reset the fake CUDA and the fake NCCL, and run ${body} once for each rank. */
static void start_ranks(void (*body)(int r))
{
    memset(at, 0, sizeof at);
    memset(&fake, 0, sizeof fake);
    fake.devices = RANKS;
    fake.peers = 1;
    fake_nccl_reset(RANKS);
    fake_nccl_threads(body);
}

static void create_as_by_default(int r)
{
    const ncclComm_t comm = (ncclComm_t)(uintptr_t)(r + 1);
    const struct symtuner_ar_config config = {.size = sizeof config, .beside = SYMTUNER_AR_ALONE};

    at[r].result = symtuner_ar_create(&at[r].handle, &comm, 1, &config);
}

static void make_group(void)
{
    start_ranks(create);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(at[r].result, ncclSuccess);
}

static void destroy(int r)
{
    symtuner_ar_destroy(&at[r].handle, 1);
}

static void end_group(void)
{
    ck_assert(!fake_nccl.hung);
    fake_nccl_threads(destroy);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
}

static void reserve(int r)
{
    at[r].reserved = symtuner_ar_reserve(&at[r].handle, 1, SIZE_MAX);
}

START_TEST(test_all_ranks_grow_in_the_same_call)
{
    make_group();
    calls((int[]){SHORT, 0});
    phases(AR_OPEN, AR_OPEN);
    at[1].late_ms = 20;
    calls((int[]){SHORT, MIDDLE, SHORT, 0});
    phases(AR_HERE, AR_OPEN);
    ck_assert_int_eq(last_arena(), AR_ARENA_SMALL); /* short calls still use the small arena */
    calls((int[]){MIDDLE, 0});
    ck_assert_int_eq(last_arena(), AR_ARENA_WORDS);
    calls((int[]){LONG, MIDDLE, LONG, 0});
    ck_assert_int_eq(last_arena(), AR_ARENA_BULK);
    phases(AR_HERE, AR_HERE);
    end_group();
}
END_TEST

/* Make many calls of up to 1 MiB on rank ${r}, with elements of 1 to 8 bytes. Buffers are never
 * read. */
static void make_small_calls(int r)
{
    static const ncclDataType_t types[] = {ncclInt8, ncclBfloat16, ncclFloat, ncclDouble};
    char *const p = (char *)((uintptr_t)1 << 42) + ((uintptr_t)r << 36);
    char *const q = p + (1ull << 33);
    symtuner_ar *const h = at[r].handle;

    cudaSetDevice(r);
    for (size_t i = 0; i < 21 * 40 && at[r].result == ncclSuccess; i++) {
        const size_t count = ((size_t)1 << i % 21) >> i % 4, part = count / RANKS;

        at[r].result = symtuner_ar_all_reduce(p, q, count, types[i % 4], ncclSum, h, NULL);
        if (at[r].result == ncclSuccess)
            at[r].result = symtuner_ar_reduce_scatter(p, q, part, types[i % 4], ncclMax, h, NULL);
        if (at[r].result == ncclSuccess)
            at[r].result = symtuner_ar_all_gather(p, q, part, types[i % 4], h, NULL);
    }
}

/* With the default configuration, a rank whose calls are all small has at most 32 MiB of scratch
 * memory. */
START_TEST(test_small_calls_take_little_scratch)
{
    start_ranks(create_as_by_default);
    fake_nccl_threads(make_small_calls);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(at[r].result, ncclSuccess);
        ck_assert_uint_gt(fake_nccl.allocated[r], 0);
        ck_assert_uint_le(fake_nccl.allocated[r], 32 << 20);
    }
    phases(AR_OPEN, AR_OPEN);
    calls((int[]){MIDDLE, 0});
    /* Now the ranks have more scratch memory, and the fake has counted it, too. */
    for (int r = 0; r < RANKS; r++)
        ck_assert_uint_gt(fake_nccl.allocated[r], 32 << 20);
    end_group();
}
END_TEST

/* If a rank comes too late, it finds that the others go on without the new scratch memory, and does
 * the same. The second and the fourth call try to grow again. */
START_TEST(test_a_late_rank_does_as_the_others)
{
    uint64_t start;

    make_group();
    at[2].late_ms = 3 * AR_GROW_WAIT_MS;
    ck_assert_int_gt(calls((int[]){MIDDLE, 0}), 1);
    phases(AR_OPEN, AR_OPEN);
    at[0].late_ms = 3 * AR_GROW_WAIT_MS;
    calls((int[]){MIDDLE, MIDDLE, 0});
    phases(AR_OPEN, AR_OPEN);
    start = now_ms();
    call_one(1, SHORT);
    ck_assert_uint_lt(now_ms() - start, AR_GROW_WAIT_MS);
    calls((int[]){MIDDLE, 0});
    phases(AR_HERE, AR_OPEN);
    end_group();
}
END_TEST

/* If one thread makes the calls of all ranks, one after the other, the first calls are slow, but no
 * call hangs. */
START_TEST(test_one_thread_for_all_ranks_does_not_hang)
{
    int launches[RANKS];

    make_group();
    for (int i = 0; i < 5; i++)
        for (int r = 0; r < RANKS; r++) {
            int first = fake.launches;

            call_one(r, MIDDLE);
            ck_assert_int_eq(at[r].result, ncclSuccess);
            launches[r] = fake.launches - first;
            ck_assert_int_eq(launches[r], launches[0]);
        }
    phases(AR_OPEN, AR_OPEN);
    end_group();
}
END_TEST

/* Rank 1 captures a call that another rank makes outside of a capture. Both must run the same
 * kernels, and no rank may wait. */
START_TEST(test_a_capture_before_the_scratch_refuses_it)
{
    const char *said;
    int pieces;
    uint64_t start = now_ms();

    make_group();
    capture_stderr();
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < RANKS; i++) {
            int r = (i + 1) % RANKS, first = fake.launches;

            fake.capture = i == turn ? 5 : 0;
            call_one(r, LONG);
            ck_assert_int_eq(at[r].result, ncclSuccess);
            if (turn == 0 && i == 0)
                pieces = fake.launches - first;
            ck_assert_int_gt(pieces, 1);
            ck_assert_int_eq(fake.launches - first, pieces);
        }
    fake.capture = 0;
    said = captured_stderr();
    ck_assert_ptr_nonnull(strstr(said, "rank 1: a graph captured a call for which 10 MiB"));
    ck_assert_ptr_nonnull(strstr(said, "rank 1: a graph captured a call for which 96 MiB"));
    ck_assert_ptr_null(strstr(said, "rank 2"));
    phases(AR_REFUSED, AR_REFUSED);
    fake_nccl_threads(reserve);
    ck_assert_int_eq(at[2].reserved, ncclSystemError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(at[2].handle), "a graph captured such a call"));
    ck_assert_uint_lt(now_ms() - start, AR_GROW_WAIT_MS * 10);
    fake_graph_gone(5);
    end_group();
}
END_TEST

START_TEST(test_captures_find_reserved_scratch)
{
    make_group();
    fake_nccl_threads(reserve);
    phases(AR_HERE, AR_HERE);
    fake.capture = 5;
    call_one(1, LONG);
    fake.capture = 0;
    ck_assert_int_eq(last_arena(), AR_ARENA_BULK);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(at[r].reserved, ncclSuccess);
    fake_graph_gone(5);
    end_group();
}
END_TEST

START_TEST(test_reserve_does_not_wait_for_ever)
{
    make_group();
    at[0].handle->timeout_ns = 50000000;
    reserve(0);
    ck_assert_int_eq(at[0].reserved, ncclRemoteError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(at[0].handle), "within 50 ms"));
    end_group();
}
END_TEST

/* In case 0 rank 1 gets no memory, in case 1 it gets no mapping, and in case 2 NCCL refuses on all
 * ranks. In each case all ranks go on without the new scratch memory, one line on stderr says so,
 * and no memory is lost. */
START_TEST(test_what_fails_on_one_rank_fails_on_all)
{
    const char *said;
    int live;

    make_group();
    live = fake_nccl.live;
    if (_i == 0)
        fake_nccl.no_memory = 1;
    else if (_i == 1)
        fake_nccl.no_window = 1;
    else
        fake_nccl.refuses_windows = true;
    capture_stderr();
    ck_assert_int_gt(calls((int[]){MIDDLE, 0}), 1);
    said = captured_stderr();
    ck_assert_ptr_nonnull(strstr(said, "; long messages are cut into short pieces instead\n"));
    ck_assert_ptr_null(strstr(strchr(said, '\n') + 1, "\n")); /* there is only one line */
    if (_i < 2)
        ck_assert_ptr_nonnull(strstr(said, "rank 1: "));
    phases(_i == 0 ? AR_REFUSED : AR_UNMAPPED, AR_OPEN);
    if (_i == 0)
        ck_assert_int_eq(fake_nccl.live, live);
    ck_assert_int_gt(calls((int[]){MIDDLE, MIDDLE, 0}), 2);
    end_group();
}
END_TEST

/* If one arena cannot be made, the arenas that already exist stay. */
START_TEST(test_an_arena_that_is_there_stays)
{
    int live;

    make_group();
    setenv("SYMTUNER_LOG", "off", 1);
    calls((int[]){LONG, 0});
    live = fake_nccl.live;
    fake_nccl.no_memory = 1;
    calls((int[]){MIDDLE, LONG, 0});
    unsetenv("SYMTUNER_LOG");
    phases(AR_REFUSED, AR_HERE);
    ck_assert_int_eq(last_arena(), AR_ARENA_BULK);
    ck_assert_int_eq(fake_nccl.live, live);
    end_group();
}
END_TEST

/* If a rank is between ncclGroupStart and ncclGroupEnd, NCCL only notes that the rank registers its
 * new scratch memory. NCCL maps the window after the group. Until then no rank can use the new
 * scratch memory. */
START_TEST(test_a_group_of_nccl_calls_is_no_hang)
{
    make_group();
    setenv("SYMTUNER_LOG", "off", 1);
    for (int r = 0; r < RANKS; r++)
        at[r].in_group = r != _i; /* all ranks but rank _i are in a group */
    calls((int[]){MIDDLE, 0});
    unsetenv("SYMTUNER_LOG");
    phases(AR_UNMAPPED, AR_OPEN);
    ck_assert_ptr_nonnull(at[1].handle->arena[AR_ARENA_WORDS].window);
    end_group();
}
END_TEST

START_TEST(test_handles_that_cannot_wait_have_all_from_the_start)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2, (ncclComm_t)3};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[RANKS];

    config.beside = SYMTUNER_AR_ALONE;
    no_shm = _i;
    if (_i != 0) {
        make_group();
    } else {
        memset(&fake, 0, sizeof fake);
        fake.devices = RANKS;
        fake.peers = 1;
        fake_nccl_reset(RANKS);
        ck_assert_int_eq(symtuner_ar_create(h, comms, RANKS, &config), ncclSuccess);
        for (int r = 0; r < RANKS; r++)
            at[r].handle = h[r];
    }
    no_shm = 0;
    phases(AR_HERE, AR_HERE);
    call_one(0, LONG);
    ck_assert_int_eq(last_arena(), AR_ARENA_BULK);
    call_one(0, MIDDLE);
    ck_assert_int_eq(last_arena(), AR_ARENA_WORDS);
    end_group();
}
END_TEST

static int pairs_made;

/* The thread of rank 0 drives only that rank. The thread of rank 1 drives ranks 1 and 2. */
static void create_unequal(int r)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2, (ncclComm_t)3};
    symtuner_ar *made[RANKS - 1];
    struct symtuner_ar_config config = small();
    const int n = r == 0 ? 1 : RANKS - 1;

    while (r == 2 && __atomic_load_n(&pairs_made, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    if (r == 2)
        return;
    config.timeout_ms = 2000;
    at[r].result = symtuner_ar_create(made, comms + r, n, &config);
    for (int i = 0; i < n && at[r].result == ncclSuccess; i++)
        at[r + i].handle = made[i];
    if (r == 1)
        __atomic_store_n(&pairs_made, 1, __ATOMIC_RELEASE);
}

/* Processes may drive different numbers of GPUs of a machine. If one process drives several, all
 * ranks make all their scratch memory when the handles are created. Even a rank that is alone in
 * its process does so. */
START_TEST(test_threads_may_drive_unequal_numbers_of_ranks)
{
    start_ranks(create_unequal);
    ck_assert(!fake_nccl.hung);
    ck_assert_msg(at[0].result == ncclSuccess && at[1].result == ncclSuccess, "%s",
                  symtuner_ar_error(NULL));
    for (int r = 0; r < RANKS; r++) {
        ck_assert_ptr_null(at[r].handle->gate);
        ck_assert_ptr_null(at[r].handle->meeting);
    }
    calls((int[]){SHORT, LONG, 0});
    end_group();
}
END_TEST

START_TEST(test_a_forced_kernel_waits_for_its_scratch)
{
    make_group();
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(symtuner_ar_force(at[r].handle, "chunked", 0, 0), ncclSuccess);
    at[1].late_ms = 2 * AR_GROW_WAIT_MS;
    calls((int[]){SHORT, 0});
    phases(AR_OPEN, AR_HERE);
    end_group();
    make_group();
    at[0].handle->timeout_ns = 50000000;
    ck_assert_int_eq(symtuner_ar_force(at[0].handle, "chunked", 0, 0), ncclSuccess);
    call_one(0, SHORT);
    ck_assert_int_eq(at[0].result, ncclRemoteError);
    ck_assert_ptr_nonnull(strstr(symtuner_ar_error(at[0].handle), "within 50 ms"));
    end_group();
}
END_TEST

Suite *st_suite_grow(void)
{
    Suite *suite = suite_create("ar_grow");
    TCase *t = tcase_create("communicator");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_all_ranks_grow_in_the_same_call);
    tcase_add_test(t, test_small_calls_take_little_scratch);
    tcase_add_test(t, test_a_late_rank_does_as_the_others);
    tcase_add_test(t, test_one_thread_for_all_ranks_does_not_hang);
    tcase_add_test(t, test_a_capture_before_the_scratch_refuses_it);
    tcase_add_test(t, test_captures_find_reserved_scratch);
    tcase_add_test(t, test_reserve_does_not_wait_for_ever);
    tcase_add_loop_test(t, test_what_fails_on_one_rank_fails_on_all, 0, 3);
    tcase_add_test(t, test_an_arena_that_is_there_stays);
    tcase_add_loop_test(t, test_a_group_of_nccl_calls_is_no_hang, 0, 4);
    tcase_add_loop_test(t, test_handles_that_cannot_wait_have_all_from_the_start, 0, 2);
    tcase_add_test(t, test_threads_may_drive_unequal_numbers_of_ranks);
    tcase_add_test(t, test_a_forced_kernel_waits_for_its_scratch);
    suite_add_tcase(suite, t);
    return suite;
}
