/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - which kernel runs a call.
 *
 * Pure: the same question gets the same answer on every rank, which is what keeps ranks from
 * waiting for each other in different kernels. So a question holds nothing that may differ between
 * ranks: no pointer, no alignment of an unregistered buffer, no clock.
 */
#ifndef ST_AR_SELECT_H_
#define ST_AR_SELECT_H_

#include "kernels/shared/args.h"
#include "kernels/choose/probe.h"

enum st_links { ST_LINKS_NVLINK, ST_LINKS_PCIE, ST_LINKS_HOST, ST_LINKS };

struct st_ask {
    uint64_t bytes;
    int ranks;
    int links;      /* enum st_links                                                */
    int dtype, op;  /* NCCL's numbers                                               */
    int dst_mapped; /* peers can write recv: it lies in a registered buffer          */
    int src_mapped; /* peers can read send                                           */
    int in_place;
    int has_nccl;              /* a communicator to fall back on                                */
    int has_copy;              /* copy engines usable: one rank per GPU, peer transport         */
    int has_nvls;              /* multicast address known, sm_90 or later                       */
    int has_multicast;         /* NCCL may use NVLink multicast                                 */
    int max_ctas;              /* blocks that a call may have (st_budget), per rank             */
    uint64_t half[ST_REGIONS]; /* scratch per half, as in struct st_layout               */
    struct st_probe probe;     /* all 0: there was none                                  */
};

/* What a choice follows; the table's kernel may have given way to one that can run the call. */
enum st_because { ST_TABLE_SAYS, ST_PROBE_SAYS, ST_RULE_SAYS, ST_FORCED, ST_CANNOT_RUN };

struct st_choice {
    int family; /* enum st_family                                              */
    int ctas;
    int threads;
    int lag;        /* chunked                                                     */
    uint64_t piece; /* most bytes one launch takes; the last piece may be shorter  */
    int pieces;
    enum st_because because;
    int wanted;                 /* the family before it gave way                              */
    const char *source;         /* provenance of the row                                       */
    const struct st_rule *rule; /* that covers the call (rules.h), or NULL                  */
};

/* What the user forced; NULL and 0 mean free choice. */
struct st_force {
    int family; /* -1: free */
    int ctas;
    int threads;
    int at_most; /* 1: ${ctas} is a limit, as the table's: short messages get fewer */
};

/* 0, or -1 when the forced kernel cannot run this call. */
int st_select(const struct st_ask *ask, const struct st_force *force, struct st_choice *choice);

/* The reason for what st_select answered to ${ask}, as a sentence; apart, since calls need none. */
void st_select_why(const struct st_ask *ask, const struct st_choice *choice, char *why,
                   size_t size);

/* What to say after that of a family which does not add in the library's order; else "". */
const char *st_order_note(int family);

/* Most payload bytes that one launch of ${family} can carry; 0: it cannot run this call at all. */
uint64_t st_capacity(const struct st_ask *ask, int family);

const char *st_family_name(int family);
int st_family_by_name(const char *name); /* -1: unknown */

/* Append the table that applies to (ranks, links) as text; returns the length needed. */
size_t st_select_print(int ranks, int links, char *text, size_t length);

#endif
