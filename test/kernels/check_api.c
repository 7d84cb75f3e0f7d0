/* SPDX-License-Identifier: Apache-2.0 */
/* check_api.c - checks which arguments the public functions of libsymtuner_ar.so refuse, what they
 * free, and what they launch. The fake CUDA (fake/cuda.c) runs no kernel. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/suites.h"

START_TEST(test_create_refuses_bad_arguments_by_name)
{
    struct symtuner_ar_config config = small();
    symtuner_ar *h[N] = {NULL};
    int bad[] = {0, 7}, device = -1;

    memset(&fake, 0, sizeof fake);
    cudaSetDevice(0);
    want_error(symtuner_ar_create_local(h, devices, 2, NULL), ncclUnhandledCudaError, NULL,
               "no usable");
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    fake.devices = N;
    want_error(symtuner_ar_create_local(NULL, devices, 2, NULL), ncclInvalidArgument, NULL,
               "handles_out is NULL");
    want_error(symtuner_ar_create_local(h, NULL, 2, NULL), ncclInvalidArgument, NULL,
               "devices is NULL");
    want_error(symtuner_ar_create(NULL, &(ncclComm_t){NULL}, 1, NULL), ncclInvalidArgument, NULL,
               "handles_out is NULL");
    want_error(symtuner_ar_create(h, NULL, 1, NULL), ncclInvalidArgument, NULL, "comms is NULL");
    want_error(symtuner_ar_create_local(h, devices, 0, NULL), ncclInvalidArgument, NULL, "not 0");
    want_error(symtuner_ar_create_local(h, devices, 17, NULL), ncclInvalidArgument, NULL, "not 17");
    want_error(symtuner_ar_create_local(h, bad, 2, NULL), ncclInvalidArgument, NULL,
               "devices[1] = 7");
    config.transport = SYMTUNER_AR_PEER; /* fake.peers is 0, so there is no access to peers */
    want_error(symtuner_ar_create_local(h, devices, 2, &config), ncclInvalidUsage, NULL,
               "cannot reach");
    ck_assert_ptr_null(h[0]);
    ck_assert_int_eq(fake.live, 0);
    cudaGetDevice(&device);
    ck_assert_int_eq(device, 0); /* the caller's device is still current */
}
END_TEST

/* Some kernels send the call's number in each word, so that the receiver knows when the word has
 * arrived. New scratch memory holds zeros, so in a call with number 0 an empty word would look like
 * data. */
START_TEST(test_counters_start_at_one_or_as_configured)
{
    struct symtuner_ar_config config = small();
    symtuner_ar *h[2];

    memset(&fake, 0, sizeof fake);
    fake.devices = fake.peers = N;
    config.first_epoch = (uint64_t)_i * 7;
    ck_assert_int_eq(symtuner_ar_create_local(h, devices, 2, &config), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        ck_assert_uint_eq(h[r]->state->epoch, _i ? 7 : 1);
        ck_assert_uint_eq(h[r]->state->base, _i ? 7 : 1);
        ck_assert_uint_eq(h[r]->state->arrived, _i ? 7 : 1);
    }
    symtuner_ar_destroy(h, 2);
}
END_TEST

