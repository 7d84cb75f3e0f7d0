/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.h - what differs between NCCL releases, as data.
 *
 * NCCL changes its decision rules without changing its plugin interfaces. Code that depends on the
 * release reads a row of this table instead of comparing version numbers.
 * docs/reference/steering.md says where each fact comes from.
 *
 * Units      a release is NCCL's own code: 22809 is 2.28.9.
 * Ownership  rows are constants. Threads: any. Errors: -1, or the oldest row.
 */
#ifndef ST_NCCL_RELEASE_H_
#define ST_NCCL_RELEASE_H_

#include <stdbool.h>
#include <stddef.h>

/* Which kind of peer access between all local GPUs symmetric memory needs. */
enum st_peer_rule {
    ST_PEER_TRANSPORT, /* NCCL's own P2P transport: obeys NCCL_P2P_LEVEL and _DISABLE */
    ST_PEER_RAW,       /* the driver's peer capability, whatever the distance         */
};

/* Who decides whether a low-latency (LL) symmetric kernel that was picked is kept. */
enum st_ll_rule {
    ST_LL_KEEP,       /* always kept                                                        */
    ST_LL_ASK_ALWAYS, /* the general cost table decides, both buffers registered or not     */
    ST_LL_ASK_PARTLY, /* the table decides, but only if not both buffers are registered     */
    ST_LL_ASK_VOID,   /* as PARTLY, but with prices that lack latency, so that LL wins only
                         if a tuner or NCCL_PROTO makes it win                              */
};

/* What NCCL_SYM_KERNEL means. */
enum st_sym_kernel_rule {
    ST_SYM_KERNEL_MASK, /* one exact name; any other text switches all kernels off          */
    ST_SYM_KERNEL_LIST, /* "[func:]name,name;..."; a wrong name fails communicator creation */
};

/* When an AllGather goes to the copy engine instead of a kernel. */
enum st_ce_rule {
    ST_CE_NEVER,
    ST_CE_POLICY_BOTH, /* NCCL_CTA_POLICY=2 and both buffers in symmetric windows           */
    ST_CE_POLICY_RECV, /* the same, but only the receive buffer need be in such a window; also
                          a large receive buffer in one on sm_100+, whatever the policy      */
};

/* NCCL launches symmetric kernels with programmatic dependent launch (PDL), so they may start before
 * the kernel in front of them has ended, if that kernel allows it. */
enum st_pdl_rule {
    ST_PDL_WAITS,    /* they wait for its end before they read or write                     */
    ST_PDL_WINDOWS,  /* they do not wait; both buffers must be in symmetric windows         */
    ST_PDL_ANYWHERE, /* they do not wait; NCCL_SYM_NOWIN_ENABLE=1 and NCCL_SYM_KERNEL let some
                        run on any buffers                                                  */
};

enum st_tma_rule { ST_TMA_NONE, ST_TMA_OPT_IN, ST_TMA_ON };

/* For which calls we do not know for sure which symmetric kernel NCCL picks. */
enum st_unsure_rule {
    ST_UNSURE_NOTHING,
    ST_UNSURE_GATHER, /* single AllGathers on sm_100 and sm_103: priced by a fitted model     */
    ST_UNSURE_MORE,   /* everything from sm_100 on, and wherever multicast kernels are usable */
};

/* One row: the rules from release ${first} until the next row. */
struct st_era {
    int first;
    const char *name;

    /* plugin interfaces: the newest version that NCCL asks for; 0 is none */
    signed char tuner_abi, env_abi, profiler_abi;

    /* symmetric kernels */
    bool symmetric;           /* symmetric kernels exist at all                               */
    bool symmetric_groups;    /* also for several calls in one group                          */
    bool symmetric_one_sided; /* also when only one buffer is in a symmetric window           */
    bool symmetric_avg;       /* accepts avg; only ReduceScatter has kernels for it          */
    bool needs_nvlink;        /* only when every pair of GPUs has direct NVLink               */
    bool fp8_needs_sm90;      /* below sm_90 even AllGather and Broadcast of fp8 are refused  */
    bool launch_by_cells;     /* never more CTAs than 1 KiB pieces of the per-rank count      */
    bool multicast_lazy;      /* multicast is known only once symmetric state exists          */
    bool ctas_even;           /* the model tries 1, 2, 4, 6 ... CTAs, not 1, 2, 3, 4 ...      */
    bool algo_env_excludes;   /* NCCL_ALGO also removes symmetric kernels                     */
    signed char multicast_ranks; /* fewest ranks for which multicast kernels are used         */
    enum st_peer_rule peer;
    enum st_ll_rule ll;
    enum st_sym_kernel_rule sym_kernel;
    enum st_ce_rule ce;
    enum st_pdl_rule pdl;
    enum st_tma_rule tma;
    signed char model;        /* revision of the cost model's constants, 1 or 2               */
    enum st_unsure_rule unsure; /* which symmetric picks are not known for sure               */

    /* cost table */
    bool negative_wins;       /* a negative entry is the cheapest instead of "not available"  */
    bool tie_takes_last;      /* of equal entries the one with the highest number is taken    */
    bool gather_unclamped;    /* a tuner's channel count for AllGather may exceed NCCL's own  */
    bool channels_cap;        /* a tuner's channel count can only lower NCCL's, not replace it */
    float table_limit;        /* an entry of this size or above is never taken                */
    signed char general;      /* the row of nccl/model/general_cost.c; 0 is none              */
};

/* Does a profiler get Coll events for symmetric kernels in this release? */
static inline bool st_era_shows_symmetric(const struct st_era *era)
{
    return era->profiler_abi >= 7;
}

/* Return the row of release ${version}; for releases older than the table, the oldest row. Never
 * NULL. */
const struct st_era *st_era_of(int version);

/* Read "2.28.9" or "22809", or "2.28" as its first known release. -1 if ${text} is no release. */
int st_release_parse(const char *text);

/* Print 22809 as "2.28.9". Returns ${text}; 16 bytes hold every release. */
char *st_release_print(int version, char *text, size_t size);

/* Return the newest NCCL release whose source was read for the tables. */
int st_release_newest(void);

/*
 * st_table_pick(era, table, shown, algos, protos, algo_out, proto_out):
 * Find the entry that NCCL takes from a cost table of ${algos} x ${protos} floats (microseconds),
 * with that era's treatment of negative entries and ties. ${shown} is the table that NCCL gave the
 * tuner, NULL if no tuner changed it. A negative entry in ${shown} has no algorithm behind it:
 * before 2.31 NCCL takes it all the same once a tuner raises it (and hangs), later releases ignore
 * it. False if nothing can be taken.
 */
bool st_table_pick(const struct st_era *era, const float *table, const float *shown, int algos,
                   int protos, int *algo_out, int *proto_out);

#endif
