/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_call.c - checks the edge cases of a call (no handle, one rank, a CUDA function that fails,
 * another GPU in use), and everything that symtuner_ar_describe prints about a handle.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/group/handle.h"
#include "kernels/group/gpu_wait.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/suites.h"

#define REDUCE(h, send, recv)                                                                      \
    symtuner_ar_all_reduce(send, recv, 16, ncclFloat, ncclSum, h, (cudaStream_t)memory[3])

START_TEST(test_no_handle_is_an_error_and_never_a_crash)
{
    const void *sends[1] = {memory[0]};
    void *recvs[1] = {memory[0]};
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    char text[64] = "before";
    char *m = memory[0];

    ck_assert_int_eq(symtuner_ar_status(NULL), ncclInvalidArgument);
    ck_assert_int_eq(symtuner_ar_abort(NULL), ncclInvalidArgument);
    ck_assert_int_eq(symtuner_ar_force(NULL, "copy", 1, 32), ncclInvalidArgument);
    ck_assert_int_eq(symtuner_ar_query(m, m, 1, ncclFloat, ncclSum, NULL, &plan),
                     ncclInvalidArgument);
    ck_assert_int_eq(REDUCE(NULL, m, m), ncclInvalidArgument);
    ck_assert_int_eq(symtuner_ar_all_reduce_at(sends, recvs, 1, ncclFloat, ncclSum, NULL, NULL),
                     ncclInvalidArgument);
    ck_assert_uint_eq(symtuner_ar_describe(NULL, text, sizeof text), 0);
    ck_assert_str_eq(text, "");
    want_error(symtuner_ar_query(m, m, 1, ncclFloat, ncclSum, handles[0], NULL),
               ncclInvalidArgument, handles[0], "plan_out is NULL");
    want_error(symtuner_ar_destroy(NULL, 1), ncclInvalidArgument, NULL, "handles is NULL");
    want_error(symtuner_ar_destroy(handles, 17), ncclInvalidArgument, NULL, "17 handles");
    want_error(symtuner_ar_destroy(handles, -1), ncclInvalidArgument, NULL, "-1 handles");
    ck_assert_int_eq(fake.launches, 0);
}
END_TEST

static const struct {
    struct symtuner_ar_config config;
    const char *part; /* a part of the error message */
} wrong[] = {
    {{.size = 4}, "config.size is 4; set it to"},
    {{.size = sizeof wrong->config + 1}, "config.size is"},
    {{.size = sizeof wrong->config, .transport = -1}, "config.transport -1 is unknown"},
    {{.size = sizeof wrong->config, .transport = 3}, "config.transport 3 is unknown"},
    {{.size = sizeof wrong->config, .max_ctas = -1}, "config.max_ctas -1; write 1 to"},
    {{.size = sizeof wrong->config, .max_ctas = AR_MAX_CTAS + 1}, "config.max_ctas"},
    {{.size = sizeof wrong->config, .beside = -1}, "config.beside -1 is unknown"},
    {{.size = sizeof wrong->config, .beside = 3}, "config.beside 3 is unknown"},
    {{.size = sizeof wrong->config, .first_epoch = 1ull << 38}, "first_epoch must be below 2^38"},
};

START_TEST(test_wrong_configurations_are_refused_by_name)
{
    symtuner_ar *h[2] = {NULL};

    want_error(symtuner_ar_create_local(h, devices, 2, &wrong[_i].config), ncclInvalidArgument,
               NULL, wrong[_i].part);
    ck_assert_ptr_null(h[0]);
}
END_TEST

START_TEST(test_the_library_says_its_version_and_kernels)
{
    int count = 0;

    ck_assert_int_eq(symtuner_ar_version(), SYMTUNER_AR_VERSION);
    while (symtuner_ar_kernel_name(count) != NULL)
        ck_assert_int_eq(symtuner_ar_force(handles[0], symtuner_ar_kernel_name(count++), 0, 0),
                         ncclSuccess);
    ck_assert_int_eq(count, AR_FAMILIES);
    ck_assert_ptr_null(symtuner_ar_kernel_name(-1));
}
END_TEST

static const struct {
    int ctas, threads;
    bool fine;
} grids[] = {{0, 0, true},
             {AR_MAX_CTAS, 1024, true},
             {AR_MAX_CTAS + 1, 1024, false},
             {1, 1025, false},
             {-1, 0, false},
             {0, -1, false}};

