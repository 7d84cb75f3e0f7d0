/* SPDX-License-Identifier: Apache-2.0 */
/* check_local.c - checks the scratch memory of groups from symtuner_ar_create_local: how small it
 * is at first, and that the first rank that needs more makes it for all ranks. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host/destroy.h"
#include "kernels/scratch/arena.h"
#include "kernels/scratch/grow.h"
#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/scratch/ranks.h"
#include "test/kernels/suites.h"

START_TEST(test_short_calls_need_little_scratch)
{
    static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[AR_MAX_RANKS];
    int gpus[AR_MAX_RANKS];

    memset(&fake, 0, sizeof fake);
    fake.devices = AR_MAX_RANKS;
    fake.peers = 1;
    for (int n = 2; n <= AR_MAX_RANKS; n++) {
        for (int r = 0; r < n; r++)
            gpus[r] = r;
        ck_assert_int_eq(symtuner_ar_create_local(h, gpus, n, &config), ncclSuccess);
        ck_assert_uint_le(ar_arena_bytes(h[0], 0, 1), 16 << 20);
        for (int type = 0; type < AR_DTYPES; type++)
            for (int op = 0; op < AR_OPS; op++)
                for (size_t bytes = 8; bytes <= 1 << 20; bytes *= 2) {
                    char *p = (char *)((uintptr_t)1 << 42);
                    int first = fake.launches;

                    must(symtuner_ar_all_reduce(p, p, bytes / (size_t)sizes[type],
                                                (ncclDataType_t)type, (ncclRedOp_t)op, h[0],
                                                NULL) == ncclSuccess);
                    must(fake.launches - first == 1); /* the call runs in one piece */
                }
        for (int a = AR_ARENA_WORDS; a < AR_ARENAS; a++) {
            ck_assert_ptr_null(h[0]->arena[a].memory);
            ck_assert_int_eq(ar_grow_phase(h[0], a), AR_OPEN);
        }
        symtuner_ar_destroy(h, n);
    }
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

START_TEST(test_reserve_makes_what_calls_of_that_length_need)
{
    static const struct {
        size_t bytes;
        int words, bulk;
        const char *rule;
    } row[] = {{1, AR_OPEN, AR_OPEN, ""},
               {1 << 20, AR_OPEN, AR_OPEN, ""},
               {3 << 20, AR_HERE, AR_OPEN, ""},
               {13 << 20, AR_HERE, AR_HERE, ""},
               {1 << 20, AR_OPEN, AR_HERE, "kernels dtype=f32 kernel=chunked"},
               {1 << 20, AR_OPEN, AR_HERE, "kernels op=max kernel=chunked"},
               {1 << 20, AR_OPEN, AR_HERE, "kernels bytes=300000..300000 kernel=chunked"},
               /* the first rule takes the longest calls away from the second one */
               {1 << 20, AR_OPEN, AR_HERE,
                "kernels bytes=300100..300200 kernel=one_ll8;"
                "kernels bytes=300000..300200 kernel=chunked"},
               {299999, AR_OPEN, AR_OPEN, "kernels bytes=300000..300200 kernel=chunked"}};
    const int gpus[] = {0, 1, 2};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[RANKS];

    memset(&fake, 0, sizeof fake);
    fake.devices = RANKS;
    fake.peers = 1;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        setenv("SYMTUNER_RULE", row[i].rule, 1);
        ck_assert_int_eq(symtuner_ar_create_local(h, gpus, RANKS, &config), ncclSuccess);
        want_error(symtuner_ar_reserve(h, RANKS - 1, 1), ncclInvalidUsage, h[0], "local group");
        ck_assert_int_eq(symtuner_ar_reserve(h, RANKS, row[i].bytes), ncclSuccess);
        ck_assert_int_eq(ar_grow_phase(h[2], AR_ARENA_WORDS), row[i].words);
        ck_assert_int_eq(ar_grow_phase(h[2], AR_ARENA_BULK), row[i].bulk);
        symtuner_ar_destroy(h, RANKS);
    }
    want_error(symtuner_ar_reserve(NULL, 1, 1), ncclInvalidArgument, NULL, "handles is NULL");
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

static void make_local(void)
{
    const int gpus[] = {0, 1, 2};
    struct symtuner_ar_config config = small();
    symtuner_ar *h[RANKS];

    config.bulk_bytes = 8 << 20;
    memset(&fake, 0, sizeof fake);
    fake.devices = RANKS;
    fake.peers = 1;
    fake_nccl_reset(RANKS);
    ck_assert_int_eq(symtuner_ar_create_local(h, gpus, RANKS, &config), ncclSuccess);
    for (int r = 0; r < RANKS; r++)
        at[r].handle = h[r];
}