START_TEST(test_without_peers_host_memory_is_used)
{
    struct symtuner_ar_config config = small();
    symtuner_ar *h[2];
    char text[4096], part[4096];
    unsigned char there;
    size_t needed;
    void *map;

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    ck_assert_int_eq(symtuner_ar_create_local(h, devices, 2, &config), ncclSuccess);
    needed = symtuner_ar_describe(h[0], text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "pinned host memory; no peer memory: GPU 0 cannot reach"));
    /* symtuner_ar_describe must write exactly as many characters as fit */
    for (size_t length = 0; length <= needed; length++) {
        memset(part, '#', sizeof part);
        ck_assert_uint_eq(symtuner_ar_describe(h[0], part, length), needed);
        ck_assert_int_eq(part[length], '#');
        if (length > 0)
            ck_assert_msg(strlen(part) < length && !*part == (length == 1) &&
                              strncmp(part, text, strlen(part)) == 0,
                          "%zu of %zu bytes: %s", length, needed, part);
    }
    for (int i = 0; i < 2; i++) /* both handles use one mapping, with a part for each rank */
        for (int r = 0; r < 2; r++)
            ck_assert_ptr_eq(h[i]->arena[0].peer[r],
                             (char *)h[0]->host_map + h[0]->host_map_bytes / 2 * (size_t)r);
    ck_assert_uint_ge(h[0]->host_map_bytes, 2 * h[0]->arena[0].layout.bytes);
    map = h[0]->host_map;
    symtuner_ar_destroy(h, 2);
    ck_assert_int_eq(fake.live, 0);
    ck_assert(mincore(map, 1, &there) != 0 && errno == ENOMEM); /* the mapping is gone */
}
END_TEST

START_TEST(test_mixed_gpus_have_one_layout)
{
    symtuner_ar *h[2];

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.peers = 1;
    fake.small = 2;
    ck_assert_int_eq(symtuner_ar_create_local(h, devices, 2, NULL), ncclSuccess);
    ck_assert_int_eq(h[0]->arena[AR_ARENA_BULK].layout.half[AR_REGION_BULK], 64 << 20);
    for (int a = 0; a < AR_ARENAS; a++)
        ck_assert_int_eq(
            memcmp(&h[0]->arena[a].layout, &h[1]->arena[a].layout, sizeof h[0]->arena[a].layout),
            0);
    symtuner_ar_destroy(h, 2);
}
END_TEST

/* Make the first, second, ... CUDA call fail. The creation must return an error and no handle, and
 * must leak nothing. */
START_TEST(test_create_cleans_up_whatever_fails)
{
    struct symtuner_ar_config config = small();
    int failures = 0;

    for (int transport = SYMTUNER_AR_PEER; transport <= SYMTUNER_AR_HOST; transport++)
        for (int at = 1;; at++) {
            symtuner_ar *h[2] = {NULL, NULL};

            memset(&fake, 0, sizeof fake);
            fake.devices = 2;
            fake.peers = 1;
            fake.fail_at = at;
            config.transport = transport;
            if (symtuner_ar_create_local(h, devices, 2, &config) == ncclSuccess) {
                ck_assert_int_lt(fake.calls, at);
                symtuner_ar_destroy(h, 2);
                ck_assert_int_eq(fake.live, 0);
                break;
            }
            failures++;
            ck_assert_ptr_null(h[0]);
            ck_assert_msg(cudaGetLastError() == cudaSuccess, "call %d leaves its error", at);
            ck_assert_msg(fake.live == 0, "call %d fails: %d things leak", at, fake.live);
            ck_assert_msg(strstr(symtuner_ar_error(NULL), "out of memory") != NULL,
                          "call %d fails: %s", at, symtuner_ar_error(NULL));
        }
    ck_assert_int_gt(failures, 20);
}
END_TEST

/* Return how many pages of address space this process has mapped, as Linux counts them. */
static long mapped(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages;
}

START_TEST(test_memory_that_cannot_be_pinned_is_unmapped)
{
    struct symtuner_ar_config config = small();
    symtuner_ar *h[2];
    long before;

    memset(&fake, 0, sizeof fake);
    fake.devices = 2;
    fake.no_pin = 1;
    for (int i = 0; i < 20; i++) {
        if (i == 4)
            before = mapped();
        ck_assert_int_ne(symtuner_ar_create_local(h, devices, 2, &config), ncclSuccess);
    }
    ck_assert_int_lt(mapped() - before, 1000); /* a single leaked mapping would have more pages */
}
END_TEST

/* symtuner_ar_create_local reads the rules, and symtuner_ar_query shows which kernel they choose. A
 * wrong rule does not make the creation fail. */
