/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - which rule applies to a call: by scan, and by an index built once per communicator.
 *
 * Both give the same answer for every call (test/check_match.c compares them); the scan is the
 * definition, the index is for getCollInfo, which has nanoseconds. Pure: no I/O, no globals; only
 * st_index_build allocates.
 *
 * Units      bytes are NCCL's nBytes.
 * Ownership  an index points into the rules it was built from and must not outlive them.
 * Threads    any, once built.
 * Errors     none: "no rule" is an answer.
 */
#ifndef ST_MATCH_H_
#define ST_MATCH_H_

#include "rules/rules.h"

struct st_call {
    int coll;
    uint64_t bytes;
    int pipe_ops;
    bool registered;
};

/* What all calls of one communicator share. */
struct st_group {
    int nccl, ranks, nodes;
    struct symtuner_machine machine;
};

/* The first rule, from index ${from} on, that covers the call; NULL when none does. */
const struct st_rule *st_match(const symtuner_rules *rules, int from, const struct st_group *group,
                               const struct st_call *call);

struct st_index;

/* NULL when out of memory. Freed with free(). */
struct st_index *st_index_build(const symtuner_rules *rules, const struct st_group *group);
const struct st_rule *st_index_find(const struct st_index *index, const struct st_call *call);

#endif
