/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_bootstrap.c - tests how the ranks of a communicator create their handles together. Each
 * rank is a thread, and NCCL is test/kernels/fake/nccl.c. Whatever fails on one rank, no other rank
 * may wait for that rank for ever, and all ranks must learn the reason.
 */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/group/handle.h"
#include "nccl/names.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

enum { RANKS = 3 };

static struct {
    struct symtuner_ar_config config;
    symtuner_ar *handle;
    ncclResult_t result;
    cudaError_t left; /* what cudaGetLastError returns to the caller afterwards */
    char error[256], text[8192];
    void *buffer;
    size_t bytes;
} at[RANKS];

static char memory[RANKS][8192] __attribute__((aligned(4096)));

static void reset(void)
{
    setenv("SYMTUNER_LOG", "off", 1);
    memset(at, 0, sizeof at);
    memset(&fake, 0, sizeof fake);
    fake.devices = RANKS;
    fake.peers = 1;
    fake_nccl_reset(RANKS);
    for (int r = 0; r < RANKS; r++)
        at[r].config =
            (struct symtuner_ar_config){.size = sizeof at[r].config, .bulk_bytes = 1 << 20};
}

static void create(int r)
{
    const ncclComm_t comm = (ncclComm_t)(uintptr_t)(r + 1);

    at[r].result = symtuner_ar_create(&at[r].handle, &comm, 1, &at[r].config);
    strcpy(at[r].error, symtuner_ar_error(NULL));
    at[r].left = cudaGetLastError();
    if (at[r].result == ncclSuccess)
        symtuner_ar_describe(at[r].handle, at[r].text, sizeof at[r].text);
}

static void destroy(int r)
{
    symtuner_ar_destroy(&at[r].handle, 1);
}

/* Return a sentence that says what is wrong after the handles were created, or NULL if all is
 * right. */
static const char *wrong(void)
{
    for (int r = 0; r < RANKS; r++) {
        if ((at[r].result == ncclSuccess) != (at[0].result == ncclSuccess))
            return "one rank has a handle and another has none";
        if (at[r].left != cudaSuccess)
            return "the caller's next check finds an error of ours";
        if (at[r].result == ncclSuccess &&
            strcmp(strchr(at[r].text, '\n'), strchr(at[0].text, '\n')) != 0)
            return "ranks describe different groups";
    }
    return fake_nccl.hung ? "ranks wait for each other" : fake_nccl.depth ? "open group" : NULL;
}

static void finish(void)
{
    ck_assert_msg(wrong() == NULL, "%s; rank 0: %s", wrong(), at[0].error);
    if (at[0].result == ncclSuccess)
        fake_nccl_threads(destroy);
    ck_assert_int_eq(fake.live, 0);
    ck_assert_int_eq(fake_nccl.live, 0);
}

/* Check that rank ${rank} has the result ${own} and that all other ranks have ncclRemoteError. If
 * ${rank} is -1, every rank must have ${own}. The error of every rank must contain ${reason}. */
static void all_have(ncclResult_t own, int rank, const char *reason)
{
    ck_assert(!fake_nccl.hung);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg(strstr(at[r].error, reason) != NULL, "\"%s\" is not in \"%s\"", reason,
                      at[r].error);
        ck_assert_int_eq(at[r].result, r == rank || rank < 0 ? own : ncclRemoteError);
    }
}

START_TEST(test_ranks_of_threads_make_a_group)
{
    reset();
    fake_nccl_threads(create);
    ck_assert_int_eq(at[1].result, ncclSuccess);
    ck_assert_ptr_nonnull(strstr(at[1].text, "transport: NVLink peer memory\n"));
    finish();
}
END_TEST

/* One rank cannot allocate the memory for what the others send it. It must still take part in the
 * exchange, so that the others do not wait for it. */
START_TEST(test_memory_that_one_rank_lacks_fails_all)
{
    reset();
    fake.no_calloc = _i;
    fake_nccl_threads(create);
    ck_assert_int_ne(at[0].result, ncclSuccess);
    ck_assert_msg(strstr(at[0].error, "memory") != NULL, "%s", at[0].error);
    fake.no_calloc = 0;
    finish();
}
END_TEST

