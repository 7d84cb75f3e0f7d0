/* SPDX-License-Identifier: Apache-2.0 */
/* check_operator.c - checks reduction operators that programs create, on a fake CUDA that runs
 * nothing: what the library refuses, what it passes to kernels, and what goes to NCCL. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "symtuner_ar.h"
#include "kernels/group/handle.h"
#include "kernels/group/operator.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/local_group.h"
#include "test/kernels/fake/nccl.h"
#include "test/kernels/suites.h"

static ncclRedOp_t made(symtuner_ar *h, void *scalar, ncclDataType_t dtype,
                        ncclScalarResidence_t residence)
{
    ncclRedOp_t op = ncclSum;

    ck_assert_int_eq(symtuner_ar_op_create_premul_sum(&op, scalar, dtype, residence, h),
                     ncclSuccess);
    return op;
}

static ncclResult_t sum(symtuner_ar *h, ncclRedOp_t op, ncclDataType_t dtype)
{
    return symtuner_ar_all_reduce(memory[1], memory[2], 16, dtype, op, h, NULL);
}

START_TEST(test_bad_operators_are_refused_by_name)
{
    symtuner_ar *h = handles[0];
    ncclRedOp_t op = ncclMax;
    double scalar = 2;

#define CREATE(op, scalar, dtype, residence, h)                                                    \
    symtuner_ar_op_create_premul_sum(op, scalar, (ncclDataType_t)(dtype),                          \
                                     (ncclScalarResidence_t)(residence), h)
    ck_assert_int_eq(CREATE(&op, &scalar, ncclDouble, 1, NULL), ncclInvalidArgument);
    want_error(CREATE(NULL, &scalar, ncclDouble, 1, h), ncclInvalidArgument, h, "op_out is NULL");
    want_error(CREATE(&op, NULL, ncclDouble, 1, h), ncclInvalidArgument, h, "scalar is NULL");
    want_error(CREATE(&op, &scalar, 12, 1, h), ncclInvalidArgument, h, "data type 12");
    want_error(CREATE(&op, &scalar, ncclDouble, 2, h), ncclInvalidArgument, h, "residence 2");
    want_error(CREATE(&op, (char *)&scalar + 4, ncclDouble, ncclScalarDevice, h),
               ncclInvalidArgument, h, "scalar is not aligned to its 8 bytes");
    ck_assert_int_eq(op, ncclMax);
    want_error(sum(h, (ncclRedOp_t)5, ncclDouble), ncclInvalidArgument, h, "operator 5");
    op = made(h, &scalar, ncclDouble, ncclScalarHostImmediate);
    want_error(sum(h, op, ncclFloat), ncclInvalidArgument, h,
               "was created for data type 8, the call has 7");
    ck_assert_int_eq(symtuner_ar_op_destroy(op, NULL), ncclInvalidArgument);
    want_error(symtuner_ar_op_destroy(ncclSum, h), ncclInvalidArgument, h, "operator 0");
    ck_assert_int_eq(symtuner_ar_op_destroy(op, h), ncclSuccess);
    want_error(symtuner_ar_op_destroy(op, h), ncclInvalidArgument, h, "was not created");
    want_error(sum(h, op, ncclDouble), ncclInvalidArgument, h, "unknown");
    ck_assert_int_eq(fake.launches, 0);
#undef CREATE
}
END_TEST

/* The library copies a scalar on the host when the program creates the operator. If the scalar is
 * in device memory, the kernel gets the scalar's address. Both kinds of operators run on the same
 * kernel, so one rank may use one kind and another rank the other. */
START_TEST(test_kernels_get_the_scalar_or_its_address)
{
    symtuner_ar *h = handles[0];
    float scalar = 0.25f;
    ncclRedOp_t host = made(h, &scalar, ncclFloat, ncclScalarHostImmediate);
    ncclRedOp_t device = made(h, memory[3], ncclFloat, ncclScalarDevice);
    const struct ar_args *args;
    float factor;

    ck_assert_int_ne(host, device);
    scalar = 7;
    ck_assert_int_eq(sum(h, host, ncclFloat), ncclSuccess);
    ck_assert_int_eq(sum(h, device, ncclFloat), ncclSuccess);
    ck_assert_int_eq(sum(h, ncclSum, ncclFloat), ncclSuccess);
    ck_assert_int_eq(fake.launches, 3);
    args = &fake.launch[0].args;
    memcpy(&factor, &args->factor, sizeof factor);
    ck_assert_ptr_null(args->scalar);
    ck_assert(factor == 0.25f);
    ck_assert_int_eq(args->kind, AR_KIND(AR_F32, AR_SUM));
    ck_assert_ptr_eq(fake.launch[1].args.scalar, memory[3]);
    ck_assert_ptr_eq(fake.launch[0].kernel, fake.launch[1].kernel);
    ck_assert_ptr_ne(fake.launch[0].kernel, fake.launch[2].kernel);
    /* A new operator may get the number of a destroyed one. The operator ${device} must not
     * change. */
    ck_assert_int_eq(symtuner_ar_op_destroy(host, h), ncclSuccess);
    ck_assert_int_eq(made(h, &scalar, ncclHalf, ncclScalarHostImmediate), host);
    ck_assert_int_eq(sum(h, device, ncclFloat), ncclSuccess);
    ck_assert_ptr_eq(fake.launch[3].args.scalar, memory[3]);
}
END_TEST

