/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - the arguments that the host passes to every kernel, and the tables of kernels.
 *
 * Kernels see only raw pointers: memory from NCCL windows, peer access or the pinned host mapping
 * is the same peer[] to them.
 */
#ifndef AR_ARGS_H_
#define AR_ARGS_H_

#include "kernels/shared/coll.h"
#include "kernels/shared/dtypes.h"
#include "kernels/shared/ipc.h"
#include "kernels/shared/layout.h"

/* One rank's counters, in its own device memory: they survive graph replay. */
struct ar_state {
    uint64_t epoch;   /* of the next call                                                  */
    uint32_t base;    /* blocks of all earlier calls, modulo 2^32                            */
    uint32_t dead;    /* enum ar_verdict once the rank gave up; then kernels end at once */
    uint32_t arrived; /* blocks of all calls that have read the words above, modulo 2^32 */
    uint32_t pad;
    uint64_t looked; /* ns, when a waiting thread last read the mailbox */
    uint64_t one;    /* 1, which copy engines store as a flag */
};

/* Pinned host words shared with the kernels of one rank. */
struct ar_mailbox {
    uint32_t abort; /* the host writes AR_ABORTED, waiting kernels read it */
    uint32_t error; /* enum ar_verdict; kernels write it */
    uint32_t ipc[2]; /* calls of tma_ipc that went through scratch, and that did not */
};

/* 16-byte words per thread and tile; host and kernel must agree on the length of a tile. */
#define AR_CHUNKED_UNROLL 4
#define AR_PULL_UNROLL    2

/* How a kernel starts: serially; early, overlapping the previous kernel of its stream; or early,
 * and letting the next kernel overlap it as well. */
enum ar_start { AR_SERIAL, AR_EARLY, AR_EARLY_BOTH, AR_STARTS };

/* Why a rank gave up. DESTROYED: only these counters are left of the handle. */
enum ar_verdict { AR_ALIVE, AR_TIMEOUT, AR_ABORTED, AR_OVERLAP, AR_DESTROYED };

/* Fields that kernels read first come first: at launch the constant cache is cold. */
struct ar_args {
    const char *in;
    char *out;
    struct ar_state *state;
    uint64_t bytes;
    uint64_t region; /* offset of half 0 of the region in use                  */
    uint64_t half;   /* bytes of one half; chunked: offset of the gather slots   */
    uint64_t words;  /* in the message (one-shot) or in one slot (two-shot)    */
    uint64_t shard;  /* two-shot, chunked, pull: bytes from shard to shard     */
    int ranks;
    int me;
    int in_align; /* bytes, power of two, at most 16                      */
    int out_align;
    int kind;                 /* AR_KIND(dtype, op)                                     */
    float scale;              /* 1/ranks for avg of floats, else 1                      */
    int staged;               /* chunked: gather through scratch, recv is not mapped    */
    int lag;                  /* chunked: tiles between push and reduce                 */
    char *peer[AR_MAX_RANKS]; /* arena of every rank as this rank maps it   */
    uint64_t tiles;           /* chunked, pull: tiles per block and shard; tma_ipc: per slot */
    uint64_t overlap;         /* enum ar_start                                        */
    uint64_t timeout_ns;
    struct ar_mailbox *mailbox;
    char *dst[AR_MAX_RANKS];       /* zero-copy: every rank's recv                */
    const char *src[AR_MAX_RANKS]; /* pull: every rank's send                     */
    char *multi_dst;               /* NVLS: multicast address of recv and send    */
    const char *multi_src;
    uint32_t stall_ns;  /* test builds: longest pause injected per block        */
    uint64_t stride;    /* reduce-scatter, all-gather: bytes from part to part of the message */
    const void *scalar; /* premul: where this rank's scalar is; NULL: it is the first bytes of */
    uint64_t factor;    /* this */
    struct ar_ipc_map *ipc; /* tma_ipc: what this rank has mapped, and where its buffers lie */
    uint64_t at_send, at_recv; /* places (kernels/shared/ipc.h); 0: peers cannot map this buffer */
};

/* Instances of a kernel: AR_NX takes any number of ranks; AR_N2 and AR_N4 are for 2 and 4 ranks;
 * AR_N*_WHOLE have less code and are for messages of whole words only (kernels/host/table.c). */
enum ar_class { AR_NX, AR_N2, AR_N4, AR_N2_WHOLE, AR_N4_WHOLE, AR_N8_WHOLE, AR_CLASSES };

struct ar_kernel_row {
    const void
        *of[AR_REDUCERS][AR_CLASSES]; /* NULL: use a more general class; in AR_NX: no kernel */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Helpers of the copy-engine schedule: signal the peers, wait for the peers. */
extern const void *const ar_kernel_signal, *const ar_kernel_await;

extern const void *const ar_kernel_probe; /* kernels/choose/probe.h */

#ifdef __cplusplus
}
#endif

#endif
