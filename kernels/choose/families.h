/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families.h - the families of kernels, one row each.
 *
 * A new family is one row here and one .cu file that defines ar_kernels_NAME. Add its name also to
 * nccl/names.c, where rules look it up; a test compares the two lists.
 */
#ifndef AR_FAMILIES_H_
#define AR_FAMILIES_H_

#include <stdbool.h>

#include "kernels/shared/coll.h"
#include "kernels/shared/ipc.h"
#include "kernels/shared/layout.h"
#include "kernels/shared/tma.h"

/* What a call must have before a family can run it. */
enum ar_need {
    AR_NEEDS_NVLINK = 1 << 0,
    AR_NEEDS_PEERS = 1 << 1,     /* peer memory, not host memory */
    AR_NEEDS_NAN_TYPE = 1 << 2,  /* f32, f16 or bf16: all ones is a NaN */
    AR_NEEDS_SUM_AVG = 1 << 3,   /* sum or avg */
    AR_NEEDS_SUM = 1 << 4,       /* sum only */
    AR_NEEDS_RECV = 1 << 5,      /* peers can write recv */
    AR_NEEDS_SEND = 1 << 6,      /* peers can read send */
    AR_NEEDS_TWO_BUFS = 1 << 7,  /* not in place */
    AR_NEEDS_COPY = 1 << 8,      /* copy engines */
    AR_NEEDS_MULTICAST = 1 << 9, /* multicast addresses of both buffers */
    AR_NEEDS_WORDS = 1 << 10,    /* the message, or each of its parts, is whole 16-byte words */
    AR_NEEDS_TMA = 1 << 11,      /* bulk copies, and room for their stages: sm_90 or later */
    AR_NEEDS_UNSCALED = 1 << 12, /* not AR_PREMUL */
    AR_RUNS = 1 << 13,           /* needs nothing; only says that there are kernels */
    AR_NEVER = 1 << 14,          /* there are no kernels for all-reduce */
    AR_NEEDS_IPC = 1 << 15,      /* the peers map each other's memory (kernels/ipc) */
};

struct ar_family_row {
    const char *name;
    int shots;         /* 1: each rank adds up the whole message; 2: one shard; 0: NCCL */
    enum ar_form form; /* AR_LAMPORT where words are plain data */
    int region;        /* of scratch; from AR_REGION_BULK on: plain data and flags */
    int slots;         /* per rank, in scratch; 0: none, the kernel reads buffers of any length */
    unsigned needs;    /* enum ar_need, of all-reduce */
    unsigned scatter;  /* of reduce-scatter: AR_RUNS and enum ar_need; 0: it has no such kernels */
    unsigned gather;   /* of all-gather, likewise */
    int fallback;      /* the next family to try if this one cannot run a call; -1: none */
    bool gathers;      /* goes through AR_REGION_GATHER when peers cannot write recv */
    bool many_threads; /* its kernels for few ranks take 1024 threads, not 512 */
    int unroll;        /* words per thread and tile */
    int movers;        /* warps that only move data; a block has at least one more */
    int shared;        /* bytes of shared memory of a block */
    int ctas;          /* blocks if the table's row names another family; 0: as in that row */
    int max_ctas;      /* 0: AR_MAX_CTAS */
    /* For the start-up probe. push, pull, copy: bytes that a rank moves in this way, in units of
     * S (n-1)/n for a message of S bytes on n ranks, in one-shot S (n-1). latency: about what hops,
     * barriers and engine starts take, in microseconds; 0: unknown. */
    double push, pull, copy, latency;
    const char *order; /* a remark if it does not add in the library's order, else NULL */
};

#define AR_NAN_SUMS (AR_NEEDS_NAN_TYPE | AR_NEEDS_SUM_AVG)
#define AR_LINES    (AR_NEEDS_NVLINK | AR_NEEDS_UNSCALED)
#define AR_PULLS    (AR_NEEDS_PEERS | AR_NEEDS_RECV | AR_NEEDS_SEND | AR_NEEDS_UNSCALED)
#define AR_MULTICAST                                                                               \
    (AR_NEEDS_RECV | AR_NEEDS_SEND | AR_NEEDS_MULTICAST | AR_NEEDS_NAN_TYPE | AR_NEEDS_SUM |       \
     AR_NEEDS_WORDS)
