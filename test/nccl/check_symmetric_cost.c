/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_symmetric_cost.c - checks NCCL's model of symmetric kernels: which kernel it picks, and
 * with how many CTAs.
 *
 * The rows are decisions of NCCL itself: those of 2.27 to 2.30 are from recordings in test/data,
 * those of 2.31.2 and 2.32.3 from NCCL's code on a stub communicator. build/check-corpus checks all
 * that was recorded.
 */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "nccl/model/symmetric_cost.h"
#include "test/suites.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static struct st_sym_query plain(int version, int arch, bool mc, enum symtuner_coll coll, int ranks,
                                 uint64_t bytes)
{
    return (struct st_sym_query){
        .version = version, .coll = coll, .bytes = bytes, .works = 1, .ranks = ranks, .arch = arch,
        .store_mc = mc, .load_mc = mc, .send_window = true, .recv_window = true,
        .tma = arch >= 100 && version >= 23100, .min_ctas = 1, .max_ctas = 64, .allowed = ~0u,
    };
}

static struct st_sym_pick pick(const struct st_sym_query *query)
{
    struct st_sym_pick out;

    ck_assert_msg(st_sym_pick(query, st_sym_mask_call(query), &out), "no kernel for %llu bytes",
                  (unsigned long long)query->bytes);
    return out;
}

#define AR SYMTUNER_ALLREDUCE
#define AG SYMTUNER_ALLGATHER
#define RS SYMTUNER_REDUCESCATTER

static const struct {
    int version, arch, mc;
    enum symtuner_coll coll;
    int ranks;
    uint64_t bytes;
    const char *kernel;
    int ctas;
} known[] = {
    {22809, 90, 0, AR, 2, 1 * KIB, "AllReduce_AGxLL_R", 1},
    {22809, 90, 0, AR, 2, 64 * KIB, "AllReduce_AGxLL_R", 7},
    {22809, 90, 0, AR, 2, 128 * KIB, "AllReduce_RSxLD_AGxST", 3},
    {22809, 90, 0, AR, 2, 2 * MIB, "AllReduce_RSxLD_AGxST", 7},
    {22809, 90, 0, AR, 4, 64 * KIB, "AllReduce_RSxLD_AGxST", 2},
    {22809, 90, 0, AR, 8, 16 * KIB, "AllReduce_AGxLL_R", 6},
    {22707, 90, 0, AR, 8, 16 * KIB, "AllReduce_AGxLL_R", 7},
    {22809, 90, 0, AR, 8, 1 * MIB, "AllReduce_RSxLD_AGxST", 7},
    {22809, 90, 0, AG, 8, 512 * KIB, "AllGather_ST", 9},
    {22809, 90, 0, RS, 8, 512 * KIB, "ReduceScatter_LD", 9},
    {22809, 90, 1, AR, 8, 256 * MIB, "AllReduce_RSxLDMC_AGxSTMC", 2},
    {22809, 90, 1, AG, 4, 256 * MIB, "AllGather_STMC", 4},
    {22809, 90, 1, RS, 2, 256 * MIB, "ReduceScatter_LDMC", 8},
    {22903, 100, 0, AR, 8, 256 * MIB, "AllReduce_RSxLD_AGxST", 13},
    {23007, 100, 1, AR, 8, 256 * MIB, "AllReduce_RSxLDMC_AGxSTMC", 3},
    {23102, 90, 0, AR, 2, 64 * KIB, "AllReduce_AGxLL_R", 8},
    {23102, 90, 0, AR, 2, 128 * KIB, "AllReduce_RSxLD_AGxST", 4},
    {23102, 90, 0, AR, 8, 16 * KIB, "AllReduce_RSxLD_AGxST", 1},
    {23102, 90, 0, AG, 2, 2 * MIB, "AllGather_ST", 10},
    {23102, 90, 1, AR, 8, 4 * MIB, "AllReduce_RSxLDMC_AGxSTMC", 2},
    {23102, 100, 0, AR, 8, 64 * MIB, "AllReduce_RSxTmaLD_AGxTmaST", 14},
    {23102, 100, 0, AG, 8, 16 * MIB, "AllGather_TmaST", 16},
    {23102, 100, 0, RS, 8, 8 * MIB, "ReduceScatter_TmaLD", 14},
    {23102, 100, 1, AG, 8, 256 * MIB, "AllGather_STMC", 4},
    {23203, 90, 1, AG, 8, 4 * MIB, "AllGather_STMC", 2},
    {23203, 90, 1, RS, 8, 4 * MIB, "ReduceScatter_LDMC", 2},
    {23203, 100, 0, AR, 8, 64 * MIB, "AllReduce_RSxTmaLD_AGxTmaST", 14},
};

