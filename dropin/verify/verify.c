/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/verify/verify.h"

#include <stdlib.h>

#include "dropin/ledger/book.h"
#include "dropin/meet.h"
#include "dropin/verify/compare.h"
#include "dropin/verify/cuda.h"

enum { PATIENCE_MS = 60000 }; /* how long to wait for a rank, which may still compile a program */
enum { ATTRIBUTE_CONTEXT = 1 };

bool st_verify_wanted(struct st_comm *c, const struct st_call *call)
{
    const struct st_cuda *cuda;

    if (!c->meet || c->verified[call->coll] >= st_settings()->verify)
        return false;
    cuda = st_cuda();
    return cuda && !st_cuda_captures(cuda, call->stream);
}

/* Copies of one call's buffers. */
struct copies {
    const struct st_cuda *cuda;
    size_t in, out;            /* sizes of input and result, in bytes */
    uint64_t send;             /* copy of the call's input, on the GPU */
    char *ours, *nccl, *given; /* in host memory: our result, NCCL's result, the input */
};

static bool fetch(const struct copies *k, void *to, const void *from, size_t bytes, void *stream)
{
    return k->cuda->copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, stream) == 0 &&
           k->cuda->wait(stream) == 0;
}

/* Copy the call's input, because a call in place overwrites it. */
static bool keep(struct copies *k, const struct st_call *call)
{
    k->ours = malloc(k->out);
    k->nccl = malloc(k->out);
    k->given = malloc(k->in);
    return k->ours && k->nccl && k->given && k->cuda->alloc(&k->send, k->in) == 0 &&
           k->cuda->copy(k->send, (uint64_t)(uintptr_t)call->send, k->in, call->stream) == 0 &&
           fetch(k, k->given, call->send, k->in, call->stream);
}

static void drop(struct copies *k)
{
    if (k->send)
        k->cuda->free(k->send);
    free(k->ours);
    free(k->nccl);
    free(k->given);
}

static bool restore(const struct copies *k, const struct st_call *call)
{
    return k->cuda->copy((uint64_t)(uintptr_t)call->send, k->send, k->in, call->stream) == 0;
}

static nccl_abi_result both(struct st_comm *c, const struct st_call *call, struct copies *k,
                            st_run *ours, st_run *nccl)
{
    struct st_tally_slot *slot = st_slot();
    const size_t parts = call->coll == ST_TALLY_REDUCE_SCATTER ? (size_t)c->ranks : 1;
    bool ready = k->send != 0, alike;
    double most = ready ? st_compare_most(k->given, call->count * parts, call->dtype) : 0;
    nccl_abi_result result;
    size_t where = 0;

    if (!st_meet_vote(c->meet, ready, &most, PATIENCE_MS)) {
        c->verified[call->coll] = UINT32_MAX; /* a rank lacks memory or is late: stop verifying */
        return ours(c, call);
    }
    /* If our kernels fail, NCCL still runs the call, because the other ranks wait in NCCL's call
     * for this rank. */
    alike = ours(c, call) == NCCL_ABI_SUCCESS &&
            fetch(k, k->ours, call->recv, k->out, call->stream);
    alike = restore(k, call) && alike;
    result = nccl(c, call);
    if (result != NCCL_ABI_SUCCESS)
        return result;
    alike = alike && fetch(k, k->nccl, call->recv, k->out, call->stream);
    if (alike && call->coll == ST_TALLY_ALL_GATHER)
        alike = st_compare_alike(k->ours, k->nccl, k->out, 0, 0, c->ranks, 0, &where);
    else if (alike)
        alike = st_compare_alike(k->ours, k->nccl, call->count, call->dtype, call->op, c->ranks,
                                 most, &where);
    st_book_also(c->book, call->coll, ST_BOOK_VERIFIED, st_call_bytes(c, call));
    if (slot) {
        st_tally_add(slot, &slot->verified);
        if (!alike)
            st_tally_add(slot, &slot->differed);
    }
    if (!alike)
        st_warn_once("%s of %zu elements (type %d, operator %d): our kernels and NCCL differ at "
                     "element %zu; NCCL runs all calls from now on",
                     st_tally_coll_name(call->coll), call->count, call->dtype, call->op, where);
    if (!st_meet_vote(c->meet, alike, &most, PATIENCE_MS)) {
        atomic_store(&c->why, ST_WHY_MISMATCH);
        c->distrusted = true;
    }
    return result;
}

nccl_abi_result st_verify(struct st_comm *c, const struct st_call *call, st_run *ours, st_run *nccl)
{
    struct copies k = {.cuda = st_cuda()};
    size_t one =
        st_call_bytes(c, call) / (call->coll == ST_TALLY_ALL_REDUCE ? 1 : (size_t)c->ranks);
    /* Use capture mode relaxed, in which cuMemAlloc works even while another thread captures a
     * graph in mode global. */
    int mode = ST_CUDA_RELAXED;
    void *context = NULL;
    nccl_abi_result result;

    c->verified[call->coll]++;
    k.in = call->coll == ST_TALLY_REDUCE_SCATTER ? one * (size_t)c->ranks : one;
    k.out = call->coll == ST_TALLY_ALL_GATHER ? one * (size_t)c->ranks : one;
    k.cuda->capture_mode(&mode);
    if (k.cuda->context_of(&context, ATTRIBUTE_CONTEXT, (uint64_t)(uintptr_t)call->recv) == 0 &&
        context && k.cuda->push(context) != 0)
        context = NULL;
    if (!keep(&k, call) && k.send) {
        k.cuda->free(k.send);
        k.send = 0;
    }
    result = both(c, call, &k, ours, nccl);
    drop(&k);
    if (context)
        k.cuda->pop(&context);
    k.cuda->capture_mode(&mode);
    return result;
}