#define AR_TMA_NEEDS (AR_NEEDS_PEERS | AR_NEEDS_TMA | AR_NEEDS_UNSCALED)
#define AR_TMA_PARTS (AR_TMA_NEEDS | AR_NEEDS_WORDS)
#define AR_BY_SWITCH "; the switch adds, in an order of its own"

/* X(family, name, fields of struct ar_family_row) */
#define AR_FAMILY_MAP(X)                                                                           \
    X(AR_NCCL, nccl, .fallback = -1, .scatter = AR_RUNS, .gather = AR_RUNS,                        \
      .order = "; NCCL adds in an order of its own")                                               \
    X(AR_ONE_LL8, one_ll8, .shots = 1, .form = AR_LL8, .region = AR_REGION_LL8, .slots = 1,        \
      .fallback = -1, .many_threads = true, .scatter = AR_RUNS, .gather = AR_RUNS, .push = 2,      \
      .latency = 5)                                                                                \
    X(AR_ONE_LL128, one_ll128, .shots = 1, .form = AR_LL128, .region = AR_REGION_LL128,            \
      .slots = 1, .needs = AR_LINES, .scatter = AR_LINES, .gather = AR_NEEDS_NVLINK,               \
      .fallback = AR_ONE_LAMPORT, .many_threads = true)                                            \
    X(AR_ONE_LAMPORT, one_lamport, .shots = 1, .form = AR_LAMPORT, .region = AR_REGION_LAMPORT,    \
      .slots = 1, .needs = AR_NAN_SUMS, .scatter = AR_NAN_SUMS, .fallback = AR_ONE_LL128,          \
      .many_threads = true, .push = 1, .latency = 5)                                               \
    X(AR_TWO_LL8, two_ll8, .shots = 2, .form = AR_LL8, .region = AR_REGION_LL8, .slots = 2,        \
      .fallback = AR_ONE_LL8, .push = 4, .latency = 8)                                             \
    X(AR_TWO_LL128, two_ll128, .shots = 2, .form = AR_LL128, .region = AR_REGION_LL128,            \
      .slots = 2, .needs = AR_LINES, .fallback = AR_TWO_LAMPORT, .many_threads = true)             \
    X(AR_TWO_LAMPORT, two_lamport, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_LAMPORT,    \
      .slots = 2, .needs = AR_NAN_SUMS, .fallback = AR_TWO_LL128, .many_threads = true, .push = 2, \
      .latency = 8)                                                                                \
    X(AR_CHUNKED, chunked, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK, .slots = 1,   \
      .needs = AR_NEEDS_PEERS, .scatter = AR_NEEDS_PEERS, .gather = AR_NEEDS_PEERS,                \
      .fallback = AR_TWO_LAMPORT, .gathers = true, .unroll = AR_CHUNKED_UNROLL, .push = 2,         \
      .latency = 12)                                                                               \
    X(AR_PULL, pull, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK, .needs = AR_PULLS,  \
      .scatter = AR_NEEDS_PEERS | AR_NEEDS_SEND | AR_NEEDS_UNSCALED,                               \
      .gather = AR_NEEDS_PEERS | AR_NEEDS_RECV, .fallback = AR_CHUNKED, .unroll = AR_PULL_UNROLL,  \
      .push = 1, .pull = 1, .latency = 12)                                                         \
    X(AR_COPY, copy, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK, .slots = 1,         \
      .needs = AR_NEEDS_COPY | AR_NEEDS_RECV | AR_NEEDS_UNSCALED,                                  \
      .gather = AR_NEEDS_COPY | AR_NEEDS_SEND, .fallback = AR_CHUNKED, .unroll = AR_PULL_UNROLL,   \
      .copy = 2, .latency = 60)                                                                    \
    X(AR_NVLS, nvls, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK,                     \
      .needs = AR_MULTICAST, .fallback = AR_PULL, .unroll = AR_PULL_UNROLL, .order = AR_BY_SWITCH) \
    X(AR_PULL_ONE, pull_one, .shots = 1, .form = AR_LAMPORT, .region = AR_REGION_BULK,             \
      .needs = AR_PULLS | AR_NEEDS_TWO_BUFS, .fallback = AR_PULL, .unroll = AR_PULL_UNROLL,        \
      .pull = 1, .latency = 12)                                                                    \
    X(AR_NVLS_ONE, nvls_one, .shots = 1, .form = AR_LAMPORT, .region = AR_REGION_BULK,             \
      .needs = AR_MULTICAST | AR_NEEDS_TWO_BUFS, .fallback = AR_NVLS, .unroll = AR_PULL_UNROLL,    \
      .order = AR_BY_SWITCH)                                                                       \
    X(AR_TMA, tma, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK,                       \
      .needs = AR_PULLS | AR_NEEDS_TMA, .scatter = AR_TMA_PARTS | AR_NEEDS_SEND,                   \
      .gather = AR_TMA_PARTS | AR_NEEDS_RECV, .fallback = AR_PULL, .unroll = AR_PULL_UNROLL,       \
      .movers = AR_TMA_MOVERS, .shared = AR_TMA_SHARED, .ctas = 8)                                 \
    X(AR_TMA_STAGED, tma_staged, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK,         \
      .slots = 1, .needs = AR_TMA_NEEDS, .scatter = AR_TMA_NEEDS, .gather = AR_TMA_NEEDS,          \
      .fallback = AR_CHUNKED, .gathers = true, .unroll = AR_PULL_UNROLL,                           \
      .movers = AR_TMA_STAGED_MOVERS, .shared = AR_TMA_SHARED, .ctas = 24)                         \
    X(AR_ENGINES, engines, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK, .slots = 1,   \
      .needs = AR_NEVER, .gather = AR_NEEDS_COPY, .fallback = AR_CHUNKED,                          \
      .unroll = AR_PULL_UNROLL, .ctas = 1)                                                         \
    X(AR_TMA_IPC, tma_ipc, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_IPC,                \
      .needs = AR_TMA_NEEDS | AR_NEEDS_IPC, .scatter = AR_TMA_PARTS | AR_NEEDS_IPC,                \
      .gather = AR_TMA_PARTS | AR_NEEDS_IPC, .fallback = AR_CHUNKED, .unroll = AR_PULL_UNROLL,     \
      .movers = AR_TMA_MOVERS, .shared = AR_TMA_IPC_SHARED, .ctas = 8, .max_ctas = AR_IPC_CTAS)

