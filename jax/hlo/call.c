/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - decide which collectives our custom calls can replace, and write these calls. */
#include "jax/hlo/call.h"
#include "jax/hlo/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER }; /* enum symtuner_ar_coll */

/* ---- the collectives ------------------------------------------------------------------------ */
typedef const char *judge(const struct hlo_module *module,
                          const struct hlo_computation *computation,
                          const struct hlo_instruction *in, struct hlo_call *call);
static judge judge_all_reduce, judge_reduce_scatter, judge_all_gather;

static const struct kind {
    const char *opcode;
    int coll;        /* enum symtuner_ar_coll */
    judge *judge;    /* NULL: we leave this kind to XLA */
    const char *why; /* why we leave it to XLA, if ${judge} is NULL */
} kinds[] = {
    {"all-reduce", ALL_REDUCE, judge_all_reduce, NULL},
    {"all-reduce-start", ALL_REDUCE, NULL, "XLA runs it beside other work"},
    {"reduce-scatter", REDUCE_SCATTER, judge_reduce_scatter, NULL},
    {"all-gather", ALL_GATHER, judge_all_gather, NULL},
    {"all-gather-start", ALL_GATHER, NULL, "XLA runs it beside other work"},
};

static const struct kind *find_kind(const struct hlo_instruction *in)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (hlo_is(in->opcode, kinds[i].opcode))
            return &kinds[i];
    return NULL;
}

int hlo_call_is(const struct hlo_instruction *in)
{
    return find_kind(in) != NULL;
}

/* Does an instruction have frontend attributes that may say how to run it? We ignore only
 * is_spmd_generated, which says where the instruction comes from. */
static int has_wishes(struct hlo_bytes rest)
{
    struct hlo_field entry, field;

    while (hlo_next(&rest, &entry) == 1) {
        struct hlo_bytes pair = entry.bytes;

        if (hlo_next(&pair, &field) != 1 || !hlo_is(field.bytes, "is_spmd_generated"))
            return 1;
    }
    return 0;
}

/* Check what must hold for every collective, and read the shapes of its result and its operand. */
static const char *judge_any(const struct hlo_module *module,
                             const struct hlo_computation *computation,
                             const struct hlo_instruction *in, struct hlo_call *call,
                             struct hlo_shape *result, struct hlo_shape *input)
{
    const char *why;

    if (in->newer)
        return "it has a field that only a newer XLA has";
    if (in->operand_count != 1)
        return "it has several operands";
    if (in->constrains_layout)
        return "it constrains its layout";
    if (has_wishes(in->attributes))
        return "it has frontend attributes, which may say how to run it";
    if (computation->is_fusion)
        return "it is part of a fusion";
    if (computation->is_async)
        return "XLA runs it beside other work";
    why = hlo_shape_read(in->shape, result);
    if (why != NULL)
        return why;
    call->operand = hlo_instruction_find(module, computation, in->operands[0]);
    if (call->operand == NULL || hlo_shape_read(call->operand->shape, input) != NULL)
        return "its operand has another layout";
    call->bytes = input->bytes;
    return NULL;
}

static const char *judge_reduction(const struct hlo_module *module,
                                   const struct hlo_instruction *in, const struct hlo_type *type,
                                   int *op)
{
    return in->called_count == 1 ? hlo_reduction_read(module, in->called, type, op)
                                 : "it does not name its reduction";
}

static const char *judge_all_reduce(const struct hlo_module *module,
                                    const struct hlo_computation *computation,
                                    const struct hlo_instruction *in, struct hlo_call *call)
{
    struct hlo_shape result, input;
    const char *why = judge_any(module, computation, in, call, &result, &input);

    if (why == NULL && !hlo_shape_same(&result, &input))
        why = "its operand has another shape";
    return why != NULL ? why : judge_reduction(module, in, result.type, &call->op);
}

