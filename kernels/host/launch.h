/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the buffers of a call, and how it is run: in pieces, each by a kernel or by copies. */
#ifndef AR_LAUNCH_H_
#define AR_LAUNCH_H_

#include "kernels/group/handle.h"
#include "kernels/group/operator.h"

/* One call's operator, and its buffers: this rank's, and those of all ranks if the caller passed
 * them.
 */
struct ar_buffers {
    int coll;      /* enum ar_coll */
    uint64_t part; /* bytes of each rank's part; of the message in all-reduce */
    const char *send;
    char *recv;
    const void *const *sends; /* NULL: use the windows */
    void *const *recvs;
    const struct ar_window *from, *to; /* the windows that hold send and recv; NULL: none */
    ncclRedOp_t op;                    /* as the program names it */
    const struct ar_operator *premul;  /* with AR_PREMUL */
};

/* How many parts lie in send, and in recv. */
static inline uint64_t ar_parts_sent(const symtuner_ar *h, int coll)
{
    return coll == AR_REDUCE_SCATTER ? (uint64_t)h->ranks : 1;
}

static inline uint64_t ar_parts_received(const symtuner_ar *h, int coll)
{
    return coll == AR_ALL_GATHER ? (uint64_t)h->ranks : 1;
}

/* Whether peers can use multicast addresses for both buffers. */
static inline bool ar_has_multicast(const struct ar_buffers *b)
{
    return b->sends == NULL && b->from != NULL && b->to != NULL && b->from->multicast != NULL &&
           b->to->multicast != NULL;
}

/* Run ${ask} as ${choice} says, with scratch in ${arena}. */
ncclResult_t ar_pieces_run(symtuner_ar *h, const struct ar_ask *ask, const struct ar_choice *choice,
                           int arena, const struct ar_buffers *b, cudaStream_t stream);

/* Clear ${args} and fill the fields that do not depend on the call. ${arena}: enum
 * ar_arena_kind. */
void ar_args_start(const symtuner_ar *h, int arena, struct ar_args *args);

/* Return the kernel that runs a piece of a call, NULL if there is none. Reads only the fields
 * ranks, bytes, in_align and out_align of ${args}. */
const void *ar_kernel_find(int coll, int family, int reducer, const struct ar_args *args);

/* Load every kernel now. Loading a kernel later, while a peer's kernel spins, would deadlock ranks
 * that share a GPU, and is not allowed in a stream capture. *arch: what the kernels were compiled
 * for, 90 for sm_90. */
cudaError_t ar_kernels_load(int *arch, bool *tma);

/* ar_copy_run runs one piece of an all-reduce with the copy engines, and ar_copy_gather one piece
 * of an all-gather (copy.c). During stream capture, call ar_copy_guard before either of them: if
 * the graph outlives the handle, the guard's kernel stops the replay before any copy runs. */
ncclResult_t ar_copy_guard(symtuner_ar *h, cudaStream_t stream);
ncclResult_t ar_copy_run(symtuner_ar *h, const struct ar_args *args, const void *kernel, int ctas,
                         int threads, cudaStream_t stream);
ncclResult_t ar_copy_gather(symtuner_ar *h, const struct ar_args *args, cudaStream_t stream);

#endif
