/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symmetric_cost.h - predicts which symmetric-memory kernel NCCL runs, and on how many CTAs.
 *
 * NCCL computes a price for each of its symmetric kernels with a formula, and chooses the cheapest
 * kernel. No tuner sees these prices. The functions below do the same arithmetic as each release of
 * NCCL, and round to single precision at the same places. This is necessary because two kernels can
 * have the same price to the last bit, if both reach the peak bandwidth with many CTAs. Then their
 * order in the list below decides.
 *
 * Pure: no I/O, no allocation, no globals. The same inputs give the same kernel on every rank.
 * Units      bytes of one call per rank (count x element size), microseconds, CTAs.
 * Ownership  no pointer is kept. Threads: any. Errors: none; false means that no kernel can run the
 *            call.
 */
#ifndef ST_SYMMODEL_H_
#define ST_SYMMODEL_H_

#include <stdbool.h>
#include <stdint.h>

#include "nccl/release.h"
#include "symtuner.h"

/* X(id, name, collective, flags). The rows have NCCL's order, because the order decides ties. */
#define ST_KERNEL_MAP(X)                                                                           \
    X(AR_LL,      "AllReduce_AGxLL_R",           ALLREDUCE,     ST_KERNEL_LL)                      \
    X(AR_LLMC,    "AllReduce_AGxLLMC_R",         ALLREDUCE,     ST_KERNEL_LL | ST_KERNEL_STORE_MC) \
    X(AR_TMA,     "AllReduce_RSxTmaLD_AGxTmaST", ALLREDUCE,     ST_KERNEL_TMA)                     \
    X(AR_LD,      "AllReduce_RSxLD_AGxST",       ALLREDUCE,     0)                                 \
    X(AR_LDMC,    "AllReduce_RSxLDMC_AGxSTMC",   ALLREDUCE,                                        \
      ST_KERNEL_STORE_MC | ST_KERNEL_LOAD_MC)                                                      \
    X(AG_LL,      "AllGather_LL",                ALLGATHER,     ST_KERNEL_LL)                      \
    X(AG_LLMC,    "AllGather_LLMC",              ALLGATHER,     ST_KERNEL_LL | ST_KERNEL_STORE_MC) \
    X(AG_TMA,     "AllGather_TmaST",             ALLGATHER,     ST_KERNEL_TMA)                     \
    X(AG_ST,      "AllGather_ST",                ALLGATHER,     0)                                 \
    X(AG_TMAMC,   "AllGather_TmaSTMC",           ALLGATHER,     ST_KERNEL_TMA | ST_KERNEL_STORE_MC)\
    X(AG_STMC,    "AllGather_STMC",              ALLGATHER,     ST_KERNEL_STORE_MC)                \
    X(RS_LL,      "ReduceScatter_LL",            REDUCESCATTER, ST_KERNEL_LL)                      \
    X(RS_TMA,     "ReduceScatter_TmaLD",         REDUCESCATTER, ST_KERNEL_TMA)                     \
    X(RS_LD,      "ReduceScatter_LD",            REDUCESCATTER, 0)                                 \
    X(RS_LDMC,    "ReduceScatter_LDMC",          REDUCESCATTER,                                    \
      ST_KERNEL_STORE_MC | ST_KERNEL_LOAD_MC)

enum st_kernel {
#define X(id, name, coll, flags) ST_KERNEL_##id,
    ST_KERNEL_MAP(X)
#undef X
    ST_KERNELS
};

enum {
    ST_KERNEL_LL       = 1, /* low latency: one store writes data and flag     */
    ST_KERNEL_STORE_MC = 2, /* stores through NVLink multicast                 */
    ST_KERNEL_LOAD_MC  = 4, /* loads through multicast: the switch adds up     */
    ST_KERNEL_TMA      = 8, /* bulk copies (TMA), only on sm_100 and later     */
};

enum {
    ST_CTAS_MAX  = 64,   /* largest number of CTAs of a symmetric kernel                  */
    ST_CELL_SIZE = 1024, /* bytes of a cell; from 2.28 on a CTA works on whole cells      */
};

struct st_sym_query {
    int version;          /* NCCL release                                                  */
    enum symtuner_coll coll;
    uint64_t bytes;       /* count x element size of one call, not rounded                 */
    int works;            /* number of calls in one launch, at least 1                     */
    int ranks;
    int arch;             /* 10 x compute capability: 90, 100, 120                         */
    bool store_mc;        /* kernels may store through multicast                           */
    bool load_mc;         /* kernels may load by multicast: the switch can sum the type    */
    bool send_window, recv_window; /* the buffer is in a symmetric window                  */
    bool tma;             /* TMA kernels may be used                                       */
    int min_ctas, max_ctas; /* NCCL_MIN_CTAS and NCCL_MAX_CTAS, or the communicator's own  */
    int sym_ctas;         /* NCCL_SYM_CTAS; 0: the cost model chooses the count            */
    uint32_t allowed;     /* one bit per kernel that NCCL_SYM_KERNEL allows; ~0u: all      */
    bool forced;          /* NCCL_SYM_KERNEL is set: 2.31 then ignores the TMA size limit  */
};

struct st_sym_price {
    float time_us; /* the kernel's time as NCCL predicts it                  */
    float cost;    /* time plus 2.5 % for each CTA; the least cost wins      */
    int ctas;      /* CTAs that the model wants; the launch may use fewer    */
};

struct st_sym_pick {
    enum st_kernel kernel;
    struct st_sym_price price;
    int launched; /* CTAs of the launch; NCCL logs this number as nchannels  */
};

const char *st_kernel_name(enum st_kernel kernel);
enum symtuner_coll st_kernel_coll(enum st_kernel kernel);
unsigned st_kernel_flags(enum st_kernel kernel);

/*
 * Return the kernels that can run the call, with one bit per kernel. st_sym_mask looks at the
 * collective, multicast, TMA, size and NCCL_SYM_KERNEL. st_sym_mask_call also looks at the windows
 * and at the number of calls in one launch.
 */
uint32_t st_sym_mask(const struct st_sym_query *query);
uint32_t st_sym_mask_call(const struct st_sym_query *query);

/* Compute the price of a kernel. Its number of CTAs is the smallest with which the kernel takes at
 * most 2.5 % longer than with the largest number that is allowed. Returns false if the kernel
 * cannot be used. */
bool st_sym_price(const struct st_sym_query *query, enum st_kernel kernel,
                  struct st_sym_price *price_out);

/* Find the cheapest kernel of ${mask}; false if there is none. */
bool st_sym_pick(const struct st_sym_query *query, uint32_t mask, struct st_sym_pick *pick_out);

/*
 * st_sym_kernel_env(era, text, coll, allowed_out):
 * Read NCCL_SYM_KERNEL as the releases of ${era} do. ${text} is the value, or NULL if the variable
 * is not set.
 */
enum st_sym_kernel_env {
    ST_ENV_UNSET,   /* the variable is not set, or has no effect on this collective */
    ST_ENV_LIMITS,  /* only the kernels in ${*allowed_out} may run this collective       */
    ST_ENV_FATAL,   /* a word names no kernel, so NCCL cannot create the communicator    */
};
enum st_sym_kernel_env st_sym_kernel_env(const struct st_era *era, const char *text,
                                         enum symtuner_coll coll, uint32_t *allowed_out);

#endif
