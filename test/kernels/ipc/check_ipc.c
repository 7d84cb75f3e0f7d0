/* SPDX-License-Identifier: Apache-2.0 */
/* check_ipc.c - checks which buffers peers can map, which rank maps them and when, and what a call
 * tells the kernels about them. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "kernels/group/handle.h"
#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/memory.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/ipc/ranks.h"
#include "test/kernels/suites.h"

enum { CARD = 2 }; /* number of the all-gather in which the ranks exchange their settings */

static const char *said; /* what the library has printed on stderr */

START_TEST(test_a_place_is_a_number_and_a_distance)
{
    const struct ar_args *args = call(0, place[0] + 48, place[0] + 2 * BYTES);

    ck_assert(args->at_send == ar_ipc_place(1, 48));
    ck_assert(args->at_recv == ar_ipc_place(1, 2 * BYTES));
    fake_allocation(place[0] + 8 * BYTES, BYTES, 0);
    args = call(0, place[0], place[0] + 8 * BYTES);
    ck_assert(args->at_send == ar_ipc_place(1, 0));
    ck_assert(args->at_recv == ar_ipc_place(2, 0));
}
END_TEST

/* New memory may get the address of freed memory. Its allocation must get another number all the
 * same. */
START_TEST(test_new_memory_has_a_new_number)
{
    ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(1, 0));
    fake_allocation(place[0], 4 * BYTES, 0);
    ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(2, 0));
    ck_assert(call(0, place[0], place[0])->at_send == ar_ipc_place(2, 0));
}
END_TEST

START_TEST(test_some_buffers_have_no_place)
{
    /* this allocation ends before the message does */
    fake_allocation(place[0] + 8 * BYTES, BYTES / 2, 0);
    fake_allocation(place[0] + 16 * BYTES, 2 * BYTES, 1); /* this is memory of another GPU */
    ck_assert(call(0, place[0] + 4, place[0] + 4)->at_send == 0);
    ck_assert(call(0, place[0] + 8 * BYTES, place[0])->at_send == 0);
    ck_assert(call(0, place[0], place[0] + 16 * BYTES)->at_recv == 0);
    /* The driver does not know this memory. */
    ck_assert(call(0, place[0] + 32 * BYTES, place[0])->at_send == 0);
}
END_TEST

/* In each call a rank maps the memory that its peer has shown so far. It never waits for the
 * peer. */
START_TEST(test_each_call_maps_what_is_there)
{
    const struct ar_args *args = call(0, place[0], place[0]);

    ck_assert_ptr_null(args->ipc->base[1][0]);
    args = call(1, place[1], place[1]);
    ck_assert_ptr_eq(args->ipc->base[0][0], place[0]);
    args = call(0, place[0], place[0]);
    ck_assert_ptr_eq(args->ipc->base[1][0], place[1]);
}
END_TEST

/* To map memory, a thread that captures must be in the capture mode "relaxed". After the call it
 * must be in its own mode again. */
START_TEST(test_the_mode_of_captures_is_kept)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;

    cudaThreadExchangeStreamCaptureMode(&mode);
    call(0, place[0], place[0]);
    cudaThreadExchangeStreamCaptureMode(&mode);
    ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal);
}
END_TEST

START_TEST(test_a_gather_shows_recv_only)
{
    symtuner_ar_force(pair[0], "tma_ipc", 0, 0);
    ck_assert_int_eq(symtuner_ar_all_gather(place[0], place[0] + 2 * BYTES, FLOATS / 2, ncclFloat32,
                                            pair[0], NULL),
                     ncclSuccess);
    ck_assert(fake.launch[0].args.at_send == 0);
    ck_assert(fake.launch[0].args.at_recv == ar_ipc_place(1, 2 * BYTES));
    ck_assert_int_eq(symtuner_ar_reduce_scatter(place[0], place[0] + 2 * BYTES, FLOATS / 2,
                                                ncclFloat32, ncclSum, pair[0], NULL),
                     ncclSuccess);
    ck_assert(fake.launch[1].args.at_send == ar_ipc_place(1, 0));
    ck_assert(fake.launch[1].args.at_recv == 0);
}
END_TEST

