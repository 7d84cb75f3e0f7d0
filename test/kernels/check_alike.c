/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_alike.c - checks that ranks may differ in some things: whether a call is in place, how its
 * buffers are aligned, and how much memory the GPU has. These differences must not change which
 * kernel runs, its number of blocks, or its sizes. Otherwise the ranks would wait for each other
 * for ever.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/group/handle.h"
#include "kernels/shared/dtypes.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/suites.h"

enum { RANKS = 4, CALLS = 3000, MOST = 2000 };

static const int devices[RANKS] = {0, 1, 2, 3};

static unsigned draw(unsigned below)
{
    static unsigned state = 20261121;

    state = state * 1664525u + 1013904223u;
    return (state >> 9) % below;
}

/* What must be the same on all ranks in each launch. */
struct deed {
    const void *kernel;
    int ctas, threads, lag, staged;
    uint64_t bytes, shard, tiles, region, half, words;
};

static int deeds_since(int first, struct deed *deeds)
{
    int n = fake.launches - first;

    ck_assert_int_le(n, MOST);
    memset(deeds, 0, (size_t)n * sizeof *deeds);
    for (int i = 0; i < n; i++) {
        const struct fake_launch *l = &fake.launch[(first + i) % FAKE_LAUNCHES];
        const struct ar_args *a = &l->args;
        /* The kernel "copy" makes two launches. The second one covers only the rank's own shard, so
         * its bytes and region may differ between ranks. Set them to 0, so that they compare as
         * equal. */
        bool own = a->bytes != fake.launch[first % FAKE_LAUNCHES].args.bytes;

        deeds[i] = (struct deed){
            l->kernel, l->ctas,  l->threads,          a->lag,  a->staged, own ? 0 : a->bytes,
            a->shard,  a->tiles, own ? 0 : a->region, a->half, a->words};
    }
    return n;
}

static char *address(int rank, int buffer, unsigned shift)
{
    return (char *)((uintptr_t)1 << 42) + ((uintptr_t)rank << 36) + ((uintptr_t)buffer << 35) +
           shift;
}

static void make_group(symtuner_ar **h, int ranks, int transport)
{
    struct symtuner_ar_config config = {.size = sizeof config, .transport = transport};
    static const struct ar_probe figures[] = {
        {0, 0, 0}, {2700, 36000, 2700}, {25000, 0, 25000}, {9000, 2000, 40000}};
    struct ar_probe probe = figures[draw(4)];

    memset(&fake, 0, sizeof fake);
    fake.devices = RANKS;
    fake.peers = 1;
    fake.small = (int)draw(RANKS + 1);
    setenv("SYMTUNER_AR_LINKS", draw(2) ? "pcie" : "nvlink", 1);
    setenv("SYMTUNER_AR_PROBE", "0", 1);
    ck_assert_int_eq(symtuner_ar_create_local(h, devices, ranks, &config), ncclSuccess);
    unsetenv("SYMTUNER_AR_LINKS");
    unsetenv("SYMTUNER_AR_PROBE");
    for (int r = 0; r < ranks; r++)
        h[r]->probe = probe;
}

