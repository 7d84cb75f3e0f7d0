/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - which kernel runs a call.
 *
 * Pure functions: all ranks must choose the same kernel, or they would wait for each other. So
 * struct ar_ask holds nothing that may differ between ranks: no pointer, no alignment of an
 * unregistered buffer, no time.
 */
#ifndef AR_SELECT_H_
#define AR_SELECT_H_

#include "kernels/shared/args.h"
#include "kernels/choose/families.h"
#include "kernels/choose/probe.h"
#include "kernels/choose/rows.h"

/* enum symtuner_ar_beside, without CUDA's headers; the words are st_beside_words. */
enum ar_beside { AR_BESIDE_UNKNOWN, AR_BESIDE_NOTHING, AR_BESIDE_COMPUTE };

struct ar_ask {
    int coll;       /* enum ar_coll                                                 */
    uint64_t bytes; /* of the message: of all parts, see ar_coll_parts()            */
    int ranks;
    int links;      /* enum ar_links                                                */
    int dtype, op;  /* NCCL's numbers                                               */
    int beside;     /* enum ar_beside                                               */
    int dst_mapped; /* peers can write recv: it lies in a registered buffer          */
    int src_mapped; /* peers can read send                                           */
    int in_place;
    int has_nccl;              /* a communicator to fall back on                                */
    int has_copy;              /* copy engines usable: one rank per GPU, peer transport         */
    int has_nvls;              /* multicast address known, sm_90 or later                       */
    int has_multicast;         /* NCCL may use NVLink multicast                                 */
    int has_tma;               /* AR_NEEDS_TMA                                                  */
    int has_ipc;               /* AR_NEEDS_IPC                                                  */
    int max_ctas;              /* blocks that a call may have (ar_budget), per rank             */
    uint64_t half[AR_REGIONS]; /* scratch per half: the most that a call may use         */
    unsigned without;          /* bit a: without arena a (kernels/choose/arenas.h)      */
    struct ar_probe probe;     /* all 0: no probe ran                                    */
};

/* Who chose the kernel. AR_TABLE_SAYS also stands for the fallback if the table's kernel cannot run
 * the call. */
enum ar_because { AR_TABLE_SAYS, AR_PROBE_SAYS, AR_RULE_SAYS, AR_FORCED, AR_CANNOT_RUN };

struct ar_choice {
    int family; /* enum ar_family                                              */
    int ctas;
    int threads;
    int lag;        /* tiles between push and reduce, for chunked                  */
    uint64_t piece; /* most bytes one launch takes; the last piece may be shorter  */
    int pieces;
    enum ar_because because;
    int wanted;                 /* the family before any fallback */
    const char *source;         /* where the table's row comes from */
    const struct st_rule *rule; /* the rule that covers the call (rules.h), or NULL */
};

/* What the user forced; -1 and 0 leave the choice free. */
struct ar_force {
    int family; /* -1: free */
    int ctas;
    int threads;
    int at_most; /* 1: ${ctas} is a limit, as in the table: short messages get fewer */
};

/* Choose how to run ${ask}, in ${choice}. Returns 0, or -1 if the forced kernel cannot run it. */
int ar_select(const struct ar_ask *ask, const struct ar_force *force, struct ar_choice *choice);

/* Write the reason for the ${choice} of ar_select to ${why}. */
void ar_select_why(const struct ar_ask *ask, const struct ar_choice *choice, char *why,
                   size_t size);

/* Return a remark to append if ${family} does not add in the library's order, else "". */
const char *ar_order_note(int family);

/* Return the most payload bytes of a message that one launch of ${family} can take, 0 if it cannot
 * run this call at all. */
uint64_t ar_capacity(const struct ar_ask *ask, int family);

/* Return the bytes of one part of the message: all of it in all-reduce. */
static inline uint64_t ar_part_bytes(const struct ar_ask *ask)
{
    return ask->bytes / (uint64_t)ar_coll_parts(ask->coll, ask->ranks);
}

/* Write to ${text} the rows for the ranks, the links and the hint of ${ask}, and for groups with or
 * without NCCL; returns the length of the whole text. */
size_t ar_select_print(const struct ar_ask *ask, char *text, size_t length);

#endif