START_TEST(test_pick_is_that_of_nccl)
{
    struct st_sym_query query = plain(known[_i].version, known[_i].arch, known[_i].mc,
                                      known[_i].coll, known[_i].ranks, known[_i].bytes);
    struct st_sym_pick out = pick(&query);

    ck_assert_str_eq(st_kernel_name(out.kernel), known[_i].kernel);
    /* a row has the count that the model must choose, or the count that NCCL launches, which may be
     * smaller */
    ck_assert_msg(out.price.ctas == known[_i].ctas || out.launched == known[_i].ctas,
                  "row %d: model %d, launched %d, not %d", _i, out.price.ctas, out.launched,
                  known[_i].ctas);
}
END_TEST

START_TEST(test_launch_has_no_more_ctas_than_cells_from_2_28_on)
{
    struct st_sym_query query = plain(22809, 90, false, AR, 8, 4 * KIB);

    query.sym_ctas = 16;
    ck_assert_int_eq(pick(&query).launched, 4);
    query.bytes = 16 * KIB;
    query.sym_ctas = 12;
    ck_assert_int_eq(pick(&query).launched, 8);
    query.version = 22707;
    ck_assert_int_eq(pick(&query).launched, 12);
    query.version = 22809;
    query.bytes = 1 * KIB;
    query.works = 4; /* four calls share the cells of one launch, so no LL kernel can run */
    ck_assert_int_eq(pick(&query).launched, 4);
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "AllReduce_RSxLD_AGxST");
}
END_TEST

START_TEST(test_equal_costs_go_to_the_first_kernel_and_from_2_31_to_the_last)
{
    struct st_sym_query query = plain(22809, 90, true, AG, 8, 64 * MIB);
    struct st_sym_price direct, multicast;

    /* with this count both kernels saturate, so their costs are equal to the last bit */
    query.sym_ctas = 32;
    ck_assert(st_sym_price(&query, ST_KERNEL_AG_ST, &direct));
    ck_assert(st_sym_price(&query, ST_KERNEL_AG_STMC, &multicast));
    ck_assert(direct.cost == multicast.cost);
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "AllGather_ST");
    query.version = 23102;
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "AllGather_STMC");
}
END_TEST

START_TEST(test_min_ctas_cannot_lift_the_multicast_cap_but_sym_ctas_can)
{
    struct st_sym_query query = plain(22809, 90, true, AR, 8, 64 * MIB);

    query.min_ctas = 16;
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "AllReduce_RSxLDMC_AGxSTMC");
    ck_assert_int_eq(pick(&query).launched, 2);
    query.sym_ctas = 24;
    ck_assert_int_eq(pick(&query).launched, 24);
    query.sym_ctas = 1000;
    ck_assert_int_eq(pick(&query).launched, 64);
}
END_TEST

START_TEST(test_registration_decides_which_kernels_may_run)
{
    struct st_sym_query query = plain(22907, 90, false, AG, 8, 1 * MIB);

    query.send_window = false;
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "AllGather_ST");
    query.send_window = true;
    query.recv_window = false;
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "AllGather_LL");
    query.coll = RS;
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "ReduceScatter_LD");
    query.coll = AR;
    ck_assert_str_eq(st_kernel_name(pick(&query).kernel), "AllReduce_AGxLL_R");
    query.works = 2;
    ck_assert_uint_eq(st_sym_mask_call(&query), 0);
    query.works = 1;
    query.version = 22809;
    ck_assert_uint_eq(st_sym_mask_call(&query), 0);
}
END_TEST

START_TEST(test_large_calls_lose_ll_at_2_gib_and_everything_at_64_gib)
{
    struct st_sym_query query = plain(22809, 90, false, AR, 8, 2048 * MIB - 1024);
    unsigned ll = 1u << ST_KERNEL_AR_LL;

    ck_assert(st_sym_mask(&query) & ll);
    query.bytes = 2048 * MIB;
    ck_assert(!(st_sym_mask(&query) & ll) && st_sym_mask(&query));
    query.bytes = 65536 * MIB;
    ck_assert_uint_eq(st_sym_mask(&query), 0);
    query.coll = AG; /* for AllGather the size is that of all ranks together */
    query.bytes = 8192 * MIB - 1024;
    ck_assert(st_sym_mask(&query));
    query.bytes = 8192 * MIB;
    ck_assert_uint_eq(st_sym_mask(&query), 0);
}
END_TEST

