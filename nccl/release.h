/* SPDX-License-Identifier: Apache-2.0 */
/*
 * release.h - a table of what differs between NCCL releases.
 *
 * NCCL changes its decision rules without changing its plugin interfaces. Code that depends on the
 * release reads a row of this table instead of comparing version numbers.
 * docs/reference/steering.md says where each fact comes from.
 *
 * Units      a release is the number that ncclGetVersion returns: 22809 is 2.28.9.
 * Ownership  rows are constants. Threads: any. Errors: each function says what it returns.
 */
#ifndef ST_NCCL_RELEASE_H_
#define ST_NCCL_RELEASE_H_

#include <stdbool.h>
#include <stddef.h>

/* Symmetric memory needs peer access between all GPUs of a box. Which kind of peer access? */
enum st_peer_rule {
    ST_PEER_TRANSPORT, /* NCCL's own P2P transport: NCCL_P2P_LEVEL and _DISABLE limit it */
    ST_PEER_RAW,       /* what the driver says about peer access, at any distance        */
};

/* If NCCL has picked a low-latency (LL) symmetric kernel: does it keep that kernel? */
enum st_ll_rule {
    ST_LL_KEEP,       /* NCCL always keeps the LL symmetric kernel */
    ST_LL_ASK_ALWAYS, /* NCCL keeps the LL symmetric kernel if the cheapest entry of the cost table
                         is LL, too */
    ST_LL_ASK_PARTLY, /* as ASK_ALWAYS; but if both buffers are registered, NCCL does not look at
                         the cost table and keeps the kernel */
    ST_LL_ASK_VOID,   /* as ASK_PARTLY; but the prices in the table lack latency, so LL is the
                         cheapest only if a tuner or NCCL_PROTO makes it so */
};

/* What NCCL_SYM_KERNEL means. */
enum st_sym_kernel_rule {
    ST_SYM_KERNEL_MASK, /* one exact name; any other text switches all symmetric kernels off */
    ST_SYM_KERNEL_LIST, /* "[func:]name,name;..."; with a wrong name NCCL makes no communicator */
};

/* When does an AllGather use the copy engine instead of a kernel? */
enum st_ce_rule {
    ST_CE_NEVER,
    /* AllGathers use the copy engine if NCCL_CTA_POLICY is 2 and both buffers are in symmetric
     * windows. */
    ST_CE_POLICY_BOTH,
    /* AllGathers into a symmetric window use the copy engine if NCCL_CTA_POLICY & 2. On sm_100 and
     * later with NVLink, AllGathers of more than NCCL_SYM_CE_THRESHOLD elements into a symmetric
     * window use the copy engine with any NCCL_CTA_POLICY. */
    ST_CE_POLICY_RECV,
};

/* NCCL launches symmetric kernels with programmatic dependent launch (PDL). So a symmetric kernel
 * can start before the kernel in front of it has ended, if the kernel in front allows that. Does
 * the symmetric kernel wait for the end of the kernel in front before it reads or writes? */
enum st_pdl_rule {
    ST_PDL_WAITS,    /* symmetric kernels wait for the end of the kernel in front of them */
    ST_PDL_WINDOWS,  /* symmetric kernels do not wait; their buffers are in symmetric windows */
    ST_PDL_ANYWHERE, /* symmetric kernels do not wait; with NCCL_SYM_NOWIN_ENABLE=1 and
                        NCCL_SYM_KERNEL some of them run on any buffers */
};

/* Does NCCL use TMA kernels: never, only with NCCL_SYM_TMA_ENABLE=1, or by default? */
enum st_tma_rule { ST_TMA_NONE, ST_TMA_OPT_IN, ST_TMA_ON };

/* For which calls are we not sure which symmetric kernel NCCL picks? */
enum st_unsure_rule {
    ST_UNSURE_NOTHING,
    ST_UNSURE_GATHER, /* AllGathers that are alone in their group, on sm_100 and sm_103: NCCL
                         prices them by a model that we do not have                           */
    ST_UNSURE_MORE,   /* all calls on sm_100 and later, and all calls that may use multicast */
};