/* ---- reduce-scatters and all-gathers --------------------------------------------------------- */
/* Check that the collective cuts the first dimension, not counting dimensions of size 1. Otherwise
 * a rank's part is not contiguous, and our kernels need contiguous parts. So we leave other calls
 * to XLA, which copies the data to make the parts contiguous. Also sets *parts. */
static const char *judge_cut(const struct hlo_instruction *in, const struct hlo_shape *longer,
                             const struct hlo_shape *shorter, int64_t *parts)
{
    struct hlo_shape one = *shorter;
    int d = (int)in->dimension;

    if (in->dimension_count != 1 || in->dimension < 0 || in->dimension >= longer->rank ||
        shorter->rank != longer->rank || shorter->dimensions[d] < 1)
        return "its dimension is not one of its shape";
    *parts = longer->dimensions[d] / shorter->dimensions[d];
    one.dimensions[d] = longer->dimensions[d];
    if (!hlo_shape_same(&one, longer) || *parts * shorter->dimensions[d] != longer->dimensions[d])
        return "its operand has another shape";
    for (int i = 0; i < d; i++)
        if (longer->dimensions[i] != 1)
            return "it cuts another dimension than the first, so XLA must copy";
    return NULL;
}

static const char *judge_reduce_scatter(const struct hlo_module *module,
                                        const struct hlo_computation *computation,
                                        const struct hlo_instruction *in, struct hlo_call *call)
{
    struct hlo_shape result, input;
    const char *why = judge_any(module, computation, in, call, &result, &input);

    if (why == NULL)
        why = judge_cut(in, &input, &result, &call->parts);
    return why != NULL ? why : judge_reduction(module, in, result.type, &call->op);
}

static const char *judge_all_gather(const struct hlo_module *module,
                                    const struct hlo_computation *computation,
                                    const struct hlo_instruction *in, struct hlo_call *call)
{
    struct hlo_shape result, input;
    const char *why = judge_any(module, computation, in, call, &result, &input);

    return why != NULL ? why : judge_cut(in, &result, &input, &call->parts);
}

/* Check that the longer buffer of a reduce-scatter or an all-gather has one part for each rank, and
 * that the ranks are in the order of device ids. Our groups have that order, and it determines
 * which part belongs to which rank. */
static const char *judge_places(const struct hlo_call *call)
{
    if (call->parts != call->groups.ranks)
        return "it has not one part for each rank";
    return call->groups.in_order ? NULL
                                 : "the ranks of its groups are not in the order of device ids";
}

/* ---- all-reduces that XLA runs better ------------------------------------------------------- */
/* After XLA has shown us the program, its passes ReduceScatterCreator and
 * WhileLoopAllReduceCodeMotion replace some all-reduces by something cheaper. They cannot do that
 * with our calls, so we leave these all-reduces to XLA. We read in XLA's source what the passes
 * replace, and saw it in programs for an H100 (test/jax/install/test_compiled.py). */

/* is_of_rank() looks at this many instructions at most. */
#define STEPS 64

static int is_one_of(const struct hlo_instruction *in, const char *const *opcodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (hlo_is(in->opcode, opcodes[i]))
            return 1;
    return 0;
}

#define IS_ONE_OF(in, opcodes) is_one_of(in, opcodes, sizeof(opcodes) / sizeof(opcodes)[0])

/* Return the only instruction that uses the result of ${in}, and skip instructions that just change
 * the result's type, shape or layout. *before becomes the last skipped instruction, or ${in} if
 * none was skipped. Returns NULL if there is no such instruction. */
static const struct hlo_instruction *find_user(const struct hlo_module *module,
                                               const struct hlo_computation *computation,
                                               const struct hlo_instruction *in,
                                               const struct hlo_instruction **before)
{
    static const char *const same[] = {"reshape", "bitcast", "convert", "copy", "transpose"};
    const struct hlo_instruction *user;

    for (size_t steps = 0; steps < computation->count; steps++) {
        *before = in;
        user = hlo_user_find(module, computation, in);
        if (user == NULL || !IS_ONE_OF(user, same))
            return user;
        in = user;
    }
    return NULL; /* a cycle, which a valid module does not have */
}

