/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families.h - the families of kernels.
 *
 * The kernels of a family use one algorithm, for different data types and numbers of ranks. Each
 * family has one row in AR_FAMILY_MAP. To add a family, add a row, and a .cu file that defines
 * ar_kernels_NAME. Also add the name to nccl/names.c, where the rules language finds it. A test
 * compares the names there with the rows here.
 */
#ifndef AR_FAMILIES_H_
#define AR_FAMILIES_H_

#include <stdbool.h>

#include "kernels/shared/coll.h"
#include "kernels/shared/ipc.h"
#include "kernels/shared/layout.h"
#include "kernels/shared/tma.h"

/* The conditions of a family: it can run a call only if the call and the GPUs meet all of them. */
enum ar_need {
    AR_NEEDS_NVLINK = 1 << 0,
    AR_NEEDS_PEERS = 1 << 1,     /* scratch is in peer memory, not in host memory */
    AR_NEEDS_NAN_TYPE = 1 << 2,  /* the type is f32, f16 or bf16, in which all ones is a NaN */
    AR_NEEDS_SUM_AVG = 1 << 3,   /* the operator is sum, avg or AR_PREMUL */
    AR_NEEDS_SUM = 1 << 4,       /* the operator is sum */
    AR_NEEDS_RECV = 1 << 5,      /* peers can write recv */
    AR_NEEDS_SEND = 1 << 6,      /* peers can read send */
    AR_NEEDS_TWO_BUFS = 1 << 7,  /* the call is not in place */
    AR_NEEDS_COPY = 1 << 8,      /* copy engines can move the data */
    AR_NEEDS_MULTICAST = 1 << 9, /* both buffers have multicast addresses */
    AR_NEEDS_WORDS = 1 << 10,    /* the bytes of each part of the message are a multiple of 16 */
    AR_NEEDS_TMA = 1 << 11,      /* sm_90 or later, with shared memory for the stages of TMA */
    AR_NEEDS_UNSCALED = 1 << 12, /* the operator is not AR_PREMUL */
    AR_RUNS = 1 << 13,           /* no condition: only says that there are kernels */
    AR_NEVER = 1 << 14,          /* the family has no kernels for all-reduce */
    AR_NEEDS_IPC = 1 << 15,      /* the ranks map each other's memory (kernels/ipc) */
};

/* Words, forms, regions and slots are explained in kernels/shared/layout.h. */
struct ar_family_row {
    const char *name;
    int shots;         /* 1: each rank adds up the whole message; 2: only its shard; 0: NCCL adds */
    enum ar_form form; /* form of the words that are sent; AR_LAMPORT if plain data is sent */
    int region;        /* region of scratch; AR_REGION_BULK and later regions hold plain data */
    int slots;         /* slots of scratch for each rank; 0: the kernel needs no slots */
    unsigned needs;    /* bits of enum ar_need for all-reduce */
    unsigned scatter;  /* bits of enum ar_need for reduce-scatter; 0: there are no kernels */
    unsigned gather;   /* bits of enum ar_need for all-gather; 0: there are no kernels */
    int fallback;      /* the family that runs an all-reduce if this family cannot; -1: none */
    int rest;          /* the family that runs the bytes at the end of a message that fill no
                          16-byte word; 0: this family */
    bool gathers;      /* if peers cannot write recv, results go through AR_REGION_GATHER */
    bool many_threads; /* kernels for few ranks may have 1024 threads per block, not only 512 */
    int unroll;        /* how many 16-byte words of a tile each thread handles */
    int movers;        /* warps of a block that only move data; at least one more warp adds up */
    int shared;        /* bytes of dynamic shared memory per block */
    int ctas;          /* blocks if this family runs a call for which the table (rows.h) names
                          another family; 0: as many as the table says */
    int max_ctas;      /* largest number of blocks of a call; 0: AR_MAX_CTAS */
    /* ar_probe_cost (probe.h) takes these four fields to predict the time of a message of S bytes
     * on n ranks. push is how much data a rank stores at its peers, pull is how much it loads from
     * them, and copy is how much its copy engines move. The unit of all three is S (n-1) bytes if
     * shots is 1, and S (n-1)/n bytes if shots is 2. latency is an estimate of the time for hops,
     * barriers and engine starts, in microseconds; 0: unknown. */
    double push, pull, copy, latency;
    const char *order; /* NULL: the family adds in the order of symtuner_ar.h; else a text for users
                          that says who chooses the order */
};

