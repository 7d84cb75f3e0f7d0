/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - read a HloModuleProto. */
#include "jax/hlo/module.h"
#include "jax/hlo/fields.h"

#include <stdlib.h>
#include <string.h>

static const char no_message[] = "the module cannot be read";
static const char no_memory[] = "memory is short";

/* Make room for one more element of ${size} bytes, all zero. Returns NULL if memory is short. */
static void *grow(void *array, size_t *count, size_t *room, size_t size)
{
    char *all = *(char **)array;

    if (*count == *room) {
        *room = *room > 0 ? 2 * *room : 64;
        all = realloc(all, *room * size);
        if (all == NULL) {
            *room = *count;
            return NULL;
        }
        *(char **)array = all;
    }
    return memset(all + (*count)++ * size, 0, size);
}

/* Store the first ${room} ids of a repeated field in ${ids}, and add the number of all its ids to
 * *count. */
static int read_ids(const struct hlo_field *field, int64_t *ids, size_t room, size_t *count)
{
    struct hlo_numbers numbers = {0};
    int result = hlo_numbers_read(&numbers, field);

    for (size_t i = 0; result == 0 && i < numbers.count; i++, (*count)++)
        if (*count < room)
            ids[*count] = numbers.at[i];
    free(numbers.at);
    return result;
}

/* Add the operand ids in ${field} to module->uses, as operands of the instruction that was read
 * last. */
static int read_uses(const struct hlo_field *field, struct hlo_module *module)
{
    struct hlo_numbers ids = {0};
    int result = hlo_numbers_read(&ids, field);

    for (size_t i = 0; result == 0 && i < ids.count; i++) {
        struct hlo_use *use =
            grow(&module->uses, &module->use_count, &module->use_room, sizeof *use);

        if (use == NULL)
            result = -1;
        else
            *use = (struct hlo_use){(uint32_t)ids.at[i], module->instruction_count - 1};
    }
    free(ids.at);
    return result;
}

/* Do frontend attributes put the instruction into a group whose instructions XLA schedules
 * together? */
static int is_in_group(struct hlo_bytes rest)
{
    struct hlo_field entry, field;

    while (hlo_next(&rest, &entry) == 1) {
        struct hlo_bytes pair = entry.bytes;

        if (hlo_next(&pair, &field) == 1 && hlo_is(field.bytes, "_scheduling_group_id"))
            return 1;
    }
    return 0;
}