static int is_of_rank(const struct hlo_module *module, const struct hlo_computation *computation,
                      const struct hlo_instruction *in, int *steps);

/* Does an operand of ${in} depend on the rank's number? Operands before index ${first} do not
 * count. */
static int has_operand_of_rank(const struct hlo_module *module,
                               const struct hlo_computation *computation,
                               const struct hlo_instruction *in, size_t first, int *steps)
{
    struct hlo_numbers ids = {0};
    int found = 0;

    hlo_ids_read(in, HLO_INSTRUCTION_OPERAND_IDS, &ids);
    for (size_t i = first; !found && i < ids.count; i++) {
        in = hlo_instruction_find(module, computation, ids.at[i]);
        found = in != NULL && is_of_rank(module, computation, in, steps);
    }
    free(ids.at);
    return found;
}

/* Does the result of ${in} depend on the number of the rank that runs the program? If so, ${in} can
 * be the offset of the rank's own part. We go back through the operands, but only through the
 * opcodes that XLA goes through. A dynamic-slice among them looks the offset up in a table. So its
 * first operand, the table, does not count. */
static int is_of_rank(const struct hlo_module *module, const struct hlo_computation *computation,
                      const struct hlo_instruction *in, int *steps)
{
    static const char *const numbers[] = {"partition-id", "replica-id"};
    static const char *const followed[] = {"add",  "bitcast",       "clamp",    "convert",
                                           "copy", "dynamic-slice", "multiply", "reshape"};

    if (IS_ONE_OF(in, numbers))
        return 1;
    return (*steps)-- > 0 && IS_ONE_OF(in, followed) &&
           has_operand_of_rank(module, computation, in, hlo_is(in->opcode, "dynamic-slice"), steps);
}

/* Does each rank use only its own part of the result, as for the gradients of sharded weights? Then
 * XLA turns the all-reduce into a reduce-scatter, if there is one part for each rank of a group. If
 * we cannot read the shapes, we assume that there is one part for each rank. */
static int is_cut(const struct hlo_module *module, const struct hlo_computation *computation,
                  const struct hlo_call *call)
{
    const struct hlo_instruction *before;
    const struct hlo_instruction *user = find_user(module, computation, call->in, &before);
    struct hlo_shape whole, part;
    int steps = STEPS;

    if (user == NULL || !hlo_is(user->opcode, "dynamic-slice") ||
        (uint32_t)user->operands[0] != (uint32_t)before->id ||
        !has_operand_of_rank(module, computation, user, 1, &steps))
        return 0;
    return hlo_shape_read(before->shape, &whole) != NULL ||
           hlo_shape_read(user->shape, &part) != NULL ||
           whole.bytes == part.bytes * call->groups.ranks;
}

static int is_body_of_loop(const struct hlo_module *module,
                           const struct hlo_computation *computation)
{
    for (size_t i = 0; i < module->instruction_count; i++)
        if (module->instructions[i].called == computation->id &&
            module->instructions[i].called_count > 0 &&
            hlo_is(module->instructions[i].opcode, "while"))
            return 1;
    return 0;
}

/* Does each iteration of a loop just add the result to a loop-carried value, as when gradients are
 * accumulated? Then XLA lets each rank add up its own values in the loop, and makes one all-reduce
 * after the loop. */
static int is_accumulated(const struct hlo_module *module,
                          const struct hlo_computation *computation,
                          const struct hlo_instruction *in)
{
    const struct hlo_instruction *before, *sum, *tuple, *carried, *loop;

    sum = find_user(module, computation, in, &before);
    if (sum == NULL || !hlo_is(sum->opcode, "add") || sum->operand_count != 2)
        return 0;
    tuple = hlo_user_find(module, computation, sum);
    if (tuple == NULL || !hlo_is(tuple->opcode, "tuple") ||
        (uint32_t)tuple->id != (uint32_t)computation->root)
        return 0;
    carried = hlo_instruction_find(
        module, computation, sum->operands[(uint32_t)sum->operands[0] == (uint32_t)before->id]);
    if (carried == NULL || !hlo_is(carried->opcode, "get-tuple-element") ||
        hlo_user_find(module, computation, carried) != sum)
        return 0;
    loop = hlo_instruction_find(module, computation, carried->operands[0]);
    return loop != NULL && hlo_is(loop->opcode, "parameter") &&
           is_body_of_loop(module, computation);
}