START_TEST(test_rules_are_read_at_create)
{
    struct symtuner_ar_config config = small();
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h[2];
    char text[4096];

    setenv("SYMTUNER_LOG", "off", 1);
    setenv("SYMTUNER_MACHINE", "gpu=NVIDIA H200; links=nvlink; multicast=no", 1);
    for (int wrong = 0; wrong < 2; wrong++) {
        memset(&fake, 0, sizeof fake);
        fake.devices = 2;
        fake.peers = 1;
        setenv("SYMTUNER_RULE",
               wrong ? "kernels kernel=two_l8" : "kernels ranks=2 dtype=f32 kernel=two_ll8 ctas=3",
               1);
        ck_assert_int_eq(symtuner_ar_create_local(h, devices, 2, &config), ncclSuccess);
        ck_assert_int_eq(symtuner_ar_query(memory, memory, 4096, ncclFloat, ncclSum, h[1], &plan),
                         ncclSuccess);
        symtuner_ar_describe(h[0], text, sizeof text);
        if (wrong) {
            ck_assert_ptr_eq(strstr(plan.why, "table"), plan.why);
            ck_assert_ptr_nonnull(
                strstr(text, "rules: not used: SYMTUNER_RULE:1:16: unknown kernel"));
        } else {
            ck_assert_str_eq(plan.why, "rules: SYMTUNER_RULE:1 \"inline:1\"");
            ck_assert_str_eq(plan.kernel, "two_ll8");
            ck_assert_int_eq(plan.ctas, 3);
            ck_assert_ptr_nonnull(strstr(text, "rules: 1 for this group, hash 0x"));
        }
        symtuner_ar_destroy(h, 2);
        ck_assert_int_eq(fake.live, 0);
    }
    unsetenv("SYMTUNER_RULE");
}
END_TEST

START_TEST(test_calls_refuse_bad_arguments_by_name)
{
    symtuner_ar *h = handles[0];
    char *m = memory[0];

#define CALL(send, recv, count, type, op)                                                          \
    symtuner_ar_all_reduce(send, recv, count, (ncclDataType_t)(type), (ncclRedOp_t)(op), h, NULL)
    want_error(CALL(NULL, m, 1, ncclFloat, ncclSum), ncclInvalidArgument, h, "send is NULL");
    want_error(CALL(m, NULL, 1, ncclFloat, ncclSum), ncclInvalidArgument, h, "recv is NULL");
    want_error(CALL(m + 2, m + 2, 1, ncclFloat, ncclSum), ncclInvalidArgument, h,
               "send is not aligned");
    want_error(CALL(m, m + 4097, 4, ncclHalf, ncclSum), ncclInvalidArgument, h,
               "recv is not aligned");
    want_error(CALL(m, m + 8, 4, ncclFloat, ncclSum), ncclInvalidUsage, h, "overlap");
    want_error(CALL(m, m, 1, 99, ncclSum), ncclInvalidArgument, h, "data type 99");
    want_error(CALL(m, m, 1, ncclFloat, 7), ncclInvalidArgument, h, "operator 7");
    want_error(CALL(m, m, SIZE_MAX, ncclInt8, ncclSum), ncclInvalidArgument, h, "too large");
    ck_assert_int_eq(symtuner_ar_all_reduce(m, m, 1, ncclFloat, ncclSum, NULL, NULL),
                     ncclInvalidArgument);
    want_error(symtuner_ar_force(h, "one_shot", 0, 0), ncclInvalidArgument, h,
               "\"one_shot\" is unknown");
    want_error(symtuner_ar_force(h, NULL, 10000, 0), ncclInvalidArgument, h, "10000 blocks");
    ck_assert_int_eq(fake.launches, 0);
    ck_assert_int_eq(CALL(NULL, NULL, 0, ncclFloat, ncclSum), ncclSuccess);
    ck_assert_int_eq(fake.launches, 0);
    ck_assert_int_eq(CALL(m, m, 10, ncclFloat, ncclSum), ncclSuccess);
    ck_assert_int_eq(fake.launches, 1);
#undef CALL
}
END_TEST

