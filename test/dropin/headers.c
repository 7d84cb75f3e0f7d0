/* SPDX-License-Identifier: Apache-2.0 */
/* headers.c - a part of the test program check-ar. The drop-in does not include NCCL's headers, so
 * this file checks that NCCL's types and numbers are what the drop-in assumes. */
#include <check.h>
#include <nccl.h>

#include "dropin/tally.h"
#include "nccl_abi/base.h"
#include "nccl_abi/calls.h"
#include "symtuner_ar.h"
#include "test/kernels/suites.h"

#define SAME(ours, our_member, theirs, member)                                                     \
    _Static_assert(offsetof(ours, our_member) == offsetof(theirs, member) &&                       \
                       sizeof(((ours *)0)->our_member) == sizeof(((theirs *)0)->member),           \
                   #theirs "." #member)

SAME(struct nccl_abi_id, bytes, ncclUniqueId, internal);
SAME(struct nccl_abi_config, size, ncclConfig_t, size);
SAME(struct nccl_abi_config, blocking, ncclConfig_t, blocking);
SAME(struct nccl_abi_config_27, split_share, ncclConfig_t, splitShare);
SAME(struct nccl_abi_config_27, shrink_share, ncclConfig_t, shrinkShare);
_Static_assert(sizeof(ncclResult_t) == sizeof(nccl_abi_result) &&
                   sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int) &&
                   sizeof(ncclScalarResidence_t) == sizeof(int) &&
                   sizeof(ncclComm_t) == sizeof(void *) && sizeof(ncclWindow_t) == sizeof(void *) &&
                   sizeof(cudaStream_t) == sizeof(void *),
               "what calls pass");

START_TEST(test_numbers)
{
    ck_assert_int_eq(NCCL_ABI_BUILT_IN_OPS, ncclNumOps);
    ck_assert_int_eq(NCCL_ABI_INTERNAL_ERROR, ncclInternalError);
    ck_assert_int_eq(NCCL_ABI_REMOTE_ERROR, ncclRemoteError);
    ck_assert_int_eq(NCCL_ABI_IN_PROGRESS, ncclInProgress);
    ck_assert_int_eq(NCCL_ABI_UNSET, NCCL_CONFIG_UNDEF_INT);
    ck_assert_int_eq(NCCL_ABI_NO_COLOR, NCCL_SPLIT_NOCOLOR);
    ck_assert_int_eq(NCCL_ABI_WINDOW_SYMMETRIC, NCCL_WIN_COLL_SYMMETRIC);
#ifdef NCCL_SUSPEND_MEM
    ck_assert_int_eq(NCCL_ABI_SUSPEND_MEMORY, NCCL_SUSPEND_MEM);
    ck_assert_int_eq(NCCL_ABI_REVOKE_DEFAULT, NCCL_REVOKE_DEFAULT);
#endif
    ck_assert_int_eq(ST_TALLY_ALL_REDUCE, SYMTUNER_AR_ALL_REDUCE);
    ck_assert_int_eq(ST_TALLY_REDUCE_SCATTER, SYMTUNER_AR_REDUCE_SCATTER);
    ck_assert_int_eq(ST_TALLY_ALL_GATHER, SYMTUNER_AR_ALL_GATHER);
}
END_TEST

Suite *st_suite_dropin(void)
{
    Suite *suite = suite_create("ar_dropin");
    TCase *tcase = tcase_create("declarations");

    tcase_add_test(tcase, test_numbers);
    suite_add_tcase(suite, tcase);
    return suite;
}
