/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coll.h - what a call does: an all-reduce by some operator, a reduce-scatter or an all-gather.
 *
 * The size of a call is that of its longer buffer: send of a reduce-scatter, recv of an all-gather.
 */
#ifndef AR_COMPARE_COLL_H_
#define AR_COMPARE_COLL_H_

#include <nccl.h>
#include <stddef.h>

#include "symtuner_ar.h"

enum { OPS = 5 };

struct compare_op {
    const char *name; /* OP in protocol.h */
    int coll;         /* enum symtuner_ar_coll */
    ncclRedOp_t op;
};

extern const struct compare_op compare_ops[OPS];

/* One call: ${op} on ${bytes} bytes. An element has ${size} bytes. */
struct compare_call {
    const struct compare_op *op;
    int ranks;
    ncclDataType_t type;
    size_t size, bytes;
};

/* compare_count returns the count to pass to the call. compare_received returns how many elements
 * the call writes to recv. */
size_t compare_count(const struct compare_call *c);
size_t compare_received(const struct compare_call *c);

/* If all ranks send the same value, the result is a multiple of it. Return the factor. */
int compare_times(const struct compare_call *c);

/* Make the call with NCCL (compare_nccl) or with our library (compare_ours). */
ncclResult_t compare_nccl(const struct compare_call *c, const void *send, void *recv,
                          ncclComm_t comm, cudaStream_t stream);
ncclResult_t compare_ours(const struct compare_call *c, const void *send, void *recv,
                          symtuner_ar *handle, cudaStream_t stream);

#endif