static void end_local(void)
{
    symtuner_ar *h[RANKS] = {at[0].handle, at[1].handle, at[2].handle};

    symtuner_ar_destroy(h, RANKS);
    ck_assert_int_eq(fake.live, 0);
}

START_TEST(test_the_first_rank_of_a_local_group_grows_all)
{
    int device = -1;

    make_local();
    call_one(1, LONG);
    cudaGetDevice(&device);
    ck_assert_int_eq(device, 1);
    phases(AR_OPEN, AR_HERE);
    for (int r = 0; r < RANKS; r++)
        for (int p = 0; p < RANKS; p++)
            ck_assert_ptr_eq(at[r].handle->arena[AR_ARENA_BULK].peer[p],
                             at[p].handle->arena[AR_ARENA_BULK].memory);
    end_local();
    make_local();
    for (int i = 0; i < 20; i++) /* the threads of all ranks call at the same time */
        calls((int[]){SHORT, LONG, MIDDLE, LONG, 0});
    phases(AR_HERE, AR_HERE);
    end_local();
}
END_TEST

/* Make the first, second, ... CUDA call fail while the scratch memory grows. */
START_TEST(test_a_local_group_that_cannot_grow_works_on)
{
    int failures = 0, live;

    setenv("SYMTUNER_LOG", "off", 1);
    for (int call = 1;; call++) {
        make_local();
        live = fake.live;
        fake.fail_at = fake.calls + call;
        call_one(2, MIDDLE);
        ck_assert_int_eq(at[2].result, ncclSuccess);
        fake.fail_at = 0;
        failures += ar_grow_phase(at[0].handle, AR_ARENA_WORDS) == AR_REFUSED;
        if (ar_grow_phase(at[0].handle, AR_ARENA_WORDS) == AR_HERE)
            break;
        phases(AR_REFUSED, AR_OPEN);
        ck_assert_int_gt(calls((int[]){MIDDLE, 0}), 1);
        end_local();
    }
    ck_assert_int_ge(failures, 3 * RANKS);
    ck_assert_int_eq(fake.live, live + RANKS);
    end_local();
    unsetenv("SYMTUNER_LOG");
}
END_TEST

START_TEST(test_a_full_gpu_stops_the_growth)
{
    const char *text;
    int live;

    make_local();
    live = fake.live;
    fake.full = 2;
    capture_stderr();
    call_one(0, MIDDLE);
    text = captured_stderr();
    ck_assert_msg(strstr(text, " MiB of scratch, but GPU 1 has 5 MiB free; long messages are cut"),
                  "%s", text);
    phases(AR_REFUSED, AR_OPEN);
    ck_assert_int_eq(fake.live, live);
    ck_assert_int_eq(at[0].result, ncclSuccess);
    fake.full = 0;
    ck_assert_int_gt(calls((int[]){MIDDLE, 0}), 1);
    end_local();
}
END_TEST

START_TEST(test_a_graph_keeps_the_scratch_that_it_was_captured_with)
{
    char *old;
    symtuner_ar *h[RANKS];
    int live;

    make_local();
    fake.capture = 5;
    call_one(0, SHORT);
    fake.capture = 0;
    old = fake.launch[fake.launches - 1].args.peer[1];
    calls((int[]){LONG, SHORT, 0});
    ck_assert_ptr_eq(at[1].handle->arena[AR_ARENA_SMALL].peer[1], old);
    live = fake.live;
    for (int r = 0; r < RANKS; r++)
        h[r] = at[r].handle;
    ck_assert_int_eq(symtuner_ar_destroy(h, RANKS), ncclSuccess);
    ck_assert_int_eq(fake.live, live); /* the graph keeps all arenas */
    fake_graph_gone(5);
    ar_deferred_free(~UINT64_C(0));
    ck_assert_int_eq(fake.live, 0);
}
END_TEST

Suite *st_suite_grow_local(void)
{
    Suite *suite = suite_create("ar_grow_local");
    TCase *t = tcase_create("local");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_short_calls_need_little_scratch);
    tcase_add_test(t, test_reserve_makes_what_calls_of_that_length_need);
    tcase_add_test(t, test_the_first_rank_of_a_local_group_grows_all);
    tcase_add_test(t, test_a_local_group_that_cannot_grow_works_on);
    tcase_add_test(t, test_a_full_gpu_stops_the_growth);
    tcase_add_test(t, test_a_graph_keeps_the_scratch_that_it_was_captured_with);
    suite_add_tcase(suite, t);
    return suite;
}
