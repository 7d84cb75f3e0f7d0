/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operator.h - the operators that programs create for a handle. Such an operator multiplies each
 * rank's numbers by that rank's scalar, and adds up the products.
 */
#ifndef AR_OPERATOR_H_
#define AR_OPERATOR_H_

#include "kernels/group/handle.h"

struct ar_operator {
    int op; /* number of the operator: NCCL's number, or in a local group one of our own */
    int dtype;
    const void *scalar; /* device memory with the scalar; NULL: the scalar is in ${factor} */
    uint64_t factor;    /* its first bytes are the scalar, if ${scalar} is NULL */
};

/* Return the operator with number ${op}, or NULL if no such operator was created for ${h}. */
const struct ar_operator *ar_operator_find(const symtuner_ar *h, int op);

#endif
