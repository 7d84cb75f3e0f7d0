/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - which kernel runs a call.
 *
 * Pure: the same question gets the same answer on every rank, which is what keeps ranks from
 * waiting for each other in different kernels. So a question holds nothing that may differ between
 * ranks: no pointer, no alignment of an unregistered buffer, no clock.
 */
#ifndef AR_SELECT_H_
#define AR_SELECT_H_

#include "kernels/shared/args.h"
#include "kernels/choose/families.h"
#include "kernels/choose/probe.h"

enum ar_links { AR_LINKS_NVLINK, AR_LINKS_PCIE, AR_LINKS_HOST, AR_LINKS };

struct ar_ask {
    uint64_t bytes;
    int ranks;
    int links;      /* enum ar_links                                                */
    int dtype, op;  /* NCCL's numbers                                               */
    int dst_mapped; /* peers can write recv: it lies in a registered buffer          */
    int src_mapped; /* peers can read send                                           */
    int in_place;
    int has_nccl;              /* a communicator to fall back on                                */
    int has_copy;              /* copy engines usable: one rank per GPU, peer transport         */
    int has_nvls;              /* multicast address known, sm_90 or later                       */
    int has_multicast;         /* NCCL may use NVLink multicast                                 */
    int max_ctas;              /* blocks that a call may have (ar_budget), per rank             */
    uint64_t half[AR_REGIONS]; /* scratch per half, as in struct ar_layout               */
    struct ar_probe probe;     /* all 0: there was none                                  */
};

/* What a choice follows; the table's kernel may have given way to one that can run the call. */
enum ar_because { AR_TABLE_SAYS, AR_PROBE_SAYS, AR_RULE_SAYS, AR_FORCED, AR_CANNOT_RUN };

struct ar_choice {
    int family; /* enum ar_family                                              */
    int ctas;
    int threads;
    int lag;        /* chunked                                                     */
    uint64_t piece; /* most bytes one launch takes; the last piece may be shorter  */
    int pieces;
    enum ar_because because;
    int wanted;                 /* the family before it gave way                              */
    const char *source;         /* provenance of the row                                       */
    const struct st_rule *rule; /* that covers the call (rules.h), or NULL                  */
};

/* What the user forced; NULL and 0 mean free choice. */
struct ar_force {
    int family; /* -1: free */
    int ctas;
    int threads;
    int at_most; /* 1: ${ctas} is a limit, as the table's: short messages get fewer */
};

/* 0, or -1 when the forced kernel cannot run this call. */
int ar_select(const struct ar_ask *ask, const struct ar_force *force, struct ar_choice *choice);

/* The reason for what ar_select answered to ${ask}, as a sentence; apart, since calls need none. */
void ar_select_why(const struct ar_ask *ask, const struct ar_choice *choice, char *why,
                   size_t size);

/* What to say after that of a family which does not add in the library's order; else "". */
const char *ar_order_note(int family);

/* Most payload bytes that one launch of ${family} can carry; 0: it cannot run this call at all. */
uint64_t ar_capacity(const struct ar_ask *ask, int family);

/* Append the table that applies to (ranks, links) as text; returns the length needed. */
size_t ar_select_print(int ranks, int links, char *text, size_t length);

#endif