/* Each rank gets a hint: config.beside says what runs beside the rank's calls. In case ${_i} the
 * hint of rank r is digit r of ${_i} in base 3. In cases 27 and later SYMTUNER_AR_BESIDE overrides
 * the hints. If the ranks' hints differ, all ranks take "unknown", and NCCL runs the long calls of
 * all ranks. */
START_TEST(test_ranks_agree_on_what_runs_beside_them)
{
    const int hint[RANKS] = {_i % 3, _i / 3 % 3, _i / 9 % 3};
    const char *const variable = _i < 27 ? NULL : st_beside_words.word[_i % 3];
    const bool alike = variable != NULL || (hint[0] == hint[1] && hint[0] == hint[2]);
    const int want = !alike ? SYMTUNER_AR_UNKNOWN : variable != NULL ? _i % 3 : hint[0];
    char line[100];

    reset();
    for (int r = 0; r < RANKS; r++)
        at[r].config.beside = hint[r];
    if (variable != NULL)
        setenv("SYMTUNER_AR_BESIDE", variable, 1);
    fake_nccl_threads(create);
    unsetenv("SYMTUNER_AR_BESIDE");
    snprintf(line, sizeof line, "\nbeside: %s%s\n", st_beside_words.word[want],
             alike ? "" : ", because the ranks were told different things");
    for (int r = 0; r < RANKS; r++) {
        struct symtuner_ar_plan plan = {.size = sizeof plan};

        ck_assert_msg(strstr(at[r].text, line) != NULL, "rank %d lacks%s", r, line);
        ck_assert_int_eq(
            symtuner_ar_query(memory, memory, 4 << 20, ncclFloat, ncclSum, at[r].handle, &plan),
            ncclSuccess);
        ck_assert_int_eq(strcmp(plan.kernel, "nccl") == 0, want != SYMTUNER_AR_ALONE);
        ck_assert_ptr_nonnull(strstr(plan.why, st_beside_words.word[want]));
    }
    finish();
}
END_TEST

/* Each rank waits by its own time limit, and records events or not as its own config says. All
 * ranks must run the same kernels all the same. */
START_TEST(test_ranks_may_differ_in_time_limit_and_events)
{
    reset();
    for (int r = 0; r < RANKS; r++) {
        at[r].config.timeout_ms = 1000 << r;
        at[r].config.one_stream = r == 1;
    }
    fake_nccl_threads(create);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg(at[r].result == ncclSuccess, "%s", at[r].error);
        ck_assert_uint_eq(at[r].handle->timeout_ns, 1000000000ull << r);
        ck_assert_int_eq(at[r].handle->one_stream, r == 1);
        for (size_t count = 1; count < 1 << 28; count *= 2) {
            struct symtuner_ar_plan first = {.size = sizeof first}, plan = first;

            symtuner_ar_query(memory, memory, count, ncclFloat, ncclSum, at[0].handle, &first);
            symtuner_ar_query(memory, memory, count, ncclFloat, ncclSum, at[r].handle, &plan);
            ck_assert_str_eq(plan.kernel, first.kernel);
            ck_assert_int_eq(plan.ctas, first.ctas);
            ck_assert_int_eq(plan.pieces, first.pieces);
        }
    }
    fake_nccl_threads(destroy);
    ck_assert(!fake_nccl.hung);
}
END_TEST

START_TEST(test_a_rank_that_cannot_start_tells_the_others)
{
    reset();
    at[1].config.transport = 9;
    fake_nccl_threads(create);
    all_have(ncclInvalidArgument, 1, "rank 1: config.transport 9 is unknown");
    finish();
}
END_TEST

/* Create handles, while all-gather number ${gather} of rank 1 never ends, as if another rank were
 * lost. NCCL reports ${known} as the state of the communicator. LeakSanitizer ignores what is
 * allocated here, because the name of this function contains never_ends (main.c). */