START_TEST(test_lists_of_buffers_must_be_complete)
{
    const void *sends[N] = {memory[0], memory[1], NULL, memory[3]};
    void *recvs[N] = {memory[0], memory[1], memory[2], memory[3]};
    symtuner_ar *h = handles[1];

    want_error(symtuner_ar_all_reduce_at(NULL, recvs, 1, ncclFloat, ncclSum, h, NULL),
               ncclInvalidArgument, h, "sends is NULL");
    want_error(symtuner_ar_all_reduce_at(sends, recvs, 1, ncclFloat, ncclSum, h, NULL),
               ncclInvalidArgument, h, "sends[2] is NULL");
    sends[2] = memory[2];
    symtuner_ar_force(h, "pull", 0, 0);
    ck_assert_int_eq(symtuner_ar_all_reduce_at(sends, recvs, 4096, ncclFloat, ncclSum, h, NULL),
                     ncclSuccess);
    for (int r = 0; r < N; r++) {
        ck_assert_ptr_eq(fake.launch[0].args.src[r], memory[r]);
        ck_assert_ptr_eq(fake.launch[0].args.dst[r], memory[r]);
    }
    recvs[3] = memory[3] + 4100; /* the kernel "pull" needs buffers on 16-byte boundaries on all
                                    ranks; rank 3's recv is not on one, so every rank refuses */
    want_error(symtuner_ar_all_reduce_at(sends, recvs, 64, ncclFloat, ncclSum, h, NULL),
               ncclInvalidUsage, h, "pull");
}
END_TEST

/* Kernels write sums straight into the peers' recv if, and only if, the whole recv is registered
 * and begins on a 16-byte boundary. */
START_TEST(test_zero_copy_needs_recv_inside_a_window)
{
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h = handles[2];

    symtuner_ar_register(handles, buffers, NULL, N, 65536);
    symtuner_ar_force(h, "chunked", 0, 0);
#define ZERO_COPY(offset, count)                                                                   \
    (symtuner_ar_query(memory[2] + (1 << 19), memory[2] + (offset), count, ncclFloat, ncclSum, h,  \
                       &plan),                                                                     \
     plan.zero_copy)
    ck_assert_int_eq(ZERO_COPY(0, 16384), 1);
    ck_assert_int_eq(ZERO_COPY(4, 1000), 0);
    ck_assert_int_eq(ZERO_COPY(16, 16384), 0);
#undef ZERO_COPY
    symtuner_ar_all_reduce(memory[2] + 65536, memory[2] + 32, 1000, ncclFloat, ncclSum, h, NULL);
    ck_assert_int_eq(fake.launch[0].args.staged, 0);
    ck_assert_ptr_eq(fake.launch[0].args.dst[3], memory[3] + 32);
    symtuner_ar_all_reduce(memory[2] + 65536, memory[2] + 36, 1000, ncclFloat, ncclSum, h, NULL);
    ck_assert_int_eq(fake.launch[1].args.staged, 1);
    plan.size = 3;
    want_error(symtuner_ar_query(memory[0], memory[0], 1, ncclFloat, ncclSum, h, &plan),
               ncclInvalidArgument, h, "plan.size");
}
END_TEST

/* A long message goes through small scratch memory in several launches. Together the launches must
 * cover the message once, in order. symtuner_ar_query must predict the number of launches. */
START_TEST(test_pieces_cover_a_long_message_once)
{
    static const char *const names[] = {"one_ll8",   "one_ll128",   "one_lamport", "two_ll8",
                                        "two_ll128", "two_lamport", "chunked"};
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h = handles[3];
    char *m = (char *)(uintptr_t)0x100000000; /* nobody reads or writes at this address */
    size_t count = (70u << 20) + 3;
    uint64_t covered = 0;

    symtuner_ar_force(h, names[_i], 0, 0);
    ck_assert_int_eq(symtuner_ar_query(m, m, count, ncclHalf, ncclSum, h, &plan), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_all_reduce(m, m, count, ncclHalf, ncclSum, h, NULL), ncclSuccess);
    ck_assert_int_eq(plan.pieces, fake.launches);
    ck_assert_str_eq(plan.kernel, names[_i]);
    for (int i = 0; i < fake.launches; i++) {
        const struct fake_launch *l = &fake.launch[i];

        ck_assert_ptr_eq(l->args.in, m + covered);
        ck_assert_ptr_eq(l->args.out, m + covered);
        ck_assert_int_eq(l->ctas, plan.ctas);
        ck_assert_int_eq(l->threads, plan.threads);
        covered += l->args.bytes;
    }
    ck_assert_int_eq(covered, count * 2);
}
END_TEST