START_TEST(test_a_forced_grid_is_within_bounds)
{
    ncclResult_t result = symtuner_ar_force(handles[0], NULL, grids[_i].ctas, grids[_i].threads);

    ck_assert_int_eq(result, grids[_i].fine ? ncclSuccess : ncclInvalidArgument);
    ck_assert_int_eq(handles[0]->force.ctas, grids[_i].fine ? grids[_i].ctas : 0);
    ck_assert_int_eq(handles[0]->force.threads, grids[_i].fine ? grids[_i].threads : 0);
}
END_TEST

START_TEST(test_a_group_of_one_copies)
{
    struct symtuner_ar_config config = small();
    symtuner_ar *h;

    ck_assert_int_eq(symtuner_ar_create_local(&h, devices, 1, &config), ncclSuccess);
    fake.copied = 0;
    ck_assert_int_eq(REDUCE(h, memory[0], memory[0]), ncclSuccess);
    ck_assert_uint_eq(fake.copied, 0); /* a call in place has nothing to copy */
    ck_assert_int_eq(REDUCE(h, memory[0], memory[1]), ncclSuccess);
    ck_assert_uint_eq(fake.copied, 64);
    fake.fails = "cudaMemcpyAsync";
    want_error(REDUCE(h, memory[0], memory[1]), ncclUnhandledCudaError, h, "copy send to recv");
    fake.fails = NULL;
    ck_assert_int_eq(fake.launches, 0);
    symtuner_ar_destroy(&h, 1);
}
END_TEST

static const struct {
    const char *call, *says;
} failing[] = {
    {"cudaStreamGetId", "look at the stream"},
    {"cudaStreamGetCaptureInfo", "look at the stream"},
    {"cudaStreamWaitEvent", "wait for the handle's previous stream"},
    {"cudaEventRecord", "mark the end of the call"},
};

START_TEST(test_what_cuda_refuses_is_said_and_the_next_call_works)
{
    symtuner_ar *h = handles[0];
    char *m = memory[0];

    ck_assert_int_eq(symtuner_ar_all_reduce(m, m, 16, ncclFloat, ncclSum, h, NULL), ncclSuccess);
    fake.fails = failing[_i].call;
    want_error(REDUCE(h, m, m), ncclUnhandledCudaError, h, failing[_i].says);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess); /* no error is left for the caller */
    fake.fails = NULL;
    ck_assert_int_eq(REDUCE(h, m, m), ncclSuccess);
}
END_TEST

START_TEST(test_a_call_leaves_the_gpu_in_use_as_it_was)
{
    int device = -1;

    for (int in_use = 0; in_use < N; in_use++) {
        cudaSetDevice(in_use);
        ck_assert_int_eq(REDUCE(handles[1], memory[1], memory[1]), ncclSuccess);
        ck_assert_int_eq(fake.launched_on, 1);
        cudaGetDevice(&device);
        ck_assert_int_eq(device, in_use);
    }
    cudaSetDevice(2);
    symtuner_ar_destroy(handles, N);
    cudaGetDevice(&device);
    ck_assert_int_eq(device, 2);
}
END_TEST

/* Each rank reads the rules by itself, and somebody may change the file between two reads. */
START_TEST(test_rules_that_differ_in_a_local_group_are_not_used)
{
    struct symtuner_ar_config config = small();
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h[3];
    char text[8192];

    setenv("SYMTUNER_LOG", "off", 1);
    for (int odd = 0; odd < 4; odd++) { /* with odd = 3 all ranks have the same rule */
        for (int r = 0; r < 3; r++)
            fake.rule_of[r] = r == odd ? "kernels kernel=two_ll8 ctas=2" : "kernels kernel=two_ll8";
        ck_assert_int_eq(symtuner_ar_create_local(h, devices, 3, &config), ncclSuccess);
        for (int r = 0; r < 3; r++) {
            symtuner_ar_describe(h[r], text, sizeof text);
            ck_assert((strstr(text, "rules: not used: ranks 0 and ") != NULL) == (odd < 3));
            ck_assert_int_eq(
                symtuner_ar_query(memory[r], memory[r], 64, ncclFloat, ncclSum, h[r], &plan),
                ncclSuccess);
            ck_assert((strcmp(plan.kernel, "two_ll8") == 0) == (odd == 3));
        }
        symtuner_ar_destroy(h, 3);
    }
    unsetenv("SYMTUNER_RULE");
    unsetenv("SYMTUNER_LOG");
}
END_TEST

