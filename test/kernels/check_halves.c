/* SPDX-License-Identifier: Apache-2.0 */
/* check_halves.c - checks reduce-scatter and all-gather on a fake CUDA that runs nothing: what the
 * library refuses, what it launches, and what it gives to NCCL. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "symtuner_ar.h"
#include "kernels/choose/rules.h"
#include "kernels/group/handle.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/memory.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/fake/steps.h"
#include "test/kernels/suites.h"

#define SCATTER(h, send, recv, count)                                                              \
    symtuner_ar_reduce_scatter(send, recv, count, ncclFloat, ncclSum, h, NULL)
#define GATHER(h, send, recv, count) symtuner_ar_all_gather(send, recv, count, ncclFloat, h, NULL)

START_TEST(test_halves_refuse_bad_arguments_by_name)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h = handles[1];
    char *m = memory[1];

    ck_assert_int_eq(SCATTER(NULL, m, m, 1), ncclInvalidArgument);
    ck_assert_int_eq(GATHER(NULL, m, m, 1), ncclInvalidArgument);
    want_error(SCATTER(h, NULL, m, 1), ncclInvalidArgument, h, "send is NULL");
    want_error(GATHER(h, m, NULL, 1), ncclInvalidArgument, h, "recv is NULL");
    want_error(GATHER(h, m, m + 6, 1), ncclInvalidArgument, h, "recv is not aligned");
    /* In a call in place, rank 1's shorter buffer must be the second part of the longer one. The
     * buffers below overlap in other ways. */
    want_error(SCATTER(h, m, m, 16), ncclInvalidUsage, h, "overlap");
    want_error(SCATTER(h, m, m + 4 * 64 - 4, 16), ncclInvalidUsage, h, "overlap");
    want_error(GATHER(h, m + 4 * 64 - 4, m, 16), ncclInvalidUsage, h, "overlap");
    want_error(SCATTER(h, m, m, SIZE_MAX / 32), ncclInvalidArgument, h, "too large");
    want_error(symtuner_ar_query_coll(3, m, m, 1, ncclFloat, ncclSum, h, &plan),
               ncclInvalidArgument, h, "collective 3");
    want_error(symtuner_ar_query_coll(-1, m, m, 1, ncclFloat, ncclSum, h, &plan),
               ncclInvalidArgument, h, "collective -1");
    want_error(symtuner_ar_reduce_scatter(m, m + 64, 16, ncclFloat, (ncclRedOp_t)7, h, NULL),
               ncclInvalidArgument, h, "operator 7");
    ck_assert_int_eq(SCATTER(h, NULL, NULL, 0), ncclSuccess);
    ck_assert_int_eq(fake.launches, 0);
    ck_assert_int_eq(SCATTER(h, m, m + 64, 16), ncclSuccess); /* this call is in place */
    ck_assert_int_eq(SCATTER(h, m, m + 4 * 64, 16), ncclSuccess);
    ck_assert_int_eq(GATHER(h, m + 64, m, 16), ncclSuccess);
    ck_assert_int_eq(GATHER(h, m + 4 * 64, m, 16), ncclSuccess);
    ck_assert_int_eq(fake.launches, 4);
}
END_TEST

/* The fixture for ranks that map each other's memory, so that all kernel families can run. */
static void set_up_mapping(void)
{
    setenv("SYMTUNER_AR_IPC", "1", 1);
    set_up();
    unsetenv("SYMTUNER_AR_IPC");
}

/* ar_family_needs must return 0 for a collective for which the family has no kernels, and only
 * then. A call that forces such a family must be refused. */
START_TEST(test_a_kernel_without_code_for_the_collective_is_refused)
{
    static const bool has[AR_COLLS][AR_FAMILIES] = {
#define X(family, name) [family] = true,
        [AR_REDUCE_SCATTER] = {AR_SCATTER_MAP(X)},
        [AR_ALL_GATHER] = {AR_GATHER_MAP(X)},
#undef X
    };
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h = handles[2];
    char *m = memory[2];

    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 1 << 20), ncclSuccess);
    h->tma = true;
    for (int i = 0; i < 2 * AR_FAMILIES; i++) {
        const int f = i / 2, coll = AR_REDUCE_SCATTER + i % 2;

        symtuner_ar_force(h, ar_family_name(f), 0, 0);
        ck_assert((ar_family_needs(f, coll) != 0) == (has[coll][f] || f == AR_NCCL));
        if (has[coll][f]) {
            ck_assert_int_eq(
                symtuner_ar_query_coll(coll, m, m + 8192, 64, ncclFloat, ncclSum, h, &plan),
                ncclSuccess);
            ck_assert_str_eq(plan.kernel, ar_family_name(f));
        } else {
            want_error(coll == AR_ALL_GATHER ? GATHER(h, m, m + 8192, 64)
                                             : SCATTER(h, m, m + 8192, 64),
                       ncclInvalidUsage, h, "cannot run this call");
        }
    }
}
END_TEST