START_TEST(test_a_new_stream_waits_for_the_old_one)
{
    cudaStream_t a = (cudaStream_t)memory[1], b = (cudaStream_t)memory[2];

#define ON(stream)                                                                                 \
    symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, handles[0], stream)
    ON(a);
    ON(a);
    ck_assert_int_eq(fake.waits, 0);
    ON(b);
    ck_assert_int_eq(fake.waits, 1);
    fake.capture = 5; /* a captured call waits only for calls of the same capture */
    ON(a);
    ck_assert_int_eq(fake.waits, 1);
    ON(b);
    ck_assert_int_eq(fake.waits, 2);
    fake.capture = 6;
    ON(a);
    ck_assert_int_eq(fake.waits, 2);
    fake.capture = 0; /* while a graph exists, each call outside of captures waits for an event */
    ON(b);
    ck_assert_int_eq(fake.waits, 3);
    ON(a);
    ck_assert_int_eq(fake.waits, 4);
#undef ON
}
END_TEST

START_TEST(test_one_stream_has_no_events_until_there_is_another)
{
    struct symtuner_ar_config config = small();
    static const int pair[] = {0, 1};
    cudaStream_t a = (cudaStream_t)memory[1], b = (cudaStream_t)memory[2];
    cudaStream_t c = (cudaStream_t)memory[3];
    symtuner_ar *h[2];

    config.one_stream = 1;
    memset(&fake, 0, sizeof fake);
    fake.devices = N;
    fake.peers = 1;
    ck_assert_int_eq(symtuner_ar_create_local(h, pair, 2, &config), ncclSuccess);
    fake.idles = 0;
#define ON(stream)                                                                                 \
    ck_assert_int_eq(                                                                              \
        symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, h[0], stream),         \
        ncclSuccess)
    fake.capture = 4; /* even the first call on a handle may be captured */
    ON(b);
    ck_assert_int_eq(fake.records, 1);
    fake.capture = 0;
    ON(a);
    ON(a);
    ck_assert_int_eq(fake.records, 1);
    fake.capture = 5; /* captured calls on different streams wait for each other by events */
    ON(b);
    ck_assert_int_eq(fake.waits, 0);
    ON(c);
    ck_assert_int_eq(fake.waits, 1);
    ck_assert_int_eq(fake.records, 3);
    ck_assert_int_eq(fake.idles, 0);
    fake.capture = 0;
    ON(a); /* captured calls do not count as calls on another stream, so this call records no
              event */
    ck_assert_int_eq(fake.records, 3);
    ON(b); /* stream a has no event to wait for, so the call waits until the GPU is idle */
    ck_assert_int_eq(fake.idles, 1);
    ck_assert_int_eq(fake.waits, 1);
    ck_assert_int_eq(fake.records, 4);
    ON(a); /* from now on every call outside of captures records an event */
    ON(b);
    ck_assert_int_eq(fake.idles, 1);
    ck_assert_int_eq(fake.waits, 3);
    ck_assert_int_eq(fake.records, 6);
    ck_assert_int_eq(fake.launches, 9);
#undef ON
    ck_assert_int_eq(symtuner_ar_destroy(h, 2), ncclSuccess);
}
END_TEST

static uint32_t load_dead(const symtuner_ar *h)
{
    return __atomic_load_n(&h->state->dead, __ATOMIC_RELAXED);
}