/* Can XLA move the call out of a loop? It moves only sums, and none of complex numbers or 8-bit
 * floats. */
static int may_leave_loop(const struct hlo_call *call)
{
    struct hlo_shape shape;

    return call->op == 0 && hlo_shape_read(call->in->shape, &shape) == NULL &&
           shape.type->parts == 1 && !(shape.type->is_float && shape.type->size == 1);
}

static const char *judge_rewrites(const struct hlo_module *module,
                                  const struct hlo_computation *computation,
                                  const struct hlo_call *call)
{
    if (is_cut(module, computation, call))
        return "XLA may make a reduce-scatter of it";
    if (may_leave_loop(call) && is_accumulated(module, computation, call->in))
        return "XLA may move it out of its loop";
    if (call->bytes > HLO_LONG && hlo_overlaps(module, computation, call->in))
        return "XLA may run it beside matrix products";
    return NULL;
}

void hlo_call_judge(const struct hlo_module *module, const struct hlo_computation *computation,
                    const struct hlo_instruction *in, const struct hlo_devices *devices,
                    const char *no_devices, struct hlo_call *call)
{
    const struct kind *kind = find_kind(in);

    memset(call, 0, sizeof *call);
    call->in = in;
    call->coll = kind->coll;
    call->why = kind->judge != NULL ? kind->judge(module, computation, in, call) : kind->why;
    if (call->why == NULL)
        call->why = no_devices;
    if (call->why == NULL)
        call->why = hlo_groups_read(in, devices, &call->groups);
    if (call->why == NULL)
        call->why = call->coll == ALL_REDUCE ? judge_rewrites(module, computation, call)
                                             : judge_places(call);
}

/* ---- the call ------------------------------------------------------------------------------- */
static int is_dropped(uint32_t number)
{
    static const uint32_t dropped[] = {
        HLO_INSTRUCTION_OPCODE,
        HLO_INSTRUCTION_DIMENSIONS,
        HLO_INSTRUCTION_CHANNEL_ID,
        HLO_INSTRUCTION_CALLED_COMPUTATION_IDS,
        HLO_INSTRUCTION_BACKEND_CONFIG,
        HLO_INSTRUCTION_ALL_REDUCE_ID,
        HLO_INSTRUCTION_REPLICA_GROUPS,
        HLO_INSTRUCTION_USE_GLOBAL_DEVICE_IDS,
        HLO_INSTRUCTION_COLLECTIVE_DEVICE_LIST,
        HLO_INSTRUCTION_IOTA_COLLECTIVE_DEVICE_LIST,
        HLO_INSTRUCTION_MESH_AXES_REPLICA_GROUP_LIST,
        HLO_INSTRUCTION_BACKEND_CONFIG_PAYLOAD,
    };

    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++)
        if (dropped[i] == number)
            return 1;
    return 0;
}

static void put_ids(struct hlo_out *out, const char *name, const int64_t *ids, int count)
{
    char text[64];

    hlo_put_text(out, name);
    hlo_put_text(out, " = dense<[");
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, i > 0 ? ", %lld" : "%lld", (long long)ids[i]);
        hlo_put_text(out, text);
    }
    snprintf(text, sizeof text, "]> : tensor<%dxi64>", count);
    hlo_put_text(out, text);
}

