/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - a HloModuleProto, read as far as the editor needs it.
 *
 * Each struct hlo_bytes here points into the caller's bytes, which must live as long as the module.
 */
#ifndef HLO_MODULE_H_
#define HLO_MODULE_H_

#include "jax/hlo/wire.h"

struct hlo_instruction {
    struct hlo_bytes body;
    struct hlo_bytes name, opcode, shape, metadata, attributes, target;
    int64_t id, channel, parameter;
    int64_t operands[2];       /* the first two operands */
    int64_t called, dimension; /* the first called computation, the first dimension */
    size_t operand_count, called_count, dimension_count;
    int global_ids, constrains_layout;
    int shares; /* 1: an operand and the result share memory */
    int newer;  /* 1: the instruction has a field that we do not know */
    int waits;  /* 1: it must run after or near another instruction that need not be its operand */
};

/* One operand of an instruction. */
struct hlo_use {
    uint32_t id; /* the lower half of the operand's id */
    size_t user; /* index in hlo_module.instructions of the instruction with this operand */
};

struct hlo_computation {
    int64_t id, root;
    int is_fusion, is_async;     /* ${is_async}: it runs beside others, or on another thread */
    size_t first, count;         /* where its instructions are in hlo_module.instructions */
    size_t first_use, use_count; /* where its operands are in hlo_module.uses */
};

struct hlo_module {
    struct hlo_bytes bytes, name, devices, frames;
    int scheduled; /* 1: the module says in which order the instructions run */
    struct hlo_computation *computations;
    size_t computation_count, computation_room;
    struct hlo_instruction *instructions;
    size_t instruction_count, instruction_room;
    /* Indices of the instructions. Those of one computation are together, and sorted by the lower
     * half of the instruction's id. */
    uint32_t *by_id;
    struct hlo_use *uses; /* grouped by computation; sorted by id in each group */
    size_t use_count, use_room;
};

/* Read a module. Returns NULL, or why ${bytes} cannot be read. Call hlo_module_free() later in both
 * cases. */
const char *hlo_module_read(struct hlo_bytes bytes, struct hlo_module *module);
void hlo_module_free(struct hlo_module *module);

/* Find a computation, or an instruction, by its id. Returns NULL if there is none. */
const struct hlo_computation *hlo_computation_find(const struct hlo_module *module, int64_t id);
const struct hlo_instruction *hlo_instruction_find(const struct hlo_module *module,
                                                   const struct hlo_computation *computation,
                                                   int64_t id);

/* Find the uses of the result of ${in}. They are *count consecutive elements of module->uses;
 * return the first. */
const struct hlo_use *hlo_uses_find(const struct hlo_module *module,
                                    const struct hlo_computation *computation,
                                    const struct hlo_instruction *in, size_t *count);

/* Return the instruction that uses the result of ${in} as an operand. Returns NULL if no
 * instruction does, or if the result is used more than once. */
const struct hlo_instruction *hlo_user_find(const struct hlo_module *module,
                                            const struct hlo_computation *computation,
                                            const struct hlo_instruction *in);

/* Does ${in} have only one operand, whose buffer nothing else needs? Then XLA can put the result of
 * ${in} into the buffer of the operand, and need not copy the operand. */
int hlo_ends_operand(const struct hlo_module *module, const struct hlo_computation *computation,
                     const struct hlo_instruction *in);

/* Append the ids of all fields ${number} of ${in} to ${ids}. Returns 0, or -1 if such a field holds
 * anything but ids, or if memory ran out. */
int hlo_ids_read(const struct hlo_instruction *in, uint32_t number, struct hlo_numbers *ids);

/* In source.c. Write "file:line" of the user's program to ${text}, or "" if the module does not say
 * it. Returns the column of the call in that line, or 0. */
int hlo_source_line(const struct hlo_module *module, const struct hlo_instruction *in, char *text,
                    size_t size);

/* In source.c. Copy ${bytes} to ${text} as far as they fit, with '?' for each byte that cannot be
 * printed. */
void hlo_text(struct hlo_bytes bytes, char *text, size_t size);

#endif