/* A part is the data that one rank gets or sends. Each launch takes the same piece of every part.
 * Together the launches take each part once. */
START_TEST(test_pieces_cut_all_parts_alike)
{
    static const char *const names[] = {"one_ll8", "one_ll128", "one_lamport", "chunked"};
    const int coll = AR_REDUCE_SCATTER + _i % 2;
    const char *name = names[coll == AR_ALL_GATHER && _i / 2 == 2 ? 0 : _i / 2];
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h = handles[3];
    char *m = (char *)(uintptr_t)0x100000000; /* nobody reads or writes at these addresses */
    char *other = m + (1ull << 40);
    size_t count = (5u << 20) + 3;
    uint64_t covered = 0;

    symtuner_ar_force(h, name, 0, 0);
    ck_assert_int_eq(symtuner_ar_query_coll(coll, m, other, count, ncclHalf, ncclSum, h, &plan),
                     ncclSuccess);
    ck_assert_int_eq(coll == AR_ALL_GATHER
                         ? symtuner_ar_all_gather(m, other, count, ncclHalf, h, NULL)
                         : symtuner_ar_reduce_scatter(m, other, count, ncclHalf, ncclSum, h, NULL),
                     ncclSuccess);
    ck_assert_int_eq(plan.pieces, fake.launches);
    for (int i = 0; i < fake.launches; i++) {
        const struct fake_launch *l = &fake.launch[i];
        const int region = ar_families[ar_family_by_name(name)].region;
        uint64_t end = 0;

        for (int a = 0; a < AR_ARENAS; a++)
            if (memcmp(l->args.peer, h->arena[a].peer, sizeof l->args.peer) == 0)
                end = h->arena[a].layout.half[region];

        ck_assert_ptr_eq(l->args.in, m + covered);
        ck_assert_ptr_eq(l->args.out, other + covered);
        ck_assert_uint_eq(l->args.stride, 2 * count);
        ck_assert_int_eq(coll == AR_ALL_GATHER ? l->args.out_align : l->args.in_align, 2);
        ck_assert_uint_le(ar_round_up(l->args.words, AR_LINE) * AR_WORD * N, end);
        ck_assert_uint_le(ar_is_bulk(ar_family_by_name(name)) ? l->args.shard * N : 0, end);
        covered += l->args.bytes;
    }
    ck_assert_uint_eq(covered, 2 * count);
}
END_TEST

/* Kernels must get the addresses of the parts in the peers' registered buffers. The test makes its
 * calls as rank 2 of 4, with parts of 1000 floats. */
START_TEST(test_registered_parts_are_found_in_every_window)
{
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};
    const size_t part = 4000, far = 65536;
    symtuner_ar *h = handles[2];
    char *m = memory[2];

    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 1 << 20), ncclSuccess);
    symtuner_ar_force(h, "pull", 0, 0);
    ck_assert_int_eq(SCATTER(h, m + 32, m + 32 + 2 * part, 1000), ncclSuccess);
    ck_assert_int_eq(GATHER(h, m + 32, m + far, 1000), ncclSuccess);
    for (int r = 0; r < N; r++) {
        ck_assert_ptr_eq(fake.launch[0].args.src[r], memory[r] + 32 + 2 * part);
        ck_assert_ptr_eq(fake.launch[1].args.dst[r], memory[r] + far + 2 * part);
    }
    fake.launches = 0;
    fake.copied = 0;
    symtuner_ar_force(h, "copy", 0, 0);
    ck_assert_int_eq(GATHER(h, m + far + 2 * part, m + far, 1000), ncclSuccess);
    for (int r = 0; r < N; r++)
        ck_assert_ptr_eq(fake.launch[0].args.src[r], memory[r] + far + (size_t)r * part);
    ck_assert_uint_eq(fake.copied, 3 * part); /* in place: this rank's own part need not be
                                                 copied */
    ck_assert_int_eq(GATHER(h, m + 32, m + far, 1000), ncclSuccess);
    ck_assert_uint_eq(fake.copied, 7 * part);
    /* the kernel "pull" needs an aligned send for a reduce-scatter, and an aligned recv for an
     * all-gather */
    symtuner_ar_force(h, "pull", 0, 0);
    want_error(SCATTER(h, m + 36, m + 32 + far, 1000), ncclInvalidUsage, h, "pull");
    want_error(GATHER(h, m + 32, m + far + 4, 1000), ncclInvalidUsage, h, "pull");
    ck_assert_int_eq(SCATTER(h, m, m + far + 4, 1000), ncclSuccess);
    ck_assert_int_eq(GATHER(h, m + 4, m + far, 1000), ncclSuccess);
}
END_TEST

