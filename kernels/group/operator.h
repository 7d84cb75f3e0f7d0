/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operator.h - the operators that programs create for a handle. Such an operator multiplies each
 * rank's numbers by that rank's scalar, and adds up the products.
 */
#ifndef AR_OPERATOR_H_
#define AR_OPERATOR_H_

#include "kernels/group/handle.h"

struct ar_operator {
    int op; /* NCCL's number of it; in local groups one of ours */
    int dtype;
    const void *scalar; /* device memory, read by the kernel; NULL: ${factor} holds it */
    uint64_t factor;    /* the scalar in its first bytes */
};

/* Return the operator of number ${op}, or NULL if it was not created for ${h}. */
const struct ar_operator *ar_operator_find(const symtuner_ar *h, int op);

#endif