static __attribute__((noinline)) ncclResult_t create_where_one_never_ends(int gather,
                                                                          ncclResult_t known)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2, (ncclComm_t)3};
    symtuner_ar *h[RANKS];

    reset();
    at[0].config.timeout_ms = known == ncclSuccess ? 150 : 0; /* 0 means ten minutes */
    fake_nccl.odd_rank = 1;
    fake_nccl.odd_call = gather;
    fake_nccl.odd_end = known;
    return symtuner_ar_create(h, comms, RANKS, &at[0].config);
}

START_TEST(test_a_lost_rank_ends_the_creation_of_the_others)
{
    const char *const reason = _i % 2 ? "talk to the other ranks: ncclAllGather: fake remote; "
                                      : "ncclAllGather: still in progress after 150 ms";

    ck_assert_int_eq(
        create_where_one_never_ends(1 + _i / 2, _i % 2 ? ncclRemoteError : ncclSuccess),
        ncclRemoteError);
    ck_assert_ptr_nonnull(fake.endless);
    ck_assert_msg(strstr(symtuner_ar_error(NULL), reason) != NULL, "%s", symtuner_ar_error(NULL));
    ck_assert_int_eq(fake_nccl.depth, 0);
}
END_TEST

/* Rank 1 creates a handle, which can include a probe or the mapping of host memory. In each round
 * another of its CUDA calls fails: first its first call, then its second, and so on. */
START_TEST(test_whatever_fails_on_one_rank_nobody_hangs)
{
    static const int transports[] = {SYMTUNER_AR_AUTO, SYMTUNER_AR_PEER, SYMTUNER_AR_HOST,
                                     SYMTUNER_AR_PEER};
    int failures = 0;

    if (_i == 3)
        setenv("SYMTUNER_AR_PROBE", "1", 1);
    for (int call = 1;; call++) {
        reset();
        fake.fail_on = 2;
        fake.fail_at = call;
        for (int r = 0; r < RANKS; r++)
            at[r].config.transport = transports[_i];
        fake_nccl_threads(create);
        ck_assert_msg(wrong() == NULL, "call %d fails: %s", call, wrong());
        if (at[0].result != ncclSuccess) {
            ck_assert_msg(strstr(at[0].error, "rank 1") != NULL, "%s", at[0].error);
            failures++;
        }
        finish();
        if (fake.calls < call)
            break;
    }
    unsetenv("SYMTUNER_AR_PROBE");
    ck_assert_int_gt(failures, 5);
}
END_TEST

/* Return how many shared memory files of this process exist. Their names begin with the process
 * id. */
