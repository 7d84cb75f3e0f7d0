/* SPDX-License-Identifier: Apache-2.0 */
/* reduction.c - find out by which operator a computation reduces, such as addition. */
#include "jax/hlo/call.h"

#include <string.h>

/* ${floats}, ${complex}: do our kernels give XLA's result for these types? ${floats} is 0 for
 * maximum and minimum: XLA's keep a NaN, but our kernels, like NCCL's, drop a NaN if the other
 * operand is a number. */
static const struct {
    const char *opcode;
    int op; /* ncclRedOp_t */
    int floats, complex;
} reductions[] = {
    {"add", 0, 1, 1},
    {"multiply", 1, 1, 0},
    {"maximum", 2, 0, 0},
    {"minimum", 3, 0, 0},
};

static int is_scalar(const struct hlo_instruction *in, const struct hlo_type *type)
{
    struct hlo_shape shape;

    return hlo_shape_read(in->shape, &shape) == NULL && shape.rank == 0 && shape.type == type;
}

/* If the computation is one operation on its two parameters, and if result and parameters have the
 * type ${type}, return the instruction that does this operation. Otherwise return NULL, for example
 * if the computation converts numbers to float32 and back: this rounds differently from our
 * kernels. */
static const struct hlo_instruction *find_operation(const struct hlo_module *module, int64_t id,
                                                    const struct hlo_type *type)
{
    const struct hlo_computation *computation = hlo_computation_find(module, id);
    const struct hlo_instruction *root, *in;
    int parameters = 0;

    if (computation == NULL)
        return NULL;
    root = hlo_instruction_find(module, computation, computation->root);
    if (root == NULL || root->operand_count != 2 || !is_scalar(root, type))
        return NULL;
    for (int i = 0; i < 2; i++) {
        in = hlo_instruction_find(module, computation, root->operands[i]);
        if (in == NULL || !hlo_is(in->opcode, "parameter") || !is_scalar(in, type) ||
            in->parameter < 0 || in->parameter > 1)
            return NULL;
        parameters |= 1 << in->parameter;
    }
    return parameters == 3 ? root : NULL;
}

const char *hlo_reduction_read(const struct hlo_module *module, int64_t id,
                               const struct hlo_type *type, int *op)
{
    const struct hlo_instruction *root = find_operation(module, id, type);

    for (size_t i = 0; root != NULL && i < sizeof reductions / sizeof reductions[0]; i++) {
        if (!hlo_is(root->opcode, reductions[i].opcode))
            continue;
        if (type->parts == 2 && !reductions[i].complex)
            return "complex numbers can be summed only";
        if (type->is_float && !reductions[i].floats)
            return "the kernels' maximum and minimum of floats lose a NaN";
        *op = reductions[i].op;
        return NULL;
    }
    return "its reduction is not a sum, product, maximum or minimum of two numbers of its type";
}
