/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - the buffers of a call, and the functions that run the call piece by piece, with
 * kernels or copy engines. */
#ifndef AR_LAUNCH_H_
#define AR_LAUNCH_H_

#include "kernels/group/handle.h"
#include "kernels/group/operator.h"

/* The buffers and the operator of one call. */
struct ar_buffers {
    int coll;      /* enum ar_coll */
    uint64_t part; /* bytes of one part; in an all-reduce the whole message is one part */
    const char *send;
    char *recv;
    const void *const *sends; /* every rank's send (symtuner_ar_all_reduce_at); NULL: not given */
    void *const *recvs;       /* every rank's recv, or NULL */
    const struct ar_window *from, *to; /* the windows that hold send and recv; NULL: none */
    ncclRedOp_t op;                    /* the operator that the program passed */
    const struct ar_operator *premul;  /* our record of ${op} if it is AR_PREMUL, else NULL */
};

/* Return how many parts of the message lie in this rank's send: in a reduce-scatter one for each
 * rank, otherwise one. */
static inline uint64_t ar_parts_sent(const symtuner_ar *h, int coll)
{
    return coll == AR_REDUCE_SCATTER ? (uint64_t)h->ranks : 1;
}

/* Return how many parts of the message lie in this rank's recv: in an all-gather one for each rank,
 * otherwise one. */
static inline uint64_t ar_parts_received(const symtuner_ar *h, int coll)
{
    return coll == AR_ALL_GATHER ? (uint64_t)h->ranks : 1;
}

/* Return whether the call is in place. In a reduce-scatter or an all-gather this means that the
 * shorter buffer lies where this rank's part of the longer buffer is. */
static inline bool ar_in_place(const symtuner_ar *h, int coll, const char *send, const char *recv,
                               uint64_t part)
{
    const uint64_t mine = (uint64_t)h->me * part;

    return send + (coll == AR_REDUCE_SCATTER ? mine : 0) ==
           recv + (coll == AR_ALL_GATHER ? mine : 0);
}

/* Return whether both buffers have multicast addresses. */
static inline bool ar_has_multicast(const struct ar_buffers *b)
{
    return b->sends == NULL && b->from != NULL && b->to != NULL && b->from->multicast != NULL &&
           b->to->multicast != NULL;
}

/* ---- steps of a call (call.c) ---------------------------------------------------------------- */

/* Check the arguments. The error message names the argument that is wrong. */
ncclResult_t ar_call_check(symtuner_ar *h, int coll, const void *send, const void *recv,
                           size_t count, int dtype, int op);

/* The caller has set the collective and the buffers in ${b}. Set the other fields of ${b}, and fill
 * ${ask}. */
void ar_call_ask(const symtuner_ar *h, struct ar_buffers *b, size_t count, int dtype, int op,
                 struct ar_ask *ask);

/* Return why only NCCL can run a call with operator ${op}, or NULL if our kernels may run it. */
const char *ar_call_gate(const symtuner_ar *h, int op);

/* Return into how many pieces the message is cut if the ranks add it up box by box (kernels/nodes),
 * else 0. */
int ar_call_pieces(const symtuner_ar *h, const struct ar_buffers *b, int dtype, int op, char *why,
                   size_t size);

ncclResult_t ar_call_choose(symtuner_ar *h, const struct ar_ask *ask, struct ar_choice *choice);

/* If SYMTUNER_AR_IPC is auto, no kernel is forced, and ar_call_choose chooses kernel tma_ipc for
 * the call, let the ranks agree whether that kernel runs the call, set ask->has_ipc to the result,
 * and set *asked to true. But if symtuner_ar_decide has already chosen tma_ipc for this call, do
 * not ask the ranks again. In every other case only set *asked to false. */
ncclResult_t ar_call_agree(symtuner_ar *h, struct ar_ask *ask, const struct ar_buffers *b,
                           bool *asked);

/* ---------------------------------------------------------------------------------------------- */

/* Run the call ${ask} as ${choice} says. The call uses the scratch of ${arena}. ${order} comes from
 * ar_stream_enter. */
ncclResult_t ar_pieces_run(symtuner_ar *h, struct ar_order *order, const struct ar_ask *ask,
                           const struct ar_choice *choice, int arena, const struct ar_buffers *b,
                           cudaStream_t stream);

/* Clear ${args} and fill the fields that do not depend on the call. ${arena}: enum
 * ar_arena_kind. */
void ar_args_start(const symtuner_ar *h, int arena, struct ar_args *args);

/* Return the kernel that runs a piece of a call, or NULL if there is none. Of ${args} only ranks,
 * bytes, in_align and out_align must be set. */
const void *ar_kernel_find(int coll, int family, int reducer, const struct ar_args *args);

/* Load every kernel now, because CUDA cannot load a kernel during a stream capture. If ranks share
 * a GPU, loading a kernel later could also deadlock: CUDA may wait until the running kernel of one
 * rank ends, and that kernel may wait for a peer's kernel, which is not loaded yet. Set *arch to
 * what the kernels were compiled for (90 for sm_90), and *tma to whether the kernels with TMA can
 * run. */
cudaError_t ar_kernels_load(int *arch, bool *tma);

/* ar_copy_run runs one piece of an all-reduce with the copy engines, and ar_copy_gather one piece
 * of an all-gather (copy.c). During stream capture, call ar_copy_guard before either of them: if
 * the graph outlives the handle, the guard's kernel stops the replay before any copy runs. */
ncclResult_t ar_copy_guard(symtuner_ar *h, cudaStream_t stream);
ncclResult_t ar_copy_run(symtuner_ar *h, const struct ar_args *args, const void *kernel, int ctas,
                         int threads, cudaStream_t stream);
ncclResult_t ar_copy_gather(symtuner_ar *h, const struct ar_args *args, cudaStream_t stream);

/* Call ar_copies_enter before a call submits copies from or to the memory of the peers, and
 * ar_copies_leave after that. Then symtuner_ar_abort waits until the copies have ended (abort.c).
 * ar_copies_enter fails if the handle was aborted; then do not submit the copies. ${captured}: the
 * stream is being captured. */
ncclResult_t ar_copies_enter(symtuner_ar *h);
ncclResult_t ar_copies_leave(symtuner_ar *h, bool captured, cudaStream_t stream);

/* Wait until no thread is in symtuner_ar_abort for ${h}, and the thread that symtuner_ar_abort
 * started, if any, has ended. All this ends within about DRAIN_MS (abort.c) of the abort, unless
 * CUDA blocks. */
void ar_abort_join(symtuner_ar *h);

#endif