/* For registered buffers, every type and both collectives that add: the library must choose a
 * kernel that can multiply by the operator's scalar. If the caller forces a kernel that cannot
 * multiply, the library must refuse the call. */
START_TEST(test_only_kernels_that_multiply_are_chosen)
{
    void *buffers[N] = {memory[0], memory[1], memory[2], memory[3]};
    struct symtuner_ar_plan plan = {.size = sizeof plan};
    symtuner_ar *h = handles[2];
    char *m = memory[2];
    uint64_t scalar = 0;

    ck_assert_int_eq(symtuner_ar_register(handles, buffers, NULL, N, 1 << 20), ncclSuccess);
    h->tma = true;
    for (int i = 0; i < 2 * AR_DTYPES; i++)
        for (size_t count = 1; count < (1u << 16); count *= 2) {
            const int dtype = i / 2, coll = i % 2 ? AR_REDUCE_SCATTER : AR_ALL_REDUCE;
            ncclRedOp_t op = made(h, &scalar, (ncclDataType_t)dtype, ncclScalarHostImmediate);
            int family;

            symtuner_ar_force(h, NULL, 0, 0);
            ck_assert_int_eq(symtuner_ar_query_coll(coll, m, m + (1 << 19), count / 8 + 1,
                                                    (ncclDataType_t)dtype, op, h, &plan),
                             ncclSuccess);
            family = ar_family_by_name(plan.kernel);
            ck_assert_msg((ar_family_needs(family, coll) & AR_NEEDS_UNSCALED) == 0, "%s",
                          plan.kernel);
            ck_assert_int_le(plan.threads, 512);
            ck_assert_ptr_nonnull(strstr(plan.why, "each product is rounded"));
            for (int f = 0; f < AR_FAMILIES; f++) {
                if ((ar_family_needs(f, coll) & AR_NEEDS_UNSCALED) == 0)
                    continue;
                symtuner_ar_force(h, ar_family_name(f), 0, 0);
                want_error(symtuner_ar_query_coll(coll, m, m + (1 << 19), 16, (ncclDataType_t)dtype,
                                                  op, h, &plan),
                           ncclInvalidUsage, h, "cannot run this call");
            }
            ck_assert_int_eq(symtuner_ar_op_destroy(op, h), ncclSuccess);
        }
}
END_TEST

START_TEST(test_a_group_of_one_does_not_multiply)
{
    struct symtuner_ar_config config = small();
    float scalar = 2;
    symtuner_ar *h;

    ck_assert_int_eq(symtuner_ar_create_local(&h, devices, 1, &config), ncclSuccess);
    want_error(sum(h, made(h, &scalar, ncclFloat, ncclScalarHostImmediate), ncclFloat),
               ncclInvalidUsage, h, "one rank");
    symtuner_ar_destroy(&h, 1);
}
END_TEST

/* If the handle has a communicator, the library creates the operator in NCCL, too. NCCL numbers it
 * differently on each rank, so each rank must give NCCL its own number. */
START_TEST(test_nccl_knows_the_operator)
{
    const ncclComm_t comms[] = {(ncclComm_t)1, (ncclComm_t)2};
    struct symtuner_ar_config config = small();
    float scalar = 2;
    ncclRedOp_t op[2], none = ncclSum;
    symtuner_ar *h[2];

    fake_nccl_reset(2);
    ck_assert_int_eq(symtuner_ar_create(h, comms, 2, &config), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        op[r] = made(h[r], &scalar, ncclFloat, ncclScalarHostImmediate);
        ck_assert_int_eq(op[r], 1000 * (r + 1) + r + 1);
        fake.launches = 0;
        ck_assert_int_eq(sum(h[r], op[r], ncclFloat), ncclSuccess);
        ck_assert_int_eq(fake.launches, 1);
        ck_assert_int_eq(sum(h[r], (ncclRedOp_t)5, ncclFloat),
                         ncclSuccess); /* only NCCL knows this operator */
        ck_assert_int_eq(fake.launches, 1);
        ck_assert_int_eq(fake_nccl.reduce_op, 5);
        symtuner_ar_force(h[r], "nccl", 0, 0);
        ck_assert_int_eq(sum(h[r], op[r], ncclFloat), ncclSuccess);
        ck_assert_int_eq(fake_nccl.reduce_op, op[r]);
    }
    ck_assert_int_eq(symtuner_ar_op_destroy(op[0], h[0]), ncclSuccess);
    ck_assert_int_eq(fake_nccl.ops_destroyed, 1);
    fake_nccl.refuses = true;
    ck_assert_int_eq(
        symtuner_ar_op_create_premul_sum(&none, &scalar, ncclFloat, ncclScalarHostImmediate, h[0]),
        ncclInvalidArgument);
    ck_assert_int_eq(none, ncclSum);
    fake_nccl.refuses = false;
    symtuner_ar_destroy(h, 2); /* the program did not destroy the other operator, so it stays in
                                  NCCL */
    ck_assert_int_eq(fake_nccl.ops_destroyed, 1);
}
END_TEST

Suite *st_suite_operator(void)
{
    Suite *s = suite_create("ar_operator");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, test_bad_operators_are_refused_by_name);
    tcase_add_test(t, test_kernels_get_the_scalar_or_its_address);
    tcase_add_test(t, test_only_kernels_that_multiply_are_chosen);
    tcase_add_test(t, test_a_group_of_one_does_not_multiply);
    tcase_add_test(t, test_nccl_knows_the_operator);
    suite_add_tcase(s, t);
    return s;
}