/* Before the first call, the scratch memory must hold a pattern that means "nothing has arrived".
 * The pattern is zeros in the first two regions, and all ones in both halves of the third region,
 * which is called Lamport. */
START_TEST(test_scratch_is_filled_before_the_first_call)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[2];
    size_t want;

    for (int comm = 0; comm < 2; comm++) {
        fake_nccl_reset(2);
        fake.filled = 0;
        setenv("SYMTUNER_LOG", "off", 1);
        ck_assert_int_eq(comm ? symtuner_ar_create(h, comms, 2, &config)
                              : symtuner_ar_create_local(h, devices, 2, &config),
                         ncclSuccess);
        want = 0;
        for (int a = 0; a <= (comm ? AR_ARENA_BULK : AR_ARENA_SMALL); a++)
            want += h[0]->arena[a].layout.first[AR_REGION_LAMPORT] +
                    2 * h[0]->arena[a].layout.half[AR_REGION_LAMPORT];
        ck_assert_uint_eq(fake.filled, 2 * want);
        symtuner_ar_destroy(h, 2);
    }
    unsetenv("SYMTUNER_LOG");
}
END_TEST

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument)
{
    return fake.no_thread ? EAGAIN : __real_pthread_create(thread, attributes, body, argument);
}

static void *end_work(void *unused)
{
    usleep(100000);
    __atomic_store_n(&fake.busy, 0, __ATOMIC_RELEASE);
    return unused;
}

/* Return how often the library has waited for a GPU to become idle, in the calling thread or in the
 * helper thread of ar_gpu_wait. */
static int idles_now(void)
{
    return __atomic_load_n(&fake.idles, __ATOMIC_ACQUIRE);
}

/* If ar_gpu_wait cannot start its helper thread, the caller waits for the GPU itself, however long
 * that takes. Only with the helper thread can the caller give up after a time limit. */
START_TEST(test_without_a_thread_the_gpu_is_still_waited_for)
{
    int idles = idles_now();
    pthread_t thread;

    fake.no_thread = 1;
    ck_assert_int_eq(ar_gpu_wait(1, 1), cudaSuccess);
    ck_assert_int_eq(idles_now(), idles + 1);
    ck_assert_int_eq(ar_gpu_wait(99, 1), cudaErrorInvalidDevice);
    fake.no_thread = 0;
    __atomic_store_n(&fake.busy, 2, __ATOMIC_RELEASE);
    ck_assert_int_eq(pthread_create(&thread, NULL, end_work, NULL), 0);
    alarm(20); /* ar_gpu_wait must return when the work ends, not after its limit of 60 s */
    ck_assert_int_eq(ar_gpu_wait(1, 60000000000), cudaSuccess);
    alarm(0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(idles_now(), idles + 2);
    ck_assert_int_eq(ar_gpu_wait(99, 1000000000), cudaErrorInvalidDevice);
    cudaGetLastError();
}
END_TEST

static int lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY);

    ck_assert_int_eq(close(fd), 0);
    return fd;
}

/* Check that descriptor ${first} is free, because the caller has closed it, and that the helper
 * thread closes the next descriptor. */
static void thread_closes(int first)
{
    ck_assert_int_eq(lowest_free(), first);
    for (int i = 0; i < 2000 && fcntl(first + 1, F_GETFD) >= 0; i++)
        usleep(5000);
    ck_assert_int_eq(fcntl(first + 1, F_GETFD), -1);
}

/* The helper thread of ar_gpu_wait and its caller close their descriptors, even if the caller gives
 * up. If no descriptor is left for one of them, the caller waits for the GPU itself. */
