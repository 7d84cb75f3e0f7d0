/* SPDX-License-Identifier: Apache-2.0 */
/* operator.c - makes the operators that programs create for a handle.
 *
 * If the handle has a communicator, NCCL also makes the operator, because NCCL runs some of the
 * calls. Our operator gets NCCL's number, so that the program can pass it to us and to NCCL. */
#include "kernels/group/operator.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/group/nccl_wait.h"

const struct ar_operator *ar_operator_find(const symtuner_ar *h, int op)
{
    for (int i = 0; i < h->op_count; i++)
        if (h->ops[i].op == op)
            return &h->ops[i];
    return NULL;
}

/* Make room for one more operator. Called before NCCL makes the operator, so that nothing can fail
 * afterwards. */
static ncclResult_t reserve(symtuner_ar *h)
{
    struct ar_operator *more = realloc(h->ops, (size_t)(h->op_count + 1) * sizeof *h->ops);

    if (more == NULL)
        return ar_fail(h, ncclSystemError, "no memory for an operator");
    h->ops = more;
    return ncclSuccess;
}

static ncclResult_t wait_for_nccl(symtuner_ar *h, ncclResult_t result, const char *call)
{
    char why[AR_WHY];

    result = ar_comm_wait(h->nccl, &h->endpoint, result, call, why);
    return result == ncclSuccess ? result : ar_fail(h, result, "%s", why);
}

ncclResult_t symtuner_ar_op_create_premul_sum(ncclRedOp_t *op_out, void *scalar,
                                              ncclDataType_t dtype, ncclScalarResidence_t residence,
                                              symtuner_ar *h)
{
    static const char call[] = "ncclRedOpCreatePreMulSum";
    const int size = ar_dtype_bytes((int)dtype);
    struct ar_operator made = {.op = AR_OPS, .dtype = (int)dtype};
    ncclRedOp_t op = ncclNumOps;
    ncclResult_t result;

    if (h == NULL)
        return ar_fail_null();
    if (op_out == NULL || scalar == NULL)
        return ar_fail(h, ncclInvalidArgument, "%s is NULL", op_out == NULL ? "op_out" : "scalar");
    if (size == 0)
        return ar_fail(h, ncclInvalidArgument, "data type %d is unknown", (int)dtype);
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        return ar_fail(h, ncclInvalidArgument, "residence %d is unknown", (int)residence);
    if ((uintptr_t)scalar % (size_t)size != 0 && residence == ncclScalarDevice)
        return ar_fail(h, ncclInvalidArgument, "scalar is not aligned to its %d bytes", size);
    result = reserve(h);
    if (result == ncclSuccess && h->comm != NULL)
        result = wait_for_nccl(h, ncclInProgress, call);
    if (result == ncclSuccess && h->comm != NULL)
        result = wait_for_nccl(
            h, h->nccl->ncclRedOpCreatePreMulSum(&op, scalar, dtype, residence, h->comm), call);
    if (result != ncclSuccess)
        return result;
    while (h->comm == NULL && ar_operator_find(h, made.op) != NULL)
        made.op++;
    if (h->comm != NULL)
        made.op = (int)op;
    if (residence == ncclScalarDevice)
        made.scalar = scalar;
    else
        memcpy(&made.factor, scalar, (size_t)size);
    h->ops[h->op_count++] = made;
    *op_out = (ncclRedOp_t)made.op;
    return ncclSuccess;
}

ncclResult_t symtuner_ar_op_destroy(ncclRedOp_t op, symtuner_ar *h)
{
    static const char call[] = "ncclRedOpDestroy";
    const struct ar_operator *found;
    ncclResult_t result = ncclSuccess;

    if (h == NULL)
        return ar_fail_null();
    found = ar_operator_find(h, (int)op);
    if (found == NULL)
        return ar_fail(h, ncclInvalidArgument, "operator %d was not created for this handle",
                       (int)op);
    h->ops[found - h->ops] = h->ops[--h->op_count];
    if (h->comm != NULL)
        result = wait_for_nccl(h, ncclInProgress, call);
    if (h->comm != NULL && result == ncclSuccess)
        result = wait_for_nccl(h, h->nccl->ncclRedOpDestroy(op, h->comm), call);
    return result;
}