static void call_all(symtuner_ar **h, int ranks, bool lists)
{
    static struct deed deeds[2][MOST];
    const void *sends[RANKS];
    void *recvs[RANKS];
    int dtype = (int)draw(AR_DTYPES), op = (int)draw(AR_OPS), n[2];
    unsigned size = (unsigned)ar_dtype_bytes(dtype);
    size_t count = (1 + draw(1 << 10)) << draw(16);

    for (int r = 0; r < ranks; r++) {
        sends[r] = address(r, 0, draw(2) ? 0 : size * draw(16));
        recvs[r] = draw(2) ? (void *)(uintptr_t)sends[r] : address(r, 1, size * draw(2));
    }
    for (int r = 0; r < ranks; r++) {
        int first = fake.launches;
        ncclResult_t result =
            lists ? symtuner_ar_all_reduce_at(sends, recvs, count, (ncclDataType_t)dtype,
                                              (ncclRedOp_t)op, h[r], NULL)
                  : symtuner_ar_all_reduce(sends[r], recvs[r], count, (ncclDataType_t)dtype,
                                           (ncclRedOp_t)op, h[r], NULL);

        ck_assert_msg(result == ncclSuccess, "%s", symtuner_ar_error(h[r]));
        n[r != 0] = deeds_since(first, deeds[r != 0]);
        ck_assert_int_eq(n[r != 0], n[0]);
        ck_assert_msg(memcmp(deeds[0], deeds[r != 0], (size_t)n[0] * sizeof **deeds) == 0,
                      "%s: rank %d of %d does otherwise than rank 0: %zu of type %d, op %d",
                      lists ? "lists" : "unregistered", r, ranks, count, dtype, op);
    }
}

START_TEST(test_what_may_differ_does_not_reach_the_choice)
{
    symtuner_ar *h[RANKS];

    for (int i = 0; i < CALLS; i++) {
        int ranks = 2 + (int)draw(RANKS - 1);

        make_group(h, ranks, draw(4) ? SYMTUNER_AR_PEER : SYMTUNER_AR_HOST);
        for (int k = 0; k < 20; k++, i++)
            call_all(h, ranks, draw(2));
        symtuner_ar_destroy(h, ranks);
    }
}
END_TEST

/* If one rank refuses a list of buffers, all ranks must refuse it. Otherwise the other ranks would
 * launch the call and wait for the rank that refused. */
START_TEST(test_a_bad_list_is_refused_by_all)
{
    const void *sends[RANKS];
    void *recvs[RANKS];
    symtuner_ar *h[RANKS];

    make_group(h, RANKS, SYMTUNER_AR_PEER);
    for (int r = 0; r < RANKS; r++) {
        sends[r] = address(r, 0, 0);
        recvs[r] = address(r, 1, r == 2 ? 2 : 0);
    }
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(symtuner_ar_all_reduce_at(sends, recvs, 8, ncclFloat, ncclSum, h[r], NULL),
                         ncclInvalidArgument);
        ck_assert_str_eq(symtuner_ar_error(h[r]),
                         "rank 2: recv is not aligned to its 4-byte elements");
    }
    ck_assert_int_eq(fake.launches, 0);
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

/* The kernel pull_one needs two different buffers on every rank. If one rank passes the same buffer
 * as send and recv, all ranks must refuse pull_one. */
START_TEST(test_one_rank_in_place_counts_for_all)
{
    const void *sends[RANKS];
    void *recvs[RANKS];
    symtuner_ar *h[RANKS];

    make_group(h, RANKS, SYMTUNER_AR_PEER);
    for (int same = -1; same < RANKS; same++) { /* the rank that is in place; -1: none */
        for (int r = 0; r < RANKS; r++) {
            sends[r] = address(r, 0, 0);
            recvs[r] = address(r, r != same, 0);
        }
        for (int r = 0; r < RANKS; r++) {
            symtuner_ar_force(h[r], "pull_one", 0, 0);
            ck_assert_int_eq(
                symtuner_ar_all_reduce_at(sends, recvs, 4096, ncclFloat, ncclSum, h[r], NULL),
                same < 0 ? ncclSuccess : ncclInvalidUsage);
        }
    }
    ck_assert_int_eq(fake.launches, RANKS);
    symtuner_ar_destroy(h, RANKS);
}
END_TEST

Suite *st_suite_alike(void)
{
    Suite *s = suite_create("ar_alike");
    TCase *t = tcase_create("choice");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_what_may_differ_does_not_reach_the_choice);
    tcase_add_test(t, test_a_bad_list_is_refused_by_all);
    tcase_add_test(t, test_one_rank_in_place_counts_for_all);
    suite_add_tcase(s, t);
    return s;
}