/* A rule with "registered" asks whether both buffers are registered. It must not matter how they
 * are aligned: in a call in place, the shorter buffer begins at a multiple of 16 bytes on rank 2,
 * but not on rank 1. */
START_TEST(test_rules_ask_whether_both_buffers_are_registered)
{
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};
    const size_t count = 1002, part = 4 * count, far = 65536, outside = 3 << 18;
    char note[AR_RULES_NOTE];

    setenv("SYMTUNER_RULE",
           "kernels coll=any registered=yes kernel=chunked ctas=3; "
           "kernels coll=any registered=no kernel=one_ll8 ctas=2",
           1);
    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 1 << 19), ncclSuccess);
    for (int r = 1; r < 3; r++) {
        const size_t mine = (size_t)r * part;
        const struct {
            int coll;
            size_t send, recv;
            const char *kernel;
        } calls[] = {
            {AR_ALL_REDUCE, 0, far, "chunked"},         {AR_ALL_REDUCE, 0, outside, "one_ll8"},
            {AR_REDUCE_SCATTER, 0, far, "chunked"},     {AR_REDUCE_SCATTER, 0, mine, "chunked"},
            {AR_REDUCE_SCATTER, 0, outside, "one_ll8"}, {AR_REDUCE_SCATTER, outside, 0, "one_ll8"},
            {AR_ALL_GATHER, far, 0, "chunked"},         {AR_ALL_GATHER, mine, 0, "chunked"},
            {AR_ALL_GATHER, far, outside, "one_ll8"}};
        symtuner_ar *h = handles[r];

        h->rules = ar_rules_read(22809, N, note);
        ck_assert_ptr_nonnull(h->rules);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            struct symtuner_ar_plan plan = {.size = sizeof plan};

            ck_assert_int_eq(symtuner_ar_query_coll(calls[i].coll, memory[r] + calls[i].send,
                                                    memory[r] + calls[i].recv, count, ncclFloat,
                                                    ncclSum, h, &plan),
                             ncclSuccess);
            ck_assert_msg(strcmp(plan.kernel, calls[i].kernel) == 0, "rank %d, call %zu: %s, %s", r,
                          i, plan.kernel, plan.why);
        }
    }
    unsetenv("SYMTUNER_RULE");
}
END_TEST

START_TEST(test_a_group_of_one_copies_its_part)
{
    struct symtuner_ar_config config = small();
    symtuner_ar *h;

    ck_assert_int_eq(symtuner_ar_create_local(&h, devices, 1, &config), ncclSuccess);
    fake.copied = 0;
    ck_assert_int_eq(SCATTER(h, memory[0], memory[0], 16), ncclSuccess);
    ck_assert_int_eq(GATHER(h, memory[0], memory[0], 16), ncclSuccess);
    ck_assert_uint_eq(fake.copied, 0);
    ck_assert_int_eq(SCATTER(h, memory[0], memory[1], 16), ncclSuccess);
    ck_assert_int_eq(GATHER(h, memory[0], memory[1], 16), ncclSuccess);
    ck_assert_uint_eq(fake.copied, 2 * 64);
    symtuner_ar_destroy(&h, 1);
}
END_TEST

/* The library gives NCCL the calls that only NCCL can run. It must call NCCL's function for the
 * same collective. The rules here are for all-reduces, so they decide no call. */