/* One row of the table: what is true from release ${first} until the ${first} of the next row. */
struct st_era {
    int first;
    const char *name;

    /* plugin interfaces: the newest version that NCCL asks for; 0: the interface does not exist */
    signed char tuner_abi, env_abi, profiler_abi;

    /* symmetric kernels */
    bool symmetric;           /* symmetric kernels exist                                        */
    bool symmetric_groups;    /* groups of several calls can use symmetric kernels              */
    bool symmetric_one_sided; /* some symmetric kernels need only one buffer in a window        */
    bool symmetric_avg;       /* NCCL picks symmetric kernels for avg, but has them only for
                                 ReduceScatter                                                  */
    bool needs_nvlink;        /* symmetric kernels need direct NVLink between all pairs of GPUs */
    bool fp8_needs_sm90;      /* below sm_90 NCCL refuses fp8, even for AllGather and Broadcast */
    bool launch_by_cells;     /* NCCL launches at most one CTA per KiB of count x element size  */
    bool multicast_lazy;      /* NCCL knows of multicast only once it has used symmetric memory */
    bool ctas_even;           /* the cost model tries 1, 2, 4, 6 ... CTAs, not 1, 2, 3, 4 ...   */
    bool algo_env_excludes;   /* NCCL_ALGO can exclude symmetric kernels, too                   */
    signed char multicast_ranks; /* multicast kernels need at least this many ranks             */
    enum st_peer_rule peer;
    enum st_ll_rule ll;
    enum st_sym_kernel_rule sym_kernel;
    enum st_ce_rule ce;
    enum st_pdl_rule pdl;
    enum st_tma_rule tma;
    signed char model;        /* revision of the cost model's constants, 1 or 2               */
    enum st_unsure_rule unsure;

    /* cost table */
    bool negative_wins;       /* NCCL prefers a negative entry; false: it is "not available"    */
    bool tie_takes_last;      /* NCCL chooses the last of equal entries; false: the first */
    bool gather_unclamped;    /* a tuner's channel count for AllGather may exceed NCCL's own    */
    bool channels_cap;        /* a tuner's channel count only limits NCCL's; false: replaces it */
    float table_limit;        /* microseconds; NCCL never chooses an entry this high or higher  */
    signed char general;      /* the row in nccl/model/general_cost.c; 0: there is none         */
};

/* Does a profiler get Coll events for symmetric kernels in this release? */
static inline bool st_era_shows_symmetric(const struct st_era *era)
{
    return era->profiler_abi >= 7;
}

/* Return the row of release ${version}; for releases older than the table, the oldest row. Never
 * NULL. */
const struct st_era *st_era_of(int version);

/* Read a release such as "2.28.9" or "22809". "2.28" means the first published release of 2.28.
 * Returns -1 if ${text} is no release. */
int st_release_parse(const char *text);

/* Print 22809 as "2.28.9". Returns ${text}; 16 bytes hold every release. */
char *st_release_print(int version, char *text, size_t size);

/* Return the newest NCCL release that the tables are meant for. release.c says of which releases we
 * could not read the whole source. */
int st_release_newest(void);

/*
 * st_table_pick(era, table, shown, algos, protos, algo_out, proto_out):
 * Find the entry that NCCL chooses from a cost table of ${algos} x ${protos} floats (microseconds).
 * ${era} says how NCCL treats negative entries and ties. ${shown} is the table as NCCL gave it to
 * the tuner; NULL if no tuner changed it. An entry that is negative in ${shown} is for an algorithm
 * that cannot run the call. If a tuner changes such an entry to 0 or more, NCCL before 2.31 may
 * choose it and hang; later releases ignore the change. Returns false if NCCL can choose no entry.
 */
bool st_table_pick(const struct st_era *era, const float *table, const float *shown, int algos,
                   int protos, int *algo_out, int *proto_out);

#endif
