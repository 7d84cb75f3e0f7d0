/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.c - symtuner_ar_reserve: make scratch before a call needs it. */
#include "kernels/group/error.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/capture.h"
#include "kernels/scratch/grow.h"

/* Return the arena (part of the scratch) that the call needs, as a bit; 0 if no kernel of ours runs
 * the call. */
static unsigned arena_of_call(const symtuner_ar *h, int coll, uint64_t bytes, int dtype, int op,
                              int mapped)
{
    struct ar_ask ask = {.coll = coll, .bytes = bytes, .dtype = dtype, .op = op};
    struct ar_choice choice;

    ar_grow_ask(h, &ask);
    ask.without = 0; /* count refused arenas, too, so that the caller reports them as an error */
    ar_grow_halves(h, &ask);
    /* In a reduce-scatter no peer writes to recv, so treat recv as not registered (as ask_about in
     * host/call.c does). */
    ask.dst_mapped = mapped && coll != AR_REDUCE_SCATTER;
    ask.src_mapped = ask.registered = mapped;
    if (ar_rules_select(h->rules, &ask, &h->force, &choice) != 0 || choice.family == AR_NCCL)
        return 0;
    return 1u << ar_grow_arena_of(h, &ask, &choice);
}

/* To find out which arenas are needed, reserve() looks up which kernels would run some sample
 * calls. Return whether it needs samples of this type and operator. With rules it needs all.
 * Without rules two sums are enough: of bf16, which can be sent as Lamport words
 * (kernels/shared/layout.h), and of f64, which cannot. */
static bool is_tried(const symtuner_ar *h, int dtype, int op)
{
    return h->rules != NULL || (op == AR_SUM && (dtype == AR_BF16 || dtype == AR_F64));
}

/* Return, as bits, the arenas that calls of ${bytes} need. The samples are calls of all
 * collectives, with registered and with unregistered buffers. */
static unsigned arenas_at(const symtuner_ar *h, uint64_t bytes)
{
    unsigned arenas = 0;

    for (int dtype = 0; dtype < AR_DTYPES; dtype++)
        for (int op = 0; op < AR_OPS; op++)
            for (int i = 0; i < 2 * AR_COLLS && is_tried(h, dtype, op); i++)
                arenas |= arena_of_call(h, i / 2, bytes, dtype, op, i % 2);
    return arenas;
}

static unsigned arenas_up_to(const symtuner_ar *h, uint64_t bytes)
{
    unsigned arenas = 0;

    for (; bytes != 0; bytes /= 2)
        arenas |= arenas_at(h, bytes);
    return arenas;
}

/* Return the arenas that calls of up to ${bytes} need because of a rule. A rule may be for few
 * lengths only, so the longest call of each rule is a sample: it needs the most scratch. But the
 * first rule that covers a call decides it. If rule A comes before rule B and covers the longest
 * calls of B, then the longest call that B decides is just below the shortest call of A. So the
 * length just below the shortest call of each rule is a sample, too. */
static unsigned arenas_of_rules(const symtuner_ar *h, uint64_t bytes)
{
    unsigned arenas = 0;

    for (int i = 0; h->rules != NULL && i < h->rules->count; i++) {
        const struct st_span *span = &h->rules->rule[i].bytes;
        const uint64_t most = span->hi < bytes ? span->hi : bytes;

        if (span->lo <= most && most != 0)
            arenas |= arenas_at(h, most);
        if (span->lo <= bytes && span->lo > 1)
            arenas |= arenas_at(h, span->lo - 1);
    }
    return arenas;
}

static ncclResult_t reserve(symtuner_ar *h, uint64_t bytes)
{
    unsigned arenas =
        arenas_up_to(h, bytes) | arenas_up_to(h, bytes / 4 * 3) | arenas_of_rules(h, bytes);
    ncclResult_t result = ar_status(h);

    for (int a = 0; a < AR_ARENAS && result == ncclSuccess; a++) {
        if ((arenas >> a & 1) == 0)
            continue;
        if (ar_grow_phase(h, a) == AR_OPEN)
            ar_grow_now(h, a, h->timeout_ns);
        if (ar_grow_phase(h, a) == AR_OPEN)
            result = ar_fail(h, ncclRemoteError,
                             "not all ranks came to symtuner_ar_reserve within %llu ms",
                             (unsigned long long)(h->timeout_ns / 1000000));
        else if (ar_grow_phase(h, a) != AR_HERE)
            result = ar_fail(h, ncclSystemError,
                             "no scratch for such messages: a rank lacks memory, or a graph "
                             "captured such a call before");
    }
    return result;
}

ncclResult_t symtuner_ar_reserve(symtuner_ar **handles, int n, size_t bytes)
{
    const uint64_t longest = 1ull << 40;
    ncclResult_t result = ar_handles_of_group(handles, n);
    enum cudaStreamCaptureMode mode;
    int device = -1;

    if (result != ncclSuccess)
        return result;
    cudaGetDevice(&device);
    /* While another thread captures a graph, CUDA lets this thread allocate and copy only in
     * capture mode relaxed. */
    mode = ar_capture_mode(cudaStreamCaptureModeRelaxed);
    for (int i = 0; i < n && result == ncclSuccess; i++)
        if (handles[i]->nodes != NULL)
            result = ar_nodes_reserve(handles[i], bytes);
        else if (handles[i]->gate == NULL && handles[i]->ranks > 1)
            result = reserve(handles[i], bytes < longest ? bytes : longest);
    ar_capture_mode(mode);
    if (device >= 0)
        cudaSetDevice(device);
    return result;
}