START_TEST(test_a_dead_handle_refuses_further_calls)
{
    symtuner_ar *h = handles[1];

    h->mailbox->error = AR_TIMEOUT;
    want_error(symtuner_ar_all_reduce(memory[1], memory[1], 8, ncclFloat, ncclSum, h, NULL),
               ncclRemoteError, h, "past the time limit");
    ck_assert_int_eq(symtuner_ar_status(handles[0]), ncclSuccess);
    symtuner_ar_abort(handles[0]);
    want_error(
        symtuner_ar_all_reduce(memory[0], memory[0], 8, ncclFloat, ncclSum, handles[0], NULL),
        ncclInvalidUsage, handles[0], "aborted");
    ck_assert_int_eq(handles[0]->mailbox->abort, AR_ABORTED);
    for (int ms = 0; ms < 5000 && load_dead(handles[0]) == AR_ALIVE; ms++)
        usleep(1000); /* a thread of the library sets state->dead; this may take a while on a busy
                         machine */
    /* our kernels must read AR_ABORTED and end before the program calls ncclCommAbort, which unmaps
     * memory */
    ck_assert_int_eq(load_dead(handles[0]), AR_ABORTED);
    ck_assert_int_eq(handles[1]->state->dead, AR_ALIVE);
    ck_assert_int_eq(fake.launches, 0);
}
END_TEST

START_TEST(test_ranks_on_one_gpu_share_its_multiprocessors)
{
    struct symtuner_ar_config config = small();
    static const int same[] = {2, 2, 2};
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h[3];

    memset(&fake, 0, sizeof fake);
    fake.devices = N;
    ck_assert_int_eq(symtuner_ar_create_local(h, same, 3, &config), ncclSuccess);
    symtuner_ar_force(h[0], NULL, 132, 0);
    ck_assert_int_eq(
        symtuner_ar_query(memory[0], memory[0], 1 << 16, ncclFloat, ncclSum, h[0], &plan),
        ncclSuccess);
    ck_assert_int_eq(plan.ctas, 64 / 3);
    symtuner_ar_force(h[0], "copy", 0, 0); /* the kernel "copy" is refused, because its two streams
                                              could wait for each other on a shared GPU */
    ck_assert_int_eq(
        symtuner_ar_query(memory[0], memory[0], 1 << 16, ncclFloat, ncclSum, h[0], &plan),
        ncclInvalidUsage);
    symtuner_ar_destroy(h, 3);
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

Suite *st_suite_api(void)
{
    Suite *s = suite_create("ar_api");
    TCase *bare = tcase_create("create"), *made = tcase_create("calls");

    tcase_add_test(bare, test_create_refuses_bad_arguments_by_name);
    tcase_add_loop_test(bare, test_counters_start_at_one_or_as_configured, 0, 2);
    tcase_add_test(bare, test_without_peers_host_memory_is_used);
    tcase_add_test(bare, test_mixed_gpus_have_one_layout);
    tcase_add_test(bare, test_create_cleans_up_whatever_fails);
    tcase_add_test(bare, test_memory_that_cannot_be_pinned_is_unmapped);
    tcase_add_test(bare, test_rules_are_read_at_create);
    suite_add_tcase(s, bare);
    tcase_add_checked_fixture(made, set_up, tear_down);
    tcase_add_test(made, test_calls_refuse_bad_arguments_by_name);
    tcase_add_test(made, test_lists_of_buffers_must_be_complete);
    tcase_add_test(made, test_zero_copy_needs_recv_inside_a_window);
    tcase_add_loop_test(made, test_pieces_cover_a_long_message_once, 0, 7);
    tcase_add_test(made, test_a_new_stream_waits_for_the_old_one);
    tcase_add_test(made, test_one_stream_has_no_events_until_there_is_another);
    tcase_add_test(made, test_a_dead_handle_refuses_further_calls);
    tcase_add_test(made, test_ranks_on_one_gpu_share_its_multiprocessors);
    suite_add_tcase(s, made);
    return s;
}