START_TEST(test_any_query_gives_a_sane_and_repeatable_pick)
{
    uint64_t seed = 88172645463325252ull;
    int picked = 0;

    for (int i = 0; i < 200000; i++) {
        struct st_sym_query query;
        struct st_sym_pick one, two;
        uint64_t r[4];

        for (int k = 0; k < 4; k++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            r[k] = seed;
        }
        query = plain((int[]){22707, 22809, 22903, 22907, 23007, 23102, 23206}[r[0] % 7],
                      (int[]){80, 89, 90, 100, 120}[r[0] / 7 % 5], r[0] / 64 % 2,
                      (enum symtuner_coll)(SYMTUNER_ALLGATHER + r[1] % 3), 2 + (int)(r[1] / 3 % 71),
                      1 + (r[2] >> (24 + r[2] % 36)));
        query.works = 1 + (int)(r[3] % 4);
        query.min_ctas = 1 + (int)(r[3] / 4 % 20);
        query.max_ctas = query.min_ctas + (int)(r[3] / 128 % 64);
        query.sym_ctas = r[3] / 65536 % 3 ? 0 : (int)(r[3] / 262144 % 70);
        query.send_window = r[3] >> 40 & 1;
        query.recv_window = r[3] >> 41 & 1;
        if (!st_sym_pick(&query, st_sym_mask_call(&query), &one))
            continue;
        picked++;
        t_check(st_sym_pick(&query, st_sym_mask_call(&query), &two) && one.kernel == two.kernel &&
                    one.launched == two.launched && one.price.cost == two.price.cost,
                "pick %d: asked twice, two answers", picked);
        t_check(st_sym_mask_call(&query) >> one.kernel & 1, "pick %d: masked", picked);
        t_check(st_kernel_coll(one.kernel) == query.coll, "pick %d: other collective", picked);
        t_check(one.launched >= 1 && one.launched <= one.price.ctas && one.price.ctas <= 64,
                "pick %d: %d CTAs of %d", picked, one.launched, one.price.ctas);
        t_check(one.price.time_us > 0, "pick %d: takes no time", picked);
        for (int k = 0; k < ST_KERNELS; k++) {
            struct st_sym_price price;

            if (st_sym_mask_call(&query) >> k & 1 &&
                st_sym_price(&query, (enum st_kernel)k, &price))
                t_check(price.cost >= one.price.cost, "pick %d: %d is cheaper", picked, k);
        }
    }
    ck_assert_int_gt(picked, 50000);
}
END_TEST

static const struct {
    int version;
    const char *text;
    enum symtuner_coll coll;
    enum st_sym_kernel_env want;
    uint32_t allowed; /* this is compared only if want is ST_ENV_LIMITS */
} texts[] = {
    {22809, NULL, AR, ST_ENV_UNSET, 0},
    {22809, "^", AR, ST_ENV_UNSET, 0},
    {22809, "AllReduce_AGxLL_R", AR, ST_ENV_LIMITS, 1u << ST_KERNEL_AR_LL},
    /* NCCL distinguishes upper and lower case */
    {22809, "allreduce_agxll_r", AR, ST_ENV_LIMITS, 0},
    {22809, "typo", AR, ST_ENV_LIMITS, 0},
    {22809, "", AR, ST_ENV_LIMITS, 0},
    {23102, "", AR, ST_ENV_UNSET, 0},
    {23102, "typo", AR, ST_ENV_FATAL, 0},
    {23102, "allreduce_agxll_r", AR, ST_ENV_LIMITS, 1u << ST_KERNEL_AR_LL},
    {23102, "allgather:AllGather_LL", AR, ST_ENV_UNSET, 0},
    {23102, "nosuch:AllGather_LL", AR, ST_ENV_FATAL, 0},
    {23102, "allgather:AllGather_LL,AllGather_ST;allreduce:AllReduce_RSxLD_AGxST", AG,
     ST_ENV_LIMITS, 1u << ST_KERNEL_AG_LL | 1u << ST_KERNEL_AG_ST},
    {23102, "^AllReduce_AGxLL_R", AR, ST_ENV_LIMITS, ~(1u << ST_KERNEL_AR_LL)},
};

START_TEST(test_sym_kernel_is_read_as_the_release_does)
{
    uint32_t allowed;

    ck_assert_int_eq(st_sym_kernel_env(st_era_of(texts[_i].version), texts[_i].text, texts[_i].coll,
                                       &allowed),
                     texts[_i].want);
    if (texts[_i].want == ST_ENV_LIMITS)
        ck_assert_uint_eq(allowed, texts[_i].allowed);
}
END_TEST

#define ROWS(array) (int)(sizeof array / sizeof *array)

Suite *symmodel_suite(void)
{
    Suite *suite = suite_create("symmodel");
    TCase *tcase = tcase_create("symmodel");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_pick_is_that_of_nccl, 0, ROWS(known));
    tcase_add_test(tcase, test_launch_has_no_more_ctas_than_cells_from_2_28_on);
    tcase_add_test(tcase, test_equal_costs_go_to_the_first_kernel_and_from_2_31_to_the_last);
    tcase_add_test(tcase, test_min_ctas_cannot_lift_the_multicast_cap_but_sym_ctas_can);
    tcase_add_test(tcase, test_registration_decides_which_kernels_may_run);
    tcase_add_test(tcase, test_large_calls_lose_ll_at_2_gib_and_everything_at_64_gib);
    tcase_add_test(tcase, test_any_query_gives_a_sane_and_repeatable_pick);
    tcase_add_loop_test(tcase, test_sym_kernel_is_read_as_the_release_does, 0, ROWS(texts));
    suite_add_tcase(suite, tcase);
    return suite;
}
