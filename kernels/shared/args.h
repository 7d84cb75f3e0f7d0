/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - what the host hands to a kernel, and the table of kernels.
 *
 * Kernels see raw pointers only: NCCL windows, peer access and pinned host memory all end up as
 * peer[] here.
 */
#ifndef ST_AR_ARGS_H_
#define ST_AR_ARGS_H_

#include "kernels/shared/dtypes.h"
#include "kernels/shared/layout.h"

/* One rank's counters, in its own device memory: they survive graph replay. */
struct st_state {
    uint64_t epoch;   /* of the next call                                                  */
    uint32_t base;    /* arrivals of all earlier calls, modulo 2^32                         */
    uint32_t dead;    /* enum st_verdict once the rank gave up; kernels then leave at once */
    uint32_t arrived; /* blocks that have read the words above                              */
    uint32_t pad;
    uint64_t looked; /* when a waiting thread last looked at the mailbox, ns              */
};

/* Pinned host words shared with the kernels of one rank. */
struct st_mailbox {
    uint32_t abort; /* host writes, kernels look at it while they wait */
    uint32_t error; /* enum st_verdict; kernels write                  */
};

/* 16-byte words per thread and tile; host and kernel must agree on the length of a tile. */
#define ST_CHUNKED_UNROLL 4
#define ST_PULL_UNROLL    2

/* When a kernel's grid is set up: after the kernel in front on its stream has ended; before that,
 * to wait for it; or so, and letting the kernel behind do the same. */
enum st_start { ST_SERIAL, ST_EARLY, ST_EARLY_BOTH, ST_STARTS };

/* DESTROYED: of the handle nothing else is there any more. */
enum st_verdict { ST_ALIVE, ST_TIMEOUT, ST_ABORTED, ST_OVERLAP, ST_DESTROYED };

/* What every kernel touches first comes first: a launch starts with cold constant-cache lines. */
struct st_args {
    const char *in;
    char *out;
    struct st_state *state;
    uint64_t bytes;
    uint64_t region; /* offset of half 0 of the region in use                  */
    uint64_t half;   /* bytes of one half; chunked: offset of the gather slots   */
    uint64_t words;  /* one-shot: of the message; two-shot: of one slot        */
    uint64_t shard;  /* two-shot, chunked, pull: bytes from shard to shard     */
    int ranks;
    int me;
    int in_align; /* bytes, power of two, at most 16                      */
    int out_align;
    int kind;                 /* ST_KIND(dtype, op)                                     */
    float scale;              /* 1/ranks for avg of floats, else 1                      */
    int staged;               /* chunked: gather through scratch, recv is not mapped    */
    int lag;                  /* chunked: tiles between push and reduce                 */
    char *peer[ST_MAX_RANKS]; /* arena of every rank as this rank maps it   */
    uint64_t tiles;           /* chunked, pull: tiles per block and shard              */
    uint64_t overlap;         /* enum st_start                                        */
    uint64_t timeout_ns;
    struct st_mailbox *mailbox;
    char *dst[ST_MAX_RANKS];       /* zero-copy: every rank's recv                */
    const char *src[ST_MAX_RANKS]; /* pull: every rank's send                     */
    char *multi_dst;               /* NVLS: multicast address of recv and send    */
    const char *multi_src;
    uint32_t stall_ns; /* test builds: longest pause injected per block        */
};

enum st_family {
    ST_NCCL,
    ST_ONE_LL8,
    ST_ONE_LL128,
    ST_ONE_LAMPORT,
    ST_TWO_LL8,
    ST_TWO_LL128,
    ST_TWO_LAMPORT,
    ST_CHUNKED,
    ST_PULL,
    ST_COPY,
    ST_NVLS,
    ST_PULL_ONE,
    ST_NVLS_ONE,
    ST_FAMILIES
};

/* Instantiations: ST_NX counts ranks at run time and does everything; 2 and 4 ranks have their own;
 * and for messages of whole words (kernels/host/table.c) 2, 4 and 8 ranks have a shorter one. */
enum st_class { ST_NX, ST_N2, ST_N4, ST_N2_WHOLE, ST_N4_WHOLE, ST_N8_WHOLE, ST_CLASSES };

struct st_kernel_row {
    const void *of[ST_REDUCERS][ST_CLASSES]; /* NULL: the more general; ST_NX NULL: there is none */
};

#ifdef __cplusplus
extern "C" {
#endif

extern const struct st_kernel_row st_kernels_one_ll8, st_kernels_one_ll128, st_kernels_one_lamport,
    st_kernels_two_ll8, st_kernels_two_ll128, st_kernels_two_lamport, st_kernels_chunked,
    st_kernels_pull, st_kernels_pull_one, st_kernels_nvls, st_kernels_nvls_one, st_kernels_local;

/* Helpers of the copy-engine schedule: tell the peers, wait for the peers. */
extern const void *const st_kernel_signal, *const st_kernel_await;

extern const void *const st_kernel_probe; /* kernels/choose/probe.h */

#ifdef __cplusplus
}
#endif

#endif
