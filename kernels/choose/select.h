/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - chooses the kernel that runs a call.
 *
 * The functions are pure. All ranks must choose the same kernel, or they would wait for each other
 * for ever. So struct ar_ask holds nothing that may differ between ranks: no pointer, no time, and
 * no alignment of an unregistered buffer.
 */
#ifndef AR_SELECT_H_
#define AR_SELECT_H_

#include "kernels/shared/args.h"
#include "kernels/choose/families.h"
#include "kernels/choose/probe.h"
#include "kernels/choose/rows.h"

/* The values of enum symtuner_ar_beside, for files that do not include CUDA's headers. In rules and
 * variables, users write these values as the words of st_beside_words (nccl/names.h). */
enum ar_beside { AR_BESIDE_UNKNOWN, AR_BESIDE_NOTHING, AR_BESIDE_COMPUTE };

/* One call, and what its group can do. Regions of scratch and their halves are explained in
 * kernels/shared/layout.h, arenas in arenas.h. */
struct ar_ask {
    int coll;       /* enum ar_coll */
    uint64_t bytes; /* length of the message, all parts together (ar_coll_parts) */
    int ranks;
    int links;                 /* enum ar_links */
    int dtype, op;             /* NCCL's numbers; op may also be AR_PREMUL */
    int beside;                /* enum ar_beside */
    int dst_mapped;            /* whether peers can write recv: registered and 16-byte aligned */
    int src_mapped;            /* whether peers can read send: registered and 16-byte aligned */
    int registered;            /* whether both buffers are registered; rules can ask for that */
    int in_place;              /* whether send and recv share memory, as in NCCL's in-place calls */
    int has_nccl;              /* whether there is a communicator, so that NCCL can run the call */
    int has_copy;              /* whether copy engines can run: one rank per GPU, peer memory */
    int has_nvls;              /* whether both buffers have multicast addresses */
    int has_multicast;         /* whether NCCL can use NVLink multicast, and ranks is 4 or more */
    int has_tma;               /* whether AR_NEEDS_TMA (families.h) is met */
    int has_ipc;               /* whether AR_NEEDS_IPC (families.h) is met */
    int max_ctas;              /* limit of this call's blocks on each rank (ar_most_ctas) */
    uint64_t half[AR_REGIONS]; /* [r]: bytes of the longest half of region r in any usable arena */
    unsigned without;          /* bit a: the call must not use arena a */
    struct ar_probe probe;     /* all fields are 0 if no probe ran */
};

/* What decided which kernel runs. If the kernel that the table names cannot run the call, another
 * kernel runs instead, and the value is still AR_TABLE_SAYS. */
enum ar_because { AR_TABLE_SAYS, AR_PROBE_SAYS, AR_RULE_SAYS, AR_FORCED, AR_CANNOT_RUN };

struct ar_choice {
    int family;     /* enum ar_family */
    int ctas;       /* blocks */
    int threads;    /* threads per block */
    int lag;        /* for kernel chunked: how many tiles it sends ahead of the one it adds up */
    uint64_t piece; /* bytes of the message that one launch moves; the last piece may be shorter */
    int pieces;     /* number of pieces */
    enum ar_because because;
    int wanted;                 /* the family that the table names, or that was forced */
    const char *source;         /* where the numbers in the table's row come from */
    const struct st_rule *rule; /* the rule that covers the call (rules.h), or NULL */
};

/* What the user forced. */
struct ar_force {
    int family;  /* -1: not forced */
    int ctas;    /* 0: not forced */
    int threads; /* 0: not forced */
    int at_most; /* 1: ${ctas} is a limit, as in the table, so short messages get fewer blocks */
};

/* Write to ${choice} how to run the call ${ask}. Returns 0, or -1 if the forced kernel cannot run
 * it. */
int ar_select(const struct ar_ask *ask, const struct ar_force *force, struct ar_choice *choice);

/* Write to ${why} why ar_select made this ${choice}. */
void ar_select_why(const struct ar_ask *ask, const struct ar_choice *choice, char *why,
                   size_t size);

/* Return a text for users that says who chooses the order of addition in ${family}, or "" if the
 * family adds in the usual order of symtuner_ar.h. */
const char *ar_order_note(int family);

/* Return the length in bytes of the longest message that one launch of ${family} can move, or 0 if
 * the family cannot run this call at all. */
uint64_t ar_capacity(const struct ar_ask *ask, int family);

/* Return the bytes of one part of the message. The message of an all-reduce is one part. */
static inline uint64_t ar_part_bytes(const struct ar_ask *ask)
{
    return ask->bytes / (uint64_t)ar_coll_parts(ask->coll, ask->ranks);
}

/* Write to ${text} the rows of the table that can apply to calls of the group in ${ask}. This
 * leaves out, for example, rows for other links or another number of ranks. Returns the length of
 * the whole text, which may exceed ${length}. */
size_t ar_select_print(const struct ar_ask *ask, char *text, size_t length);

#endif