static int left_in_shm(void)
{
    static const char start[] = "/dev/shm/symtuner-ar-";
    int left = 0;
    glob_t found;

    if (glob("/dev/shm/symtuner-ar-*", 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++)
        left += strtoull(found.gl_pathv[i] + sizeof start - 1, NULL, 16) >> 42 ==
                (unsigned long long)getpid();
    globfree(&found);
    return left;
}

START_TEST(test_a_full_gpu_is_no_hang_and_no_secret)
{
    for (int asked = SYMTUNER_AR_AUTO; asked <= SYMTUNER_AR_PEER; asked++) {
        reset();
        fake_nccl.no_memory = 2;
        for (int r = 0; r < RANKS; r++)
            at[r].config.transport = asked;
        fake_nccl_threads(create);
        if (asked == SYMTUNER_AR_PEER) {
            all_have(ncclInvalidUsage, -1,
                     "transport peer was asked for, but: no peer memory (rank 2: ");
            finish();
            continue;
        }
        ck_assert_int_eq(at[0].result, ncclSuccess);
        ck_assert_ptr_nonnull(strstr(at[0].text, "pinned host memory; no peer memory: rank 2: "));
        ck_assert_ptr_nonnull(strstr(at[0].text, "14 MiB of scratch from ncclMemAlloc"));
        ck_assert_int_eq(left_in_shm(), 0);
        finish();
    }
}
END_TEST

/* Rank 0 has created a shared memory file for SYMTUNER_AR_IPC=1 when another rank is lost. Rank 0
 * must remove the file. */
START_TEST(test_a_lost_rank_leaves_no_shared_memory)
{
    /* in these all-gathers the ranks tell each other whether they have the shared memory */
    static const int gathers[] = {7, 8};

    setenv("SYMTUNER_AR_IPC", "1", 1);
    ck_assert_int_eq(create_where_one_never_ends(gathers[_i], ncclSuccess), ncclRemoteError);
    unsetenv("SYMTUNER_AR_IPC");
    ck_assert_ptr_nonnull(fake.endless);
    ck_assert_int_eq(left_in_shm(), 0);
}
END_TEST

START_TEST(test_a_window_that_fails_on_one_rank_fails_on_all)
{
    reset();
    fake_nccl.no_window = 0;
    fake_nccl_threads(create);
    ck_assert_int_eq(at[1].result, ncclSuccess);
    ck_assert_ptr_nonnull(strstr(at[1].text, "no peer memory: rank 0: ncclCommWindowRegister of"));
    finish();
}
END_TEST

/* From its own layout each rank computes where the regions of all ranks lie, so all layouts must be
 * the same. */
START_TEST(test_mixed_gpus_have_one_layout)
{
    const uint64_t bulk = _i == 0 ? 64 << 20 : 1 << 20;

    reset();
    fake.small = 3;
    for (int r = 0; r < RANKS && _i == 0; r++)
        at[r].config.bulk_bytes = 0;
    fake_nccl_threads(create);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(at[r].result, ncclSuccess);
        ck_assert_int_eq(at[r].handle->arena[AR_ARENA_BULK].layout.half[AR_REGION_BULK], bulk);
        for (int a = 0; a < AR_ARENAS; a++)
            ck_assert_int_eq(memcmp(&at[r].handle->arena[a].layout, &at[0].handle->arena[a].layout,
                                    sizeof at[0].handle->arena[a].layout),
                             0);
    }
    finish();
}
END_TEST

/* ---- registered buffers ---------------------------------------------------------------------- */

static void add_buffer(int r)
{
    at[r].result = symtuner_ar_register(&at[r].handle, &at[r].buffer, NULL, 1, at[r].bytes);
    strcpy(at[r].error, symtuner_ar_error(at[r].handle));
    at[r].left = cudaGetLastError();
}

static void drop_buffer(int r)
{
    at[r].result = symtuner_ar_deregister(&at[r].handle, &at[r].buffer, 1);
}

static void make_group(int transport)
{
    reset();
    for (int r = 0; r < RANKS; r++) {
        at[r].config.transport = transport;
        at[r].buffer = memory[r];
        at[r].bytes = sizeof memory[r];
    }
    fake_nccl_threads(create);
    ck_assert_int_eq(at[0].result, ncclSuccess);
}

/* Return whether calls on the registered buffers are zero-copy. All ranks must give the same
 * answer. */
static int zero_copy(void)
{
    struct symtuner_ar_plan plan[RANKS];

    for (int r = 0; r < RANKS; r++) {
        plan[r] = (struct symtuner_ar_plan){.size = sizeof plan[r]};
        symtuner_ar_force(at[r].handle, "chunked", 0, 0);
        ck_assert_int_eq(symtuner_ar_query(memory[r], memory[r], 1024, ncclFloat, ncclSum,
                                           at[r].handle, &plan[r]),
                         ncclSuccess);
        ck_assert_int_eq(plan[r].zero_copy, plan[0].zero_copy);
    }
    return plan[0].zero_copy;
}