START_TEST(test_waiting_for_a_gpu_leaves_no_descriptor)
{
    struct rlimit old, few;
    int first = lowest_free(), idles = idles_now();

    ck_assert_int_eq(ar_gpu_wait(1, 60000000000), cudaSuccess);
    thread_closes(first);
    __atomic_store_n(&fake.busy, 2, __ATOMIC_RELEASE);
    ck_assert_int_eq(ar_gpu_wait(1, 1000000), cudaErrorNotReady);
    __atomic_store_n(&fake.busy, 0, __ATOMIC_RELEASE);
    thread_closes(first);
    ck_assert_int_eq(idles_now(), idles + 2);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (int room = 0; room < 3; room++) {
        few = (struct rlimit){(rlim_t)(first + room), old.rlim_max};
        fake.no_thread = room == 2;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        ck_assert_int_eq(ar_gpu_wait(1, 1), cudaSuccess); /* with the helper thread, the limit of 1
                                                             ns would have passed */
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
        thread_closes(first);
    }
    fake.no_thread = 0;
    ck_assert_int_eq(idles_now(), idles + 5);
}
END_TEST

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return fake.no_calloc > 0 && --fake.no_calloc == 0 ? NULL : __real_calloc(count, size);
}

START_TEST(test_without_memory_there_is_no_group_and_no_leak)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();
    int live = fake.live;

    setenv("SYMTUNER_LOG", "off", 1);
    for (int n = 1; n <= 4; n++) {
        symtuner_ar *h[2] = {NULL, NULL};
        ncclResult_t result;

        fake_nccl_reset(2);
        fake.no_calloc = n % 2 + 1;
        result = n > 2 ? symtuner_ar_create(h, comms, 2, &config)
                       : symtuner_ar_create_local(h, devices, 2, &config);
        want_error(result, ncclSystemError, NULL, "out of memory");
        ck_assert_int_eq(fake.no_calloc, 0);
        ck_assert_ptr_null(h[0]);
        ck_assert_int_eq(fake.live, live);
        ck_assert(!fake_nccl.hung);
    }
    fake.no_calloc = 1; /* there is no memory for the helper thread, so the calling thread waits */
    ck_assert_int_eq(ar_gpu_wait(1, 1), cudaSuccess);
    unsetenv("SYMTUNER_LOG");
}
END_TEST

static int gpu_in_use(void)
{
    int device = -1;

    cudaGetDevice(&device);
    return device;
}

START_TEST(test_no_call_of_ours_changes_the_gpu_in_use)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();
    void *buffers[2] = {memory[0], memory[1]};
    symtuner_ar *h[2];

    setenv("SYMTUNER_LOG", "off", 1);
    for (int in_use = 0; in_use < 3; in_use++)
        for (int comm = 0; comm < 2; comm++) {
            fake_nccl_reset(2);
            cudaSetDevice(in_use);
            ck_assert_int_eq(comm ? symtuner_ar_create(h, comms, 2, &config)
                                  : symtuner_ar_create_local(h, devices, 2, &config),
                             ncclSuccess);
            ck_assert_int_eq(gpu_in_use(), in_use);
            ck_assert_int_eq(symtuner_ar_register(h, buffers, NULL, 2, 65536), ncclSuccess);
            ck_assert_int_eq(gpu_in_use(), in_use);
            ck_assert_int_eq(REDUCE(h[0], memory[0], memory[0]), ncclSuccess);
            ck_assert_int_eq(gpu_in_use(), in_use);
            ck_assert_int_eq(symtuner_ar_deregister(h, buffers, 2), ncclSuccess);
            ck_assert_int_eq(gpu_in_use(), in_use);
            ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
            ck_assert_int_eq(gpu_in_use(), in_use);
        }
    unsetenv("SYMTUNER_LOG");
}
END_TEST

/* ---- describe -------------------------------------------------------------------------------- */

/* Check that symtuner_ar_describe prints ${said}, then lines about the scratch memory, then
 * ${last}. It prints the rules and the table after that, and other tests check those. */
static void describes(symtuner_ar *h, const char *said, const char *last)
{
    static const char *const scratch[] = {
        "scratch: 14720 KiB of GPU memory: ll8 512 KiB x2, ll128 2560 KiB x2, lamport 4096 KiB x2\n"
        "scratch: once a call needs it: 98688 KiB of GPU memory: ll128 16384 KiB x2, lamport 32768 "
        "KiB x2\n"
        "scratch: once a call needs it: 1664 KiB of GPU memory: bulk 1024 KiB, gather 256 KiB\n",
        "scratch: 12672 KiB of pinned host memory: ll8 1024 KiB x2, lamport 5120 KiB x2\n", ""};
    char text[8192], want[2048], *end;

    snprintf(want, sizeof want,
             "%stime limit 1500 ms\nbeside: unknown\n%soverlapped launches: %s\n", said,
             scratch[h->gate != NULL ? 2 : h->links == AR_LINKS_HOST], last);
    ck_assert_uint_lt(symtuner_ar_describe(h, text, sizeof text), sizeof text);
    end = strstr(text, "\noverlapped launches: ");
    ck_assert_ptr_nonnull(end);
    end = strchr(end + 1, '\n');
    ck_assert_ptr_nonnull(end);
    ck_assert((strstr(end, "at most") != NULL) == (h->gate == NULL));
    end[1] = 0;
    ck_assert_str_eq(text, want);
}

