/* SPDX-License-Identifier: Apache-2.0 */
#include "test/kernels/emulated/call_make.h"

#include <string.h>

#include "kernels/choose/families.h"
#include "kernels/shared/dtypes.h"

bool call_may_multiply(const struct call *c)
{
    return c->coll != AR_ALL_GATHER &&
           (ar_family_needs(ar_family_by_name(c->kernel), c->coll) & AR_NEEDS_UNSCALED) == 0;
}

static ncclResult_t run(const struct call *c, symtuner_ar *handle, ncclRedOp_t op, const char *send,
                        char *recv)
{
    const ncclDataType_t dtype = (ncclDataType_t)c->dtype;

    return c->coll == AR_ALL_REDUCE
               ? symtuner_ar_all_reduce(send, recv, c->count, dtype, op, handle, NULL)
           : c->coll == AR_REDUCE_SCATTER
               ? symtuner_ar_reduce_scatter(send, recv, c->count, dtype, op, handle, NULL)
               : symtuner_ar_all_gather(send, recv, c->count, dtype, handle, NULL);
}

ncclResult_t call_make(const struct call *c, symtuner_ar *handle, int me, const char *send,
                       char *recv)
{
    const bool on_host = (c->salt + me) % 3 == 0;
    uint64_t scalar = 0x5a5a5a5a5a5a5a5a;
    ncclRedOp_t op = (ncclRedOp_t)c->op;
    ncclResult_t result, end;

    if (c->op != AR_PREMUL)
        return run(c, handle, op, send, recv);
    if (on_host)
        values_put_scalar(c, (char *)&scalar, me);
    result = symtuner_ar_op_create_premul_sum(&op, &scalar, (ncclDataType_t)c->dtype,
                                              on_host ? ncclScalarHostImmediate : ncclScalarDevice,
                                              handle);
    if (result != ncclSuccess)
        return result;
    if (on_host)
        memset(&scalar, 0x5a, sizeof scalar);
    else
        values_put_scalar(c, (char *)&scalar, me);
    result = run(c, handle, op, send, recv);
    end = symtuner_ar_op_destroy(op, handle);
    return result == ncclSuccess ? end : result;
}