/* The slots of all blocks fit into their region of scratch memory, and hold whole tiles. */
START_TEST(test_scratch_has_room_for_all_blocks)
{
    for (int ranks = 2; ranks <= AR_IPC_RANKS; ranks++)
        for (int ctas = 1; ctas <= AR_IPC_CTAS; ctas++)
            for (int coll = 0; coll < AR_COLLS; coll++) {
                const uint32_t tile = ar_tma_tile_of(coll, ranks);
                const uint64_t tiles = ar_ipc_tiles(4 << 20, ctas, ranks, coll, tile);

                must(tiles >= 1);
                must(tiles * tile * (uint64_t)(ctas * ranks * ar_ipc_slots(coll)) <= 4 << 20);
            }
    symtuner_ar_force(pair[0], "tma_ipc", AR_MAX_CTAS, 0);
    ck_assert_int_eq(
        symtuner_ar_all_reduce(place[0], place[0], FLOATS, ncclFloat32, ncclSum, pair[0], NULL),
        ncclSuccess);
    ck_assert_int_eq(fake.launch[0].ctas, AR_IPC_CTAS);
}
END_TEST

START_TEST(test_numbers_end)
{
    for (int i = 0; i <= AR_IPC_ALLOCATIONS; i++) {
        fake_allocation(place[0], 4 * BYTES, 0);
        ck_assert_int_eq(ar_ipc_number(call(0, place[0], place[0])->at_send),
                         i < AR_IPC_ALLOCATIONS ? i + 1 : 0);
    }
    ck_assert_ptr_eq(call(1, place[1], place[1])->ipc->base[0][AR_IPC_ALLOCATIONS - 1], place[0]);
}
END_TEST

START_TEST(test_the_table_takes_it_for_long_calls)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    char text[8192];

    ck_assert_int_eq(
        symtuner_ar_query(place[0], place[0], FLOATS, ncclFloat32, ncclSum, pair[0], &plan),
        ncclSuccess);
    ck_assert_str_eq(plan.kernel, "tma_ipc");
    ck_assert_int_eq(plan.zero_copy, 1);
    ck_assert_int_eq(plan.pieces, 1);
    ck_assert_int_eq(
        symtuner_ar_query(place[0], place[0], 4096, ncclFloat32, ncclSum, pair[0], &plan),
        ncclSuccess);
    ck_assert_str_ne(plan.kernel, "tma_ipc");
    call(0, place[0], place[0]);
    pair[0]->mailbox->ipc[1] = 7;
    symtuner_ar_describe(pair[0], text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "unregistered buffers: 1 allocations shown to the peers, 0 "
                                       "of theirs mapped; 7 calls without scratch, 0 through it"));
    ck_assert_ptr_nonnull(strstr(text, "tma_ipc"));
}
END_TEST

/* Ranks of one process use a peer's buffer at its own address. This needs peer access, which does
 * not cover memory of a pool: a kernel that accessed it would end the program. So peers cannot use
 * memory of a pool. */
START_TEST(test_memory_of_pools_has_no_place_here)
{
    fake_memory.no_handles = true;
    ck_assert(call(0, place[0], place[0])->at_send == 0);
    fake_memory.no_handles = false;
    ck_assert(call(0, place[0], place[0])->at_send == 0);
    ck_assert(call(1, place[1], place[1])->at_send == ar_ipc_place(1, 0));
}
END_TEST

static const char *kernel_of(int coll, size_t count, ncclDataType_t dtype)
{
    struct symtuner_ar_plan plan = {.size = sizeof plan};

    ck_assert_int_eq(symtuner_ar_query_coll(coll, place[0], place[0] + (1ull << 38), count, dtype,
                                            ncclSum, pair[0], &plan),
                     ncclSuccess);
    return plan.kernel;
}

/* Where the program says that its calls run alone, as JAX does, the table chooses tma_ipc for long
 * messages. */
START_TEST(test_the_table_takes_it_alone)
{
    struct symtuner_ar_config config = small();
    char text[8192];

    drop_pair();
    setenv("SYMTUNER_AR_IPC", "1", 1);
    config.beside = SYMTUNER_AR_ALONE;
    ck_assert_int_eq(symtuner_ar_create_local(pair, devices, 2, &config), ncclSuccess);
    /* the message has 12 MiB */
    ck_assert_str_ne(kernel_of(AR_ALL_REDUCE, 3 << 20, ncclFloat32), "tma_ipc");
    ck_assert_str_eq(kernel_of(AR_ALL_REDUCE, (3 << 20) + 1, ncclFloat32), "tma_ipc");
    ck_assert_str_eq(kernel_of(AR_ALL_REDUCE, 1 << 26, ncclFloat32), "tma_ipc");
    ck_assert_str_ne(kernel_of(AR_ALL_REDUCE, 1 << 26, ncclInt32), "tma_ipc");
    /* each part has 8 MiB */
    ck_assert_str_eq(kernel_of(AR_ALL_GATHER, 1 << 21, ncclInt32), "tma_ipc");
    ck_assert_str_ne(kernel_of(AR_ALL_GATHER, 1 << 20, ncclInt32), "tma_ipc");
    ck_assert_str_eq(kernel_of(AR_REDUCE_SCATTER, 1 << 22, ncclFloat32), "tma_ipc");
    ck_assert_str_ne(kernel_of(AR_REDUCE_SCATTER, 1 << 21, ncclFloat32), "tma_ipc");
    symtuner_ar_describe(pair[0], text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "tma_ipc      at most   8 blocks of  384, sum or avg of "
                                       "f32, f16 or bf16, not registered  ("));
    ck_assert_ptr_null(strstr(text, "unless alone"));
}
END_TEST

