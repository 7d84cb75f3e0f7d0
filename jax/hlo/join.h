/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.h - let small all-reduces share a call: one call reduces the operands of several
 * all-reduces.
 *
 * XLA's combiner joins XLA's own all-reduces in this way, but it does not join our calls. Which
 * calls we join depends only on the module, on which of its calls are ours, and on their
 * attributes. So all processes of a program join the same calls. The targets of the calls have no
 * influence: they may differ between processes, because a process may compile other programs at the
 * same time.
 */
#ifndef HLO_JOIN_H_
#define HLO_JOIN_H_

#include "jax/hlo/module.h"
#include "jax/hlo/shape.h"

#define HLO_ALONE (-1)

/* One all-reduce that may share a call. */
struct hlo_member {
    const struct hlo_instruction *in;
    const struct hlo_computation *computation;
    struct hlo_shape shape;
    struct hlo_out call;                 /* its own custom call, which is used if it shares none */
    struct hlo_bytes target, attributes; /* target and attributes of ${call} */
    int bucket;                          /* index in hlo_joins.buckets, or HLO_ALONE */
};

/* All-reduces that share one call. */
struct hlo_bucket {
    size_t first, last; /* indices in hlo_joins.members of the first and the last of them */
    int count;          /* 0: they do not share a call after all */
    struct hlo_bytes target;
    int64_t bytes;
    int before; /* the previous bucket with the same value of ${behind}, or HLO_ALONE */
};

struct hlo_joins {
    struct hlo_member *members; /* in the order of the instructions */
    struct hlo_bucket *buckets;
    size_t count, room, bucket_count;
    /* [instruction]: the number of members in the longest chain after this instruction. The first
     * member of a chain needs the result of the instruction, and each further member needs the
     * result of the member before it. */
    uint32_t *behind;
    int *latest;      /* [value of ${behind}]: the last bucket of members with this value */
    uint32_t free_id; /* no instruction has this id or a larger one */
};

/* Add an all-reduce that may share a call. The caller adds all-reduces in the order of their
 * instructions. ${call} is copied. Returns 0, or -1 if memory is short. */
int hlo_joins_add(struct hlo_joins *joins, const struct hlo_computation *computation,
                  const struct hlo_instruction *in, const struct hlo_shape *shape,
                  struct hlo_bytes call);

/* Decide which of the all-reduces that were added share calls. Returns 0, or -1 if memory is
 * short. */
int hlo_joins_decide(struct hlo_joins *joins, const struct hlo_module *module);

/* Undo shared call ${i}, so that each of its all-reduces has a call of its own. */
void hlo_joins_part(struct hlo_joins *joins, size_t i);

/* If ${in} is an all-reduce that shares a call, return its struct hlo_member; otherwise return
 * NULL. */
const struct hlo_member *hlo_joins_find(const struct hlo_joins *joins,
                                        const struct hlo_instruction *in);

/* Does any instruction of the computation share a call? If so, set *order to the order in which its
 * instructions must be written. In this order the operands of all members of a bucket come before
 * the first of these members, and each member comes before the instructions that use it. *order has
 * ${computation->count} indices of module->instructions; free it with free(). If memory is short,
 * *order is NULL. */
int hlo_joins_order(const struct hlo_joins *joins, const struct hlo_computation *computation,
                    size_t **order);

/* Write the instructions that take the place of a member that shares a call, each as a field with
 * number ${field}. For the first member of a bucket, first write the shared call itself, with
 * ${share} appended to its fields. */
void hlo_joins_put(const struct hlo_joins *joins, const struct hlo_member *member, uint32_t field,
                   struct hlo_bytes share, struct hlo_out *out);

void hlo_joins_free(struct hlo_joins *joins);

#endif
