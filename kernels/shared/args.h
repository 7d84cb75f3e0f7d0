/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - the arguments that the host passes to every kernel, and the tables of kernels.
 *
 * Kernels see only raw pointers. Whether peer[] points to NCCL windows, to memory with peer access
 * or to pinned host memory makes no difference to them.
 */
#ifndef AR_ARGS_H_
#define AR_ARGS_H_

#include "kernels/shared/coll.h"
#include "kernels/shared/dtypes.h"
#include "kernels/shared/ipc.h"
#include "kernels/shared/layout.h"

/* One rank's counters. They lie in GPU memory, so that kernels of replayed graphs count, too. */
struct ar_state {
    uint64_t epoch;   /* number of the next call                                             */
    uint32_t base;    /* number of blocks of all earlier calls, modulo 2^32                  */
    uint32_t dead;    /* enum ar_verdict: if not AR_ALIVE, kernels end at once               */
    uint32_t arrived; /* number of blocks that have read the members above, modulo 2^32      */
    uint32_t pad;
    uint64_t looked; /* time in ns at which a waiting thread last read the mailbox */
    uint64_t one;    /* always 1; copy engines copy it to set a flag */
};

/* Words in pinned host memory, which the host shares with the kernels of one rank. */
struct ar_mailbox {
    uint32_t abort;  /* the host writes AR_ABORTED, waiting kernels read it */
    uint32_t error;  /* enum ar_verdict; kernels write it */
    uint32_t ipc[2]; /* number of calls of tma_ipc: [0] through scratch, [1] without scratch */
    uint32_t waits;  /* a kernel that has waited for 10 ms changes it about once per millisecond */
};

/* How many 16-byte words of a tile each thread handles, in the kernels chunked and pull and in
 * kernels like them (kernels/choose/families.h). Host and kernels must agree on the length of a
 * tile, which follows from this number. */
#define AR_CHUNKED_UNROLL 4
#define AR_PULL_UNROLL    2

/* How a kernel starts. SERIAL: after the previous kernel of its stream has ended. EARLY: it may
 * overlap the previous kernel. EARLY_BOTH: the next kernel of the stream may overlap it as well. */
enum ar_start { AR_SERIAL, AR_EARLY, AR_EARLY_BOTH, AR_STARTS };

/* Why a rank gave up; ALIVE: it has not. OVERLAP: two calls of the handle ran at the same time.
 * DESTROYED: the handle is gone, only its struct ar_state is left. PEERS_GONE: the handle was
 * aborted, and NCCL may have unmapped the memory of the peers. */
enum ar_verdict { AR_ALIVE, AR_TIMEOUT, AR_ABORTED, AR_OVERLAP, AR_DESTROYED, AR_PEERS_GONE };

/* The fields that kernels read first come first, because at launch the arguments are not yet in the
 * constant cache. The first six fields are in one 64-byte line of that cache, because the arguments
 * begin at byte 16 of a line. In a comment, words before a colon name the kernels, collectives or
 * operators that use the field. layout.h explains word, half, slot, region and shard. */
struct ar_args {
    const char *in;
    char *out;
    struct ar_state *state;
    uint64_t half;    /* kernels that send words: bytes of a half; others: offset of gather slots */
    uint64_t words;   /* one-shot: words of the message; two-shot: words of one slot */
    uint64_t overlap; /* how the kernel starts: enum ar_start                   */
    uint64_t bytes;
    uint64_t region; /* offset of half 0 of the region that the call uses      */
    uint64_t shard;  /* bytes from shard to shard; reduce-scatter, all-gather: from slot to slot */
    int ranks;
    int me;
    int in_align; /* alignment of in: bytes, a power of two, at most 16   */
    int out_align;
    int kind;                 /* AR_KIND(dtype, op)                                     */
    float scale;              /* 1/ranks for avg of floats other than f64, else 1       */
    int staged;               /* chunked: 1 if the sums go through scratch, else 0      */
    int lag;                  /* chunked: how many tiles sending is ahead of adding     */
    char *peer[AR_MAX_RANKS]; /* address of every rank's arena, as this rank maps it    */
    uint64_t tiles;           /* tiles per block and shard (chunked, pull) or per slot (tma_ipc) */
    uint64_t timeout_ns;
    struct ar_mailbox *mailbox;
    char *dst[AR_MAX_RANKS];       /* kernels that store directly: the recv buffer of every rank */
    const char *src[AR_MAX_RANKS]; /* kernels that load directly: the send buffer of every rank */
    char *multi_dst;               /* NVLS: multicast address of recv             */
    const char *multi_src;         /* NVLS: multicast address of send             */
    uint32_t stall_ns;             /* test builds: limit of random pauses (stall(), testing.cuh) */
    uint64_t stride;        /* reduce-scatter, all-gather: bytes from part to part of the message */
    const void *scalar;     /* premul: address of this rank's scalar; NULL: see ${factor} */
    uint64_t factor;        /* premul: its first bytes are this rank's scalar if scalar is NULL */
    struct ar_ipc_map *ipc; /* tma_ipc: what this rank has mapped */
    uint64_t at_send, at_recv; /* tma_ipc: where in and out lie (ar_ipc_place, ipc.h); 0: peers
                                  cannot or need not map this buffer */
};

/* The instances of a kernel's template. AR_NX is for any number of ranks; AR_N2 and AR_N4 are for 2
 * and 4 ranks. AR_N*_WHOLE have less code, but are only for messages of whole words
 * (kernels/host/table.c). */
enum ar_class { AR_NX, AR_N2, AR_N4, AR_N2_WHOLE, AR_N4_WHOLE, AR_N8_WHOLE, AR_CLASSES };

struct ar_kernel_row {
    /* [reducer][class]. If an entry is NULL, the kernel of a more general class runs instead. If
     * the entry of AR_NX is NULL, there is no kernel. */
    const void *of[AR_REDUCERS][AR_CLASSES];
};

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of kernels/device/local.cu that signal the peers and wait for the peers. */
extern const void *const ar_kernel_signal, *const ar_kernel_await;

/* The kernel of kernels/device/probe.cu, which the start-up probe runs (kernels/choose/probe.h). */
extern const void *const ar_kernel_probe;

#ifdef __cplusplus
}
#endif

#endif