/* The kernels with AR_PULLS or AR_TMA_NEEDS cannot run AR_PREMUL, in which each rank multiplies its
 * numbers by its own scalar before they are added up. These kernels, like those of family copy,
 * take a peer's numbers directly from its send, where no thread has multiplied them yet. To
 * multiply them, a rank would first have to get the scalars of its peers. That would need more
 * kernels, for example 30 more for the three families with TMA. */
#define AR_NAN_SUMS (AR_NEEDS_NAN_TYPE | AR_NEEDS_SUM_AVG)
#define AR_LINES    (AR_NEEDS_NVLINK | AR_NEEDS_UNSCALED)
#define AR_PULLS    (AR_NEEDS_PEERS | AR_NEEDS_RECV | AR_NEEDS_SEND | AR_NEEDS_UNSCALED)
#define AR_MULTICAST                                                                               \
    (AR_NEEDS_RECV | AR_NEEDS_SEND | AR_NEEDS_MULTICAST | AR_NEEDS_NAN_TYPE | AR_NEEDS_SUM |       \
     AR_NEEDS_WORDS)
#define AR_TMA_NEEDS (AR_NEEDS_PEERS | AR_NEEDS_TMA | AR_NEEDS_UNSCALED)
#define AR_TMA_PARTS (AR_TMA_NEEDS | AR_NEEDS_WORDS)
#define AR_BY_SWITCH "; the switch adds, in an order of its own"

/* Each row is X(family, name, fields of struct ar_family_row). */
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
      .movers = AR_TMA_MOVERS, .shared = AR_TMA_IPC_SHARED, .ctas = 8, .max_ctas = AR_IPC_CTAS)    \
    X(AR_TMA_ENGINES, tma_engines, .shots = 2, .form = AR_LAMPORT, .region = AR_REGION_BULK,       \
      .needs = AR_PULLS | AR_NEEDS_TMA | AR_NEEDS_COPY, .fallback = AR_TMA, .rest = AR_ONE_LL8,    \
      .unroll = AR_PULL_UNROLL, .movers = AR_TMA_MOVERS, .shared = AR_TMA_SHARED, .ctas = 8)

/* AR_SCATTER_MAP lists the families that have kernels for reduce-scatter (ar_scatter_NAME), and
 * AR_GATHER_MAP lists those that have kernels for all-gather (ar_gather_NAME). The kernels are in
 * kernels/device/halves. The fields scatter and gather of a row say what the kernels need. */
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

const char *ar_family_name(int family);  /* returns NULL if there is no such family */
int ar_family_by_name(const char *name); /* returns -1 if the name is unknown */

/* Return what ${family} needs for ${coll} (bits of enum ar_need), or 0 if the family has no kernels
 * for this collective. */
static inline unsigned ar_family_needs(int family, int coll)
{
    const struct ar_family_row *f = &ar_families[family];

    return coll == AR_REDUCE_SCATTER    ? f->scatter
           : coll == AR_ALL_GATHER      ? f->gather
           : (f->needs & AR_NEVER) != 0 ? 0
                                        : f->needs | AR_RUNS;
}

/* Return whether ${family} sends plain data and sets a flag after it, as the families for long
 * messages do. The other families send words from which the receiver can see that they arrived. */
static inline bool ar_is_bulk(int family)
{
    return ar_families[family].region >= AR_REGION_BULK;
}

#endif