/* ---- processes ------------------------------------------------------------------------------- */

START_TEST(test_processes_map_by_handles)
{
    call(0, place[0], place[0]);
    call(1, place[1], place[1]);
    call(0, place[0], place[0]);
    ck_assert(pair[0]->ipc != NULL);
    ck_assert_int_eq(fake_memory.handles, 2);
    ck_assert_int_eq(fake_memory.opened, 2);
    ck_assert_ptr_eq(fake.launch[fake.launches - 1].args.ipc->base[1][0], place[1]);
}
END_TEST

START_TEST(test_memory_of_pools_has_no_place)
{
    fake_memory.no_handles = true;
    for (int i = 0; i < 3; i++)
        ck_assert(call(0, place[0], place[0])->at_send == 0);
    /* the library asks CUDA for only one handle per allocation */
    ck_assert_int_eq(fake_memory.handles, 1);
}
END_TEST

/* [r]: the address that rank r passes as config.memory. If the peers cannot map one rank's memory,
 * no rank maps anything. */
static const void *memory_of[2];

static void create_with_memory(int rank)
{
    struct symtuner_ar_config config = small();
    ncclComm_t comm = (ncclComm_t)(uintptr_t)(rank + 1);

    fake_pid = 1000 + rank;
    config.timeout_ms = 5000;
    config.memory = memory_of[rank];
    ck_assert_int_eq(symtuner_ar_create(&of_rank[rank], &comm, 1, &config), ncclSuccess);
}

START_TEST(test_memory_that_cannot_be_mapped_on_one_rank)
{
    fake_nccl_threads(destroy_in_process);
    for (int odd = 0; odd < 2; odd++) {
        for (int r = 0; r < 2; r++)
            memory_of[r] = place[r] + 4096;
        if (odd)
            memory_of[1] = place[1] - 4096; /* the driver does not know this memory */
        fake_nccl_reset(2);
        capture_stderr();
        fake_nccl_threads(create_with_memory);
        said = captured_stderr();
        ck_assert((strstr(said, "SYMTUNER_AR_IPC=1 has no effect: other processes cannot map the "
                                "memory of this program") != NULL) == odd);
        for (int r = 0; r < 2; r++)
            ck_assert((of_rank[r]->ipc == NULL) == odd);
        if (!odd)
            fake_nccl_threads(destroy_in_process);
    }
}
END_TEST

START_TEST(test_a_failed_mapping_is_told_once)
{
    call(0, place[0], place[0]);
    fake_memory.no_open = true;
    capture_stderr();
    for (int i = 0; i < 2; i++) { /* the second time there is a new allocation */
        ck_assert_ptr_null(call(1, place[1], place[1])->ipc->base[0][i]);
        fake_allocation(place[0], 4 * BYTES, 0);
        call(0, place[0], place[0]);
    }
    fake_memory.no_open = false;
    /* the third mapping works */
    ck_assert_ptr_eq(call(1, place[1], place[1])->ipc->base[0][2], place[0]);
    said = captured_stderr();
    for (int r = 0; r < 2; r++) {
        static const char *const texts[] = {"rank 0 cannot map memory of rank 1",
                                            "rank 1 cannot map memory of rank 0"};

        ck_assert_ptr_nonnull(strstr(said, texts[r]));
        ck_assert_ptr_null(strstr(strstr(said, texts[r]) + 1, texts[r]));
    }
}
END_TEST

/* ---- who has SYMTUNER_AR_IPC ----------------------------------------------------------------- */

/* In the all-gather of the settings, rank 1 sends what a rank without SYMTUNER_AR_IPC would
 * send. */