static int compare_uses(const void *a, const void *b)
{
    const struct hlo_use *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int read_instruction_field(const struct hlo_field *field, struct hlo_instruction *in)
{
    switch (field->number) {
    case HLO_INSTRUCTION_NAME:
        in->name = field->bytes;
        break;
    case HLO_INSTRUCTION_OPCODE:
        in->opcode = field->bytes;
        break;
    case HLO_INSTRUCTION_SHAPE:
        in->shape = field->bytes;
        break;
    case HLO_INSTRUCTION_METADATA:
        in->metadata = field->bytes;
        break;
    case HLO_INSTRUCTION_FRONTEND_ATTRIBUTES:
        in->attributes = field->bytes;
        in->waits |= is_in_group(field->bytes);
        break;
    case HLO_INSTRUCTION_CUSTOM_CALL_TARGET:
        in->target = field->bytes;
        break;
    case HLO_INSTRUCTION_ID:
        in->id = (int64_t)field->value;
        break;
    case HLO_INSTRUCTION_CHANNEL_ID:
        in->channel = (int64_t)field->value;
        break;
    case HLO_INSTRUCTION_PARAMETER_NUMBER:
        in->parameter = (int64_t)field->value;
        break;
    case HLO_INSTRUCTION_USE_GLOBAL_DEVICE_IDS:
        in->global_ids = field->value != 0;
        break;
    case HLO_INSTRUCTION_CONSTRAIN_LAYOUT:
        in->constrains_layout = field->value != 0;
        break;
    case HLO_INSTRUCTION_CONTROL_PREDECESSOR_IDS:
        in->waits = 1;
        break;
    case HLO_INSTRUCTION_OUTPUT_OPERAND_ALIASING:
        in->shares = 1;
        break;
    case HLO_INSTRUCTION_OPERAND_IDS:
        return read_ids(field, in->operands, 2, &in->operand_count);
    case HLO_INSTRUCTION_DIMENSIONS:
        return read_ids(field, &in->dimension, 1, &in->dimension_count);
    case HLO_INSTRUCTION_CALLED_COMPUTATION_IDS:
        return read_ids(field, &in->called, 1, &in->called_count);
    default:
        in->newer |= field->number > HLO_INSTRUCTION_NEWEST;
    }
    return 0;
}

static const char *read_instruction(struct hlo_bytes body, struct hlo_module *module)
{
    struct hlo_instruction *in = grow(&module->instructions, &module->instruction_count,
                                      &module->instruction_room, sizeof *in);
    struct hlo_bytes rest = body;
    struct hlo_field field;
    int more;

    if (in == NULL)
        return no_memory;
    in->body = body;
    while ((more = hlo_next(&rest, &field)) != 0)
        if (more < 0 || read_instruction_field(&field, in) != 0 ||
            (field.number == HLO_INSTRUCTION_OPERAND_IDS && read_uses(&field, module) != 0))
            return no_message;
    return NULL;
}

static const char *read_computation(struct hlo_bytes rest, struct hlo_module *module)
{
    struct hlo_computation *computation = grow(&module->computations, &module->computation_count,
                                               &module->computation_room, sizeof *computation);
    struct hlo_field field;
    const char *why = NULL;
    int more;

    if (computation == NULL)
        return no_memory;
    computation->first = module->instruction_count;
    computation->first_use = module->use_count;
    while (why == NULL && (more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            why = no_message;
        else if (field.number == HLO_COMPUTATION_INSTRUCTIONS)
            why = field.type == HLO_BYTES ? read_instruction(field.bytes, module) : no_message;
        else if (field.number == HLO_COMPUTATION_ID)
            computation->id = (int64_t)field.value;
        else if (field.number == HLO_COMPUTATION_ROOT_ID)
            computation->root = (int64_t)field.value;
        else if (field.number == HLO_COMPUTATION_IS_FUSION_COMPUTATION)
            computation->is_fusion = field.value != 0;
        else if (field.number == HLO_COMPUTATION_EXECUTION_THREAD)
            computation->is_async = field.bytes.size > 0 && !hlo_is(field.bytes, "main");
    }
    computation->count = module->instruction_count - computation->first;
    computation->use_count = module->use_count - computation->first_use;
    if (computation->use_count > 0)
        qsort(module->uses + computation->first_use, computation->use_count, sizeof *module->uses,
              compare_uses);
    return why;
}

struct named {
    uint32_t id; /* the lower half of an instruction's id */
    uint32_t index;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;

    if (x->id != y->id)
        return x->id > y->id ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Set module->by_id. Returns 0, or -1 if memory is short. */
static int sort_by_id(struct hlo_module *module)
{
    struct named *named = calloc(module->instruction_count + 1, sizeof *named);

    module->by_id = calloc(module->instruction_count + 1, sizeof *module->by_id);
    if (named == NULL || module->by_id == NULL) {
        free(named);
        return -1;
    }
    for (size_t i = 0; i < module->instruction_count; i++)
        named[i] = (struct named){(uint32_t)module->instructions[i].id, (uint32_t)i};
    for (size_t c = 0; c < module->computation_count; c++)
        qsort(named + module->computations[c].first, module->computations[c].count, sizeof *named,
              compare_named);
    for (size_t i = 0; i < module->instruction_count; i++)
        module->by_id[i] = named[i].index;
    free(named);
    return 0;
}

/* Mark the computations that asynchronous instructions run. */
static void mark_async(struct hlo_module *module)
{
    for (size_t i = 0; i < module->instruction_count; i++) {
        const struct hlo_instruction *in = &module->instructions[i];

        if (in->called_count == 0 || in->opcode.size <= 6 ||
            memcmp(in->opcode.at, "async-", 6) != 0)
            continue;
        for (size_t c = 0; c < module->computation_count; c++)
            module->computations[c].is_async |= module->computations[c].id == in->called;
    }
}

const char *hlo_module_read(struct hlo_bytes bytes, struct hlo_module *module)
{
    struct hlo_bytes rest = bytes;
    struct hlo_field field;
    const char *why = NULL;
    int more;

    memset(module, 0, sizeof *module);
    module->bytes = bytes;
    while (why == NULL && (more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            why = no_message;
        else if (field.number == HLO_MODULE_COMPUTATIONS)
            why = field.type == HLO_BYTES ? read_computation(field.bytes, module) : no_message;
        else if (field.number == HLO_MODULE_NAME)
            module->name = field.bytes;
        else if (field.number == HLO_MODULE_DEVICE_ASSIGNMENT)
            module->devices = field.bytes;
        else if (field.number == HLO_MODULE_SCHEDULE)
            module->scheduled = 1;
        else if (field.number == HLO_MODULE_STACK_FRAME_INDEX)
            module->frames = field.bytes;
    }
    if (why == NULL && sort_by_id(module) != 0)
        why = no_memory;
    mark_async(module);
    return why;
}

void hlo_module_free(struct hlo_module *module)
{
    free(module->computations);
    free(module->instructions);
    free(module->by_id);
    free(module->uses);
    memset(module, 0, sizeof *module);
}

const struct hlo_computation *hlo_computation_find(const struct hlo_module *module, int64_t id)
{
    for (size_t i = 0; i < module->computation_count; i++)
        if (module->computations[i].id == id)
            return &module->computations[i];
    return NULL;
}

/* Compare only the lower halves of the ids, which are unique within a computation. Newer releases
 * of XLA put the computation's id into the upper half of an instruction's id, but some fields that
 * refer to the instruction have only the lower half. */
const struct hlo_instruction *hlo_instruction_find(const struct hlo_module *module,
                                                   const struct hlo_computation *computation,
                                                   int64_t id)
{
    const uint32_t *by_id = module->by_id + computation->first;
    size_t low = 0, high = computation->count;

    while (low < high) { /* the first ${low} entries of ${by_id} have smaller ids */
        size_t middle = low + (high - low) / 2;

        if ((uint32_t)module->instructions[by_id[middle]].id < (uint32_t)id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < computation->count && (uint32_t)module->instructions[by_id[low]].id == (uint32_t)id
               ? &module->instructions[by_id[low]]
               : NULL;
}

const struct hlo_use *hlo_uses_find(const struct hlo_module *module,
                                    const struct hlo_computation *computation,
                                    const struct hlo_instruction *in, size_t *count)
{
    const struct hlo_use *uses = module->uses + computation->first_use;
    size_t low = 0, high = computation->use_count;

    *count = 0;
    while (low < high) { /* at the end ${low} is the first use of ${in}, or where one would be */
        size_t middle = low + (high - low) / 2;

        if (uses[middle].id < (uint32_t)in->id)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + *count < computation->use_count && uses[low + *count].id == (uint32_t)in->id)
        ++*count;
    return uses + low;
}

const struct hlo_instruction *hlo_user_find(const struct hlo_module *module,
                                            const struct hlo_computation *computation,
                                            const struct hlo_instruction *in)
{
    size_t count;
    const struct hlo_use *uses = hlo_uses_find(module, computation, in, &count);

    return count == 1 ? &module->instructions[uses->user] : NULL;
}

int hlo_ids_read(const struct hlo_instruction *in, uint32_t number, struct hlo_numbers *ids)
{
    struct hlo_bytes rest = in->body;
    struct hlo_field field;

    while (hlo_next(&rest, &field) == 1)
        if (field.number == number && hlo_numbers_read(ids, &field) != 0)
            return -1;
    return 0;
}

int hlo_ends_operand(const struct hlo_module *module, const struct hlo_computation *computation,
                     const struct hlo_instruction *in)
{
    /* The results of these instructions may lie in memory that something else needs, such as an
     * argument. */
    static const char *const borrowed[] = {
        "bitcast",           "constant",  "copy",  "copy-done", "domain",
        "get-tuple-element", "parameter", "tuple", "transpose", "optimization-barrier",
    };
    const struct hlo_instruction *operand = in;

    do { /* go back over reshapes, whose results are in the memory of their operands */
        if (operand->operand_count != 1)
            return 0;
        in = operand;
        operand = hlo_instruction_find(module, computation, in->operands[0]);
        if (operand == NULL || hlo_user_find(module, computation, operand) != in ||
            (uint32_t)operand->id == (uint32_t)computation->root)
            return 0;
    } while (hlo_is(operand->opcode, "reshape"));
    for (size_t i = 0; i < sizeof borrowed / sizeof borrowed[0]; i++)
        if (hlo_is(operand->opcode, borrowed[i]))
            return 0;
    return 1;
}
