/* SPDX-License-Identifier: Apache-2.0 */
/* operator.c - operators of the fake NCCL (nccl.h). As in NCCL, the number of an operator differs
 * between communicators. These numbers are far from those of the built-in operators. */
#include <stdint.h>

#include "test/kernels/fake/nccl.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm)
{
    (void)scalar, (void)type, (void)residence;
    if (fake_nccl.refuses)
        return ncclInvalidArgument;
    *op = (ncclRedOp_t)(1000 * (int)(uintptr_t)comm + ++fake_nccl.ops_made);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    if ((int)op / 1000 != (int)(uintptr_t)comm)
        return ncclInvalidArgument;
    fake_nccl.ops_destroyed++;
    return ncclSuccess;
}
