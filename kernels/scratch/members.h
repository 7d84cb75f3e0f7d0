/* SPDX-License-Identifier: Apache-2.0 */
/* members.h - a list of those ranks of a new group whose handles one thread creates. The list
 * exists only while the group is created. */
#ifndef AR_MEMBERS_H_
#define AR_MEMBERS_H_

#include "kernels/group/handle.h"

struct ar_members {
    symtuner_ar *handles[AR_MAX_RANKS];
    int n;                      /* number of handles */
    bool single;                /* whether every thread of the group creates only one rank */
    const struct ar_nccl *nccl; /* NULL: a local group; handles has all its ranks */
    struct ar_endpoint *endpoints[AR_MAX_RANKS];
    char why[AR_WHY]; /* why the last step failed, here or on another rank */
    bool lost;        /* whether the other ranks cannot be reached any more */
};

/* Write the reason why a step failed on this rank to m->why, and return ${result}. */
ncclResult_t __attribute__((format(printf, 3, 4)))
ar_members_fail(struct ar_members *m, ncclResult_t result, const char *format, ...);

/* Agree on the outcome of a step: if it failed on any rank, all ranks return an error. ${result}
 * and m->why are the outcome on this rank. */
ncclResult_t ar_members_agree(struct ar_members *m, ncclResult_t result);

/* From now on, leave all calls of these ranks to NCCL. ${why} is the reason that users see. */
void ar_members_gate(struct ar_members *m, const char *why);

/*
 * ar_members_open(m, word, open):
 * Collective: let all ranks open a shared memory object that is named after the group and ${word}.
 * First rank 0 creates the object, then the other ranks open it, then its name is removed. ${open}
 * opens the object ${name} for one rank, and with ${create} it creates the object first. After an
 * error it writes the reason to ${why} (AR_WHY bytes). If one rank fails, all ranks return an
 * error.
 */
ncclResult_t ar_members_open(struct ar_members *m, const char *word,
                             ncclResult_t (*open)(symtuner_ar *h, const char *name, bool create,
                                                  char *why));

#endif