/* The families with kernels for reduce-scatter and for all-gather (kernels/device/halves). Their
 * rows above say what these kernels need. The kernels are ar_scatter_NAME and ar_gather_NAME. */
#define AR_SCATTER_MAP(X)                                                                          \
    X(AR_ONE_LL8, one_ll8)                                                                         \
    X(AR_ONE_LL128, one_ll128)                                                                     \
    X(AR_ONE_LAMPORT, one_lamport)                                                                 \
    X(AR_CHUNKED, chunked)                                                                         \
    X(AR_PULL, pull)                                                                               \
    X(AR_TMA, tma)                                                                                 \
    X(AR_TMA_STAGED, tma_staged)                                                                   \
    X(AR_TMA_IPC, tma_ipc)
#define AR_GATHER_MAP(X)                                                                           \
    X(AR_ONE_LL8, one_ll8)                                                                         \
    X(AR_ONE_LL128, one_ll128)                                                                     \
    X(AR_CHUNKED, chunked)                                                                         \
    X(AR_PULL, pull)                                                                               \
    X(AR_COPY, copy)                                                                               \
    X(AR_TMA, tma)                                                                                 \
    X(AR_TMA_STAGED, tma_staged)                                                                   \
    X(AR_ENGINES, engines)                                                                         \
    X(AR_TMA_IPC, tma_ipc)

enum ar_family {
#define X(family, name, ...) family,
    AR_FAMILY_MAP(X)
#undef X
        AR_FAMILIES
};

extern const struct ar_family_row ar_families[AR_FAMILIES];

const char *ar_family_name(int family);  /* NULL: no such family */
int ar_family_by_name(const char *name); /* -1: unknown */

/* Return what ${family} needs for ${coll}, 0 if it has no kernels for it. */
static inline unsigned ar_family_needs(int family, int coll)
{
    const struct ar_family_row *f = &ar_families[family];

    return coll == AR_REDUCE_SCATTER    ? f->scatter
           : coll == AR_ALL_GATHER      ? f->gather
           : (f->needs & AR_NEVER) != 0 ? 0
                                        : f->needs | AR_RUNS;
}

/* Whether ${family} is for long messages: it moves plain data and sets flags. */
static inline bool ar_is_bulk(int family)
{
    return ar_families[family].region >= AR_REGION_BULK;
}

#endif