START_TEST(test_a_handle_is_described_line_by_line)
{
    static const struct ar_nccl nccl = {.version = 22809};
    struct symtuner_ar_config config = small();
    static const int shared[] = {0, 1, 1};
    symtuner_ar *h[3];

    config.timeout_ms = 1500;
    ck_assert_int_eq(symtuner_ar_create_local(h, devices, 2, &config), ncclSuccess);
    describes(
        h[1],
        "rank 1 of 2 on GPU 1, 132 multiprocessors, of which calls take at most 128 for 1 rank\n"
        "transport: NVLink peer memory\n",
        "0, no kernel starts early");
    h[1]->probe = (struct ar_probe){.push = 1, .pull = 20, .copy = 300};
    strcpy(h[1]->probe_from, "measured");
    h[1]->links = AR_LINKS_PCIE;
    h[1]->nccl = &nccl;
    describes(
        h[1],
        "rank 1 of 2 on GPU 1, 132 multiprocessors, of which calls take at most 128 for 1 rank\n"
        "transport: PCIe peer memory\n"
        "start-up probe: each rank to all others at once, MB/s: push 1, pull 20, copy 300 "
        "(measured)\n"
        "NCCL 2.28.9\n",
        "0, no kernel starts early");
    h[1]->nccl = NULL;
    h[1]->gate = "the ranks run on different GPU models";
    describes(
        h[1],
        "rank 1 of 2 on GPU 1, 132 multiprocessors, of which calls take at most 128 for 1 rank\n"
        "every call goes to NCCL: the ranks run on different GPU models\n"
        "start-up probe: each rank to all others at once, MB/s: push 1, pull 20, copy 300 "
        "(measured)\n",
        "0, no kernel starts early");
    symtuner_ar_destroy(h, 2);
    fake.peers = 0;
    ck_assert_int_eq(symtuner_ar_create_local(h, shared, 3, &config), ncclSuccess);
    describes(
        h[2],
        "rank 2 of 3 on GPU 1, 132 multiprocessors, of which calls take at most 128 for 2 ranks\n"
        "transport: pinned host memory; no peer memory: GPU 0 cannot reach the memory of GPU "
        "1\n"
        "registered buffers are treated as any others\n",
        "0, no kernel starts early");
    symtuner_ar_destroy(h, 3);
}
END_TEST

Suite *st_suite_call(void)
{
    Suite *suite = suite_create("ar_call");
    TCase *calls = tcase_create("calls");

    tcase_add_checked_fixture(calls, set_up, tear_down);
    tcase_add_test(calls, test_no_handle_is_an_error_and_never_a_crash);
    tcase_add_loop_test(calls, test_wrong_configurations_are_refused_by_name, 0,
                        (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(calls, test_the_library_says_its_version_and_kernels);
    tcase_add_loop_test(calls, test_a_forced_grid_is_within_bounds, 0,
                        (int)(sizeof grids / sizeof *grids));
    tcase_add_test(calls, test_a_group_of_one_copies);
    tcase_add_loop_test(calls, test_what_cuda_refuses_is_said_and_the_next_call_works, 0,
                        (int)(sizeof failing / sizeof *failing));
    tcase_add_test(calls, test_a_call_leaves_the_gpu_in_use_as_it_was);
    tcase_add_test(calls, test_rules_that_differ_in_a_local_group_are_not_used);
    tcase_add_test(calls, test_scratch_is_filled_before_the_first_call);
    tcase_add_test(calls, test_without_a_thread_the_gpu_is_still_waited_for);
    tcase_add_test(calls, test_waiting_for_a_gpu_leaves_no_descriptor);
    tcase_add_test(calls, test_without_memory_there_is_no_group_and_no_leak);
    tcase_add_test(calls, test_no_call_of_ours_changes_the_gpu_in_use);
    tcase_add_test(calls, test_a_handle_is_described_line_by_line);
    suite_add_tcase(suite, calls);
    return suite;
}
