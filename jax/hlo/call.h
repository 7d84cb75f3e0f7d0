/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - decide which collectives our custom calls can replace, and write these calls. */
#ifndef HLO_CALL_H_
#define HLO_CALL_H_

#include "jax/hlo/groups.h"
#include "jax/hlo/shape.h"

/* XLA can run its own collectives beside matrix products, but not our calls. So an all-reduce of
 * more bytes than this stays with XLA if a matrix product could run beside it. When our calls ran
 * all sums, a data-parallel step (sums of 8 to 112 MiB) took 3 % longer than with XLA, and a
 * tensor-parallel step (sums of 16 MiB) 2 % longer (2 H200s, bench/results/2026-11-28-h200x2b).
 * With this limit the data-parallel step takes as long as with XLA, and the tensor-parallel step
 * 3 % less (2026-11-28-h200x4). The limit is above 8 MiB, because an earlier data-parallel step
 * with sums of 8 MiB took 3 % less with our calls (2026-11-23-h200x2). */
#define HLO_LONG (12 << 20)

struct hlo_call {
    const struct hlo_instruction *in, *operand;
    struct hlo_groups groups;
    int64_t bytes;   /* size of the operand */
    int64_t parts;   /* longer buffer's length / shorter buffer's; 0: an all-reduce */
    int coll;        /* enum symtuner_ar_coll */
    int op;          /* ncclRedOp_t */
    const char *why; /* why we leave it to XLA; NULL: it can be replaced */
};

/* Is this instruction a collective that we replace or report? */
int hlo_call_is(const struct hlo_instruction *in);

/* Decide whether the collective ${in} can be replaced, and fill ${call}. ${computation} is the one
 * that contains ${in}. ${no_devices}: why ${devices} is not known, or NULL. */
void hlo_call_judge(const struct hlo_module *module, const struct hlo_computation *computation,
                    const struct hlo_instruction *in, const struct hlo_devices *devices,
                    const char *no_devices, struct hlo_call *call);

/* Is this instruction one of our custom calls for an all-reduce? jax.ffi writes such calls before
 * XLA compiles the program. */
int hlo_call_is_ours(const struct hlo_instruction *in);

/* ${in} is one of our calls, or a collective that we want to replace by one. May our call put its
 * result into the buffer of its operand? It may if ${in} is an all-reduce, and if XLA need not copy
 * the operand first. */
int hlo_call_may_share(const struct hlo_module *module, const struct hlo_computation *computation,
                       const struct hlo_instruction *in);

/* Let the custom call whose fields are in ${out} put its result into the buffer of its operand. */
void hlo_call_share(struct hlo_out *out);

/* Can the all-reduce ${in} share one longer call with other all-reduces (join.h)? If so, set *shape
 * to its shape. Only all-reduces can, because their operand and result have the same shape. */
int hlo_call_may_join(const struct hlo_module *module, const struct hlo_computation *computation,
                      const struct hlo_instruction *in, struct hlo_shape *shape);

/* Write the instruction as a custom call of ${target}. If ${flat} is set, the call also has the
 * attribute "flat": its groups as positions in the program's list of devices. */
void hlo_call_put(const struct hlo_call *call, const char *target, int flat, struct hlo_out *out);

/* In overlap.c. Can XLA run ${in} beside a matrix product or a convolution? It can if
 * ${computation}, or a computation that it calls, has a product that does not need the result of
 * ${in}, and whose result ${in} does not need. Returns 1 also if memory is short. */
int hlo_overlaps(const struct hlo_module *module, const struct hlo_computation *computation,
                 const struct hlo_instruction *in);

/* In reduction.c. Set *op to the ncclRedOp_t that does what computation ${id} does to elements of
 * ${type}. Returns NULL, or why there is no such operator. */
const char *hlo_reduction_read(const struct hlo_module *module, int64_t id,
                               const struct hlo_type *type, int *op);

#endif