START_TEST(test_all_ranks_must_want_it)
{
    memset(&fake, 0, sizeof fake);
    fake.devices = fake.peers = 2;
    fake.arch = 90;
    fake_nccl_reset(2);
    fake_nccl.keep = CARD;
    fake_nccl_threads(create_in_process);
    fake_nccl_threads(destroy_in_process);
    fake_nccl_reset(2);
    fake_nccl.say = CARD;
    setenv("SYMTUNER_AR_IPC", "1", 1);
    fake_nccl_threads(create_in_process);
    for (int r = 0; r < 2; r++) {
        ck_assert_ptr_null(of_rank[r]->ipc);
        ck_assert_int_eq((int)of_rank[r]->arena[0].layout.half[AR_REGION_IPC], 0);
    }
    drop_processes();
}
END_TEST

static const struct {
    const char *variable, *value;
    bool fits;
} settings[] = {
    {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", false},
    {"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", false},
    {"PYTORCH_ALLOC_CONF", "expandable_segments:True", false},
    {"PYTORCH_ALLOC_CONF", "max_split_size_mb:64,backend:cudaMallocAsync", false},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", false},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "Platform", false},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "vmm", false},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "bfc", true},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "default", true},
};

START_TEST(test_frameworks_may_take_memory_that_cannot_be_mapped)
{
    struct symtuner_ar_config config = small();
    char want[80];

    memset(&fake, 0, sizeof fake);
    fake.devices = fake.peers = 2;
    fake.arch = 90;
    setenv("SYMTUNER_AR_IPC", "1", 1);
    setenv(settings[_i].variable, settings[_i].value, 1);
    capture_stderr();
    ck_assert_int_eq(symtuner_ar_create_local(pair, devices, 2, &config), ncclSuccess);
    said = captured_stderr();
    unsetenv(settings[_i].variable);
    ck_assert(settings[_i].fits == (pair[0]->ipc != NULL));
    if (settings[_i].fits) {
        ck_assert_ptr_null(strstr(said, "SYMTUNER_AR_IPC"));
        drop_pair();
        return;
    }
    ck_assert_int_eq((int)pair[0]->arena[0].layout.half[AR_REGION_IPC], 0);
    ck_assert_ptr_nonnull(strstr(said, "SYMTUNER_AR_IPC=1 has no effect"));
    snprintf(want, sizeof want, " takes with %s=", settings[_i].variable);
    ck_assert_ptr_nonnull(strstr(said, want));
    want_error(symtuner_ar_force(pair[0], "tma_ipc", 0, 0), ncclSuccess, pair[0], "no error");
    want_error(
        symtuner_ar_all_reduce(place[0], place[0], FLOATS, ncclFloat32, ncclSum, pair[0], NULL),
        ncclInvalidUsage, pair[0], "kernel tma_ipc cannot run this call");
    drop_pair();
}
END_TEST

Suite *st_suite_ipc(void)
{
    Suite *s = suite_create("ar_ipc");
    TCase *one = tcase_create("one process"), *two = tcase_create("processes"),
          *who = tcase_create("who");

    tcase_add_checked_fixture(one, make_pair, drop_pair);
    tcase_add_test(one, test_a_place_is_a_number_and_a_distance);
    tcase_add_test(one, test_new_memory_has_a_new_number);
    tcase_add_test(one, test_some_buffers_have_no_place);
    tcase_add_test(one, test_each_call_maps_what_is_there);
    tcase_add_test(one, test_the_mode_of_captures_is_kept);
    tcase_add_test(one, test_a_gather_shows_recv_only);
    tcase_add_test(one, test_scratch_has_room_for_all_blocks);
    tcase_add_test(one, test_numbers_end);
    tcase_add_test(one, test_the_table_takes_it_for_long_calls);
    tcase_add_test(one, test_the_table_takes_it_alone);
    tcase_add_test(one, test_memory_of_pools_has_no_place_here);
    suite_add_tcase(s, one);
    tcase_add_checked_fixture(two, make_processes, drop_processes);
    tcase_add_test(two, test_processes_map_by_handles);
    tcase_add_test(two, test_memory_of_pools_has_no_place);
    tcase_add_test(two, test_memory_that_cannot_be_mapped_on_one_rank);
    tcase_add_test(two, test_a_failed_mapping_is_told_once);
    suite_add_tcase(s, two);
    tcase_add_test(who, test_all_ranks_must_want_it);
    tcase_add_loop_test(who, test_frameworks_may_take_memory_that_cannot_be_mapped, 0,
                        sizeof settings / sizeof settings[0]);
    suite_add_tcase(s, who);
    return s;
}