START_TEST(test_nccl_runs_the_same_collective)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    static char send[2][256], recv[2][256];
    symtuner_ar *h[2];
    int gathers;

    fake_nccl_reset(2);
    setenv("SYMTUNER_LOG", "off", 1);
    fake_nccl.rule_of[0] = fake_nccl.rule_of[1] = "kernels kernel=two_ll8";
    ck_assert_int_eq(symtuner_ar_create(h, comms, 2, &config), ncclSuccess);
    gathers = fake_nccl.gathers;
    for (int r = 0; r < 2; r++) {
        memset(send[r], 'a' + r, sizeof send[r]);
        ck_assert_int_eq(
            symtuner_ar_reduce_scatter(send[r], recv[r], 16, ncclFloat, (ncclRedOp_t)7, h[r], NULL),
            ncclSuccess);
        ck_assert_int_eq(fake_nccl.scatters, r + 1);
        ck_assert_int_eq(symtuner_ar_query_coll(SYMTUNER_AR_REDUCE_SCATTER, send[r], recv[r], 16,
                                                ncclFloat, ncclSum, h[r], &plan),
                         ncclSuccess);
        ck_assert_str_ne(plan.kernel, "two_ll8");
        symtuner_ar_force(h[r], "nccl", 0, 0);
        ck_assert_int_eq(symtuner_ar_query_coll(SYMTUNER_AR_ALL_GATHER, send[r], recv[r], 16,
                                                ncclFloat, ncclSum, h[r], &plan),
                         ncclSuccess);
        ck_assert_ptr_null(strstr(plan.why, "adds")); /* an all-gather adds nothing */
    }
    ncclGroupStart();
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(symtuner_ar_all_gather(send[r], recv[r], 16, ncclInt8, h[r], NULL),
                         ncclSuccess);
    ck_assert_int_eq(ncclGroupEnd(), ncclSuccess);
    ck_assert_int_eq(fake_nccl.gathers, gathers + 1);
    for (int r = 0; r < 2; r++)
        ck_assert(recv[r][0] == 'a' && recv[r][15] == 'a' && recv[r][16] == 'b');
    symtuner_ar_destroy(h, 2);
    unsetenv("SYMTUNER_RULE");
    unsetenv("SYMTUNER_LOG");
}
END_TEST

/* How the kernel family "engines" waits for its peers before it copies. If the driver can make a
 * stream wait for a word in memory, each peer has a stream that waits for this peer only. Then the
 * only kernel runs at the end, on a stream of its own. Otherwise a kernel in front of all copies
 * waits for all peers. In both cases the caller's stream waits for all streams of the library. */
static const struct {
    int driver;
    bool memops, no_memops;
    const char *lacks;
    int waits, launches;
} waiting[] = {
    {12000, true, false, NULL, N - 1, 1},
    {11999, true, false, NULL, 0, 2},
    {12000, false, false, NULL, 0, 2},
    {12000, true, true, NULL, 0, 2},
    {12000, true, false, "cuDeviceGetAttribute", 0, 2},
    {12000, true, false, "cuStreamWaitValue64", 0, 2},
    {12000, true, false, "cuStreamWriteValue64", 0, 2},
};

START_TEST(test_engines_wait_by_the_driver_if_it_can)
{
    const cudaStream_t stream = (cudaStream_t)memory[3];
    int joined = 0;

    fake.driver = waiting[_i].driver;
    fake_step_count = 0;
    fake_memory_clear();
    fake_memory.memops = waiting[_i].memops;
    fake_memory.no_memops = waiting[_i].no_memops;
    fake_memory.lacks = waiting[_i].lacks;
    symtuner_ar_force(handles[1], "engines", 0, 0);
    ck_assert_int_eq(
        symtuner_ar_all_gather(memory[0], memory[1], 1024, ncclFloat, handles[1], stream),
        ncclSuccess);
    for (int i = 0; i < fake_step_count; i++)
        joined += fake_steps[i].what == FAKE_WAIT && fake_steps[i].stream == stream;
    ck_assert_int_eq(joined, N - 1 + (waiting[_i].waits > 0));
    ck_assert_int_eq(fake_memory.waits, waiting[_i].waits);
    ck_assert_int_eq(fake_memory.writes, waiting[_i].waits);
    ck_assert_int_eq(fake.launches, waiting[_i].launches);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    fake_memory_clear();
}
END_TEST

Suite *st_suite_halves(void)
{
    Suite *s = suite_create("ar_halves");
    TCase *t = tcase_create("all"), *mapping = tcase_create("mapping");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_checked_fixture(mapping, set_up_mapping, tear_down);
    tcase_add_test(mapping, test_a_kernel_without_code_for_the_collective_is_refused);
    suite_add_tcase(s, mapping);
    tcase_add_test(t, test_halves_refuse_bad_arguments_by_name);
    tcase_add_loop_test(t, test_pieces_cut_all_parts_alike, 0, 8);
    tcase_add_test(t, test_registered_parts_are_found_in_every_window);
    tcase_add_test(t, test_rules_ask_whether_both_buffers_are_registered);
    tcase_add_test(t, test_a_group_of_one_copies_its_part);
    tcase_add_test(t, test_nccl_runs_the_same_collective);
    if (CUDART_VERSION >= 12050) /* memops.c needs a function of this version */
        tcase_add_loop_test(t, test_engines_wait_by_the_driver_if_it_can, 0,
                            (int)(sizeof waiting / sizeof *waiting));
    suite_add_tcase(s, t);
    return s;
}