START_TEST(test_buffers_are_registered_on_all_ranks_or_on_none)
{
    int before;

    make_group(SYMTUNER_AR_AUTO);
    before = fake_nccl.live;
    at[1].buffer = NULL;
    fake_nccl_threads(add_buffer);
    all_have(ncclInvalidArgument, 1, "rank 1: buffers[0] is NULL");
    at[1].buffer = memory[1];
    at[2].bytes -= 16;
    fake_nccl_threads(add_buffer);
    all_have(ncclInvalidUsage, -1, "ranks 0 and 2 differ");
    at[2].bytes += 16;
    fake_nccl.no_window = 1;
    fake_nccl_threads(add_buffer);
    all_have(ncclSystemError, 1, "rank 1: ncclCommWindowRegister of 8192 bytes");
    fake_nccl.no_window = -1;
    fake_nccl.no_symmetric = true;
    fake_nccl_threads(add_buffer);
    all_have(ncclInvalidUsage, -1, "rank 0: NCCL gave no symmetric window");
    fake_nccl.no_symmetric = false;
    fake.fails = "cudaMemcpyAsync";
    fake_nccl_threads(add_buffer);
    all_have(ncclUnhandledCudaError, -1, "talk to the other ranks: some error");
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(at[r].left, cudaSuccess);
    fake.fails = NULL;
    ck_assert_int_eq(fake_nccl.live, before);
    ck_assert_int_eq(zero_copy(), 0);
    fake_nccl_threads(add_buffer);
    all_have(ncclSuccess, -1, "");
    ck_assert_int_eq(zero_copy(), 1);
    fake_nccl_threads(drop_buffer);
    ck_assert_int_eq(zero_copy(), 0);
    finish();
}
END_TEST

START_TEST(test_host_memory_needs_no_windows)
{
    make_group(SYMTUNER_AR_HOST);
    ck_assert_ptr_nonnull(strstr(at[0].text, "registered buffers are treated as any others"));
    fake_nccl.no_symmetric = true;
    fake_nccl_threads(add_buffer);
    all_have(ncclSuccess, -1, "");
    fake_nccl_threads(drop_buffer);
    all_have(ncclSuccess, -1, "");
    finish();
}
END_TEST

/* The library opens NCCL groups with ncclGroupStart. If it left a group open after an error, NCCL
 * would start nothing more, because it would wait for that group's end. */
START_TEST(test_no_error_leaves_a_group_open)
{
    const ncclComm_t comms[RANKS] = {(ncclComm_t)1, (ncclComm_t)2, (ncclComm_t)3};
    void *buffers[RANKS] = {memory[0], memory[1], memory[2]};
    symtuner_ar *h[RANKS];

    reset();
    fake_nccl.refuses = true;
    ck_assert_int_ne(symtuner_ar_create(h, comms, RANKS, NULL), ncclSuccess);
    ck_assert_int_eq(fake_nccl.depth, 0);
    fake_nccl.refuses = false;
    ck_assert_int_eq(symtuner_ar_create(h, comms, RANKS, NULL), ncclSuccess);
    fake_nccl.refuses_windows = true;
    ck_assert_int_ne(symtuner_ar_register(h, buffers, NULL, RANKS, 4096), ncclSuccess);
    ck_assert_int_eq(fake_nccl.depth, 0);
    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    ck_assert_int_eq(fake_nccl.live, 0);
}
END_TEST

Suite *st_suite_bootstrap(void)
{
    Suite *suite = suite_create("ar_bootstrap");
    TCase *t = tcase_create("create");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_ranks_of_threads_make_a_group);
    tcase_add_loop_test(t, test_memory_that_one_rank_lacks_fails_all, 1, 4);
    tcase_add_loop_test(t, test_ranks_agree_on_what_runs_beside_them, 0, 27 + 3);
    tcase_add_test(t, test_ranks_may_differ_in_time_limit_and_events);
    tcase_add_test(t, test_a_rank_that_cannot_start_tells_the_others);
    tcase_add_loop_test(t, test_a_lost_rank_ends_the_creation_of_the_others, 0, 2 * 3);
    tcase_add_loop_test(t, test_a_lost_rank_leaves_no_shared_memory, 0, 2);
    tcase_add_loop_test(t, test_whatever_fails_on_one_rank_nobody_hangs, 0, 4);
    tcase_add_test(t, test_a_full_gpu_is_no_hang_and_no_secret);
    tcase_add_test(t, test_a_window_that_fails_on_one_rank_fails_on_all);
    tcase_add_loop_test(t, test_mixed_gpus_have_one_layout, 0, 2);
    tcase_add_test(t, test_buffers_are_registered_on_all_ranks_or_on_none);
    tcase_add_test(t, test_host_memory_needs_no_windows);
    tcase_add_test(t, test_no_error_leaves_a_group_open);
    suite_add_tcase(suite, t);
    return suite;
}