/* Write the attributes as jax.ffi writes them for _all_reduce.py. frame.c reads this form. */
static void put_attributes(struct hlo_out *out, const struct hlo_call *call, int flat)
{
    const struct hlo_groups *groups = &call->groups;
    char text[64];

    hlo_put_text(out, "{");
    if (call->coll != ALL_REDUCE) {
        snprintf(text, sizeof text, "coll = %d : i32, ", call->coll);
        hlo_put_text(out, text);
    }
    if (flat) {
        put_ids(out, "flat", groups->places, groups->rows * groups->ranks);
        hlo_put_text(out, ", ");
    }
    put_ids(out, "groups", groups->ids, groups->rows * groups->ranks);
    snprintf(text, sizeof text, ", op = %d : i32, ranks = %d : i32}", call->op, groups->ranks);
    hlo_put_text(out, text);
}

static struct hlo_bytes text_bytes(const char *text)
{
    return (struct hlo_bytes){(const uint8_t *)text, strlen(text)};
}

void hlo_call_put(const struct hlo_call *call, const char *target, int flat, struct hlo_out *out)
{
    struct hlo_bytes rest = call->in->body;
    struct hlo_out attributes = {0};
    struct hlo_field field;

    while (hlo_next(&rest, &field) == 1)
        if (!is_dropped(field.number))
            hlo_put(out, field.whole);
    put_attributes(&attributes, call, flat);
    hlo_put_bytes_field(out, HLO_INSTRUCTION_OPCODE, text_bytes("custom-call"));
    hlo_put_bytes_field(out, HLO_INSTRUCTION_CUSTOM_CALL_TARGET, text_bytes(target));
    hlo_put_bytes_field(out, HLO_INSTRUCTION_BACKEND_CONFIG,
                        (struct hlo_bytes){attributes.at, attributes.size});
    hlo_put_int_field(out, HLO_INSTRUCTION_CONSTRAIN_LAYOUT, 1);
    hlo_put_bytes_field(out, HLO_INSTRUCTION_OPERAND_SHAPES_WITH_LAYOUT, call->operand->shape);
    hlo_put_int_field(out, HLO_INSTRUCTION_CUSTOM_CALL_API_VERSION, HLO_API_VERSION_TYPED_FFI);
    out->failed |= attributes.failed;
    free(attributes.at);
}

/* ---- calls in place ------------------------------------------------------------------------- */
int hlo_call_is_ours(const struct hlo_instruction *in)
{
    static const char ours[] = "symtuner_all_reduce";

    return hlo_is(in->opcode, "custom-call") && in->target.size >= sizeof ours - 1 &&
           memcmp(in->target.at, ours, sizeof ours - 1) == 0;
}

int hlo_call_may_share(const struct hlo_module *module, const struct hlo_computation *computation,
                       const struct hlo_instruction *in)
{
    const struct hlo_instruction *operand;
    struct hlo_shape result, input;

    if (!(hlo_is(in->opcode, "all-reduce") || hlo_call_is_ours(in)) || in->shares ||
        !hlo_ends_operand(module, computation, in))
        return 0;
    operand = hlo_instruction_find(module, computation, in->operands[0]);
    return hlo_shape_read(in->shape, &result) == NULL &&
           hlo_shape_read(operand->shape, &input) == NULL && hlo_shape_same(&result, &input);
}

/* XLA takes this empty message to mean that the result shares memory with operand 0. */
void hlo_call_share(struct hlo_out *out)
{
    hlo_put_bytes_field(out, HLO_INSTRUCTION_OUTPUT_OPERAND_ALIASING, text_bytes(""));
}

int hlo_call_may_join(const struct hlo_module *module, const struct hlo_computation *computation,
                      const struct hlo_instruction *in, struct hlo_shape *shape)
{
    const struct hlo_instruction *operand;
    struct hlo_shape input;

    if (in->operand_count != 1 || has_wishes(in->attributes) || computation->is_fusion ||
        computation->is_async)
        return 0;
    operand = hlo_instruction_find(module, computation, in->operands[0]);
    return operand != NULL && hlo_shape_read(in->shape, shape) == NULL &&
           hlo_shape_read(operand->shape, &input) == NULL && hlo_shape_same(shape, &input);
}
