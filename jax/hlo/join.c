/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - let small all-reduces share a call. */
#include "jax/hlo/join.h"
#include "jax/hlo/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All-reduces of up to SMALL bytes share calls of up to MOST bytes. XLA copies the operands to join
 * them, and copies the result to split it. These copies take time, so we join no fewer than LEAST.
 * _buckets.py has the same three values. We join at most MANY: XLA can compute and join that many
 * operands in one kernel, but not 130 (test/jax/install/test_compiled.py). */
#define SMALL (64 << 10)
#define MOST  (1 << 20)
#define LEAST 3
#define MANY  64

#define NAME "symtuner_joined." /* names of the instructions that we add begin like this */

/* ---- members -------------------------------------------------------------------------------- */
/* Find the target and the attributes of a custom call. Returns 0, or -1 if the call has a field
 * that may say more about how to run it. */
static int read_call(struct hlo_member *member)
{
    static const uint32_t known[] = {
        HLO_INSTRUCTION_NAME,
        HLO_INSTRUCTION_OPCODE,
        HLO_INSTRUCTION_SHAPE,
        HLO_INSTRUCTION_METADATA,
        HLO_INSTRUCTION_CUSTOM_CALL_TARGET,
        HLO_INSTRUCTION_ID,
        HLO_INSTRUCTION_OPERAND_IDS,
        HLO_INSTRUCTION_BACKEND_CONFIG,
        HLO_INSTRUCTION_FEATURE_GROUP_COUNT,
        HLO_INSTRUCTION_PRECISION_CONFIG,
        HLO_INSTRUCTION_CONSTRAIN_LAYOUT,
        HLO_INSTRUCTION_OPERAND_SHAPES_WITH_LAYOUT,
        HLO_INSTRUCTION_BATCH_GROUP_COUNT,
        HLO_INSTRUCTION_FRONTEND_ATTRIBUTES,
        HLO_INSTRUCTION_CUSTOM_CALL_API_VERSION,
        HLO_INSTRUCTION_STATISTICS_VIZ,
    };
    struct hlo_bytes rest = {member->call.at, member->call.size};
    struct hlo_field field;
    size_t i;

    while (hlo_next(&rest, &field) == 1) {
        for (i = 0; i < sizeof known / sizeof known[0] && known[i] != field.number; i++)
            ;
        if (i == sizeof known / sizeof known[0])
            return -1;
        if (field.number == HLO_INSTRUCTION_CUSTOM_CALL_TARGET)
            member->target = field.bytes;
        if (field.number == HLO_INSTRUCTION_BACKEND_CONFIG)
            member->attributes = field.bytes;
    }
    return member->attributes.size > 0 ? 0 : -1;
}

int hlo_joins_add(struct hlo_joins *joins, const struct hlo_computation *computation,
                  const struct hlo_instruction *in, const struct hlo_shape *shape,
                  struct hlo_bytes call)
{
    struct hlo_member *member;

    if (shape->bytes < 1 || shape->bytes > SMALL)
        return 0;
    if (joins->count == joins->room) {
        size_t room = joins->room > 0 ? 2 * joins->room : 64;

        member = realloc(joins->members, room * sizeof *member);
        if (member == NULL)
            return -1;
        joins->members = member;
        joins->room = room;
    }
    member = &joins->members[joins->count];
    *member = (struct hlo_member){
        .in = in, .computation = computation, .shape = *shape, .bucket = HLO_ALONE};
    hlo_put(&member->call, call);
    if (!member->call.failed && read_call(member) == 0) {
        joins->count++;
        return 0;
    }
    free(member->call.at);
    return member->call.failed ? -1 : 0;
}

static int compare_members(const void *a, const void *b)
{
    const struct hlo_instruction *x = ((const struct hlo_member *)a)->in;
    const struct hlo_instruction *y = ((const struct hlo_member *)b)->in;

    return (x > y) - (x < y);
}

static const struct hlo_member *find_member(const struct hlo_joins *joins,
                                            const struct hlo_instruction *in)
{
    struct hlo_member key = {.in = in};

    return joins->count == 0
               ? NULL
               : bsearch(&key, joins->members, joins->count, sizeof key, compare_members);
}

const struct hlo_member *hlo_joins_find(const struct hlo_joins *joins,
                                        const struct hlo_instruction *in)
{
    const struct hlo_member *member = find_member(joins, in);

    return member != NULL && member->bucket != HLO_ALONE && joins->buckets[member->bucket].count > 0
               ? member
               : NULL;
}

/* ---- the decision --------------------------------------------------------------------------- */
/* Set joins->behind (join.h) for the instructions of a computation. If member A needs the result of
 * member B, even indirectly, A's value is smaller than B's. fill() puts only members with equal
 * values into one bucket. So no shared call needs its own result, not even through other calls.
 *
 * Returns 0, or -1 if an instruction waits for more than its operands. */
static int count_behind(struct hlo_joins *joins, const struct hlo_module *module,
                        const struct hlo_computation *computation)
{
    for (size_t i = computation->first + computation->count; i-- > computation->first;) {
        const struct hlo_instruction *in = &module->instructions[i];
        size_t count;
        const struct hlo_use *uses = hlo_uses_find(module, computation, in, &count);

        if (in->waits)
            return -1;
        for (size_t u = 0; u < count; u++) {
            size_t user = uses[u].user;
            uint32_t behind;

            if (user <= i)
                return -1; /* in a valid module an operand comes before its users */
            behind =
                joins->behind[user] + (find_member(joins, &module->instructions[user]) != NULL);
            if (behind > joins->behind[i])
                joins->behind[i] = behind;
        }
    }
    return 0;
}

static int same_bytes(struct hlo_bytes a, struct hlo_bytes b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* Return the newest bucket with the type and attributes of ${member}, or NULL. Older ones get no
 * more members. ${latest}: the newest bucket for the member's value of joins->behind. */
static struct hlo_bucket *find_bucket(const struct hlo_joins *joins,
                                      const struct hlo_member *member, int latest)
{
    for (int b = latest; b != HLO_ALONE; b = joins->buckets[b].before) {
        const struct hlo_member *first = &joins->members[joins->buckets[b].first];

        if (first->shape.type == member->shape.type &&
            same_bytes(first->attributes, member->attributes))
            return &joins->buckets[b];
    }
    return NULL;
}

/* Put members ${from} to ${to} - 1, of one computation, into buckets. Each bucket gets one call. */
static void fill(struct hlo_joins *joins, const struct hlo_module *module, size_t from, size_t to)
{
    size_t first_bucket = joins->bucket_count;

    for (size_t i = from; i < to; i++)
        joins->latest[joins->behind[joins->members[i].in - module->instructions]] = HLO_ALONE;
    for (size_t i = from; i < to; i++) {
        struct hlo_member *member = &joins->members[i];
        int *latest = &joins->latest[joins->behind[member->in - module->instructions]];
        struct hlo_bucket *bucket = find_bucket(joins, member, *latest);

        if (bucket == NULL || bucket->count == MANY || bucket->bytes + member->shape.bytes > MOST) {
            bucket = &joins->buckets[joins->bucket_count];
            *bucket = (struct hlo_bucket){.first = i, .before = *latest};
            *latest = (int)joins->bucket_count++;
        }
        /* XLA may record the shared call only if it may record each member. So take the shortest
         * target: it lacks "_recordable" if XLA may not record some member. */
        if (bucket->count == 0 || member->target.size < bucket->target.size)
            bucket->target = member->target;
        bucket->last = i;
        bucket->count++;
        bucket->bytes += member->shape.bytes;
        member->bucket = (int)(bucket - joins->buckets);
    }
    for (size_t b = first_bucket; b < joins->bucket_count; b++)
        if (joins->buckets[b].count < LEAST)
            hlo_joins_part(joins, b);
}

void hlo_joins_part(struct hlo_joins *joins, size_t i)
{
    joins->buckets[i].count = 0;
}

/* Set joins->free_id. We need two free ids for each member and two for each bucket. Returns 0, or
 * -1 if there are too few, or if an instruction has a name that we would use. */
static int find_ids(struct hlo_joins *joins, const struct hlo_module *module)
{
    for (size_t i = 0; i < module->instruction_count; i++) {
        const struct hlo_instruction *in = &module->instructions[i];

        if ((uint32_t)in->id >= joins->free_id)
            joins->free_id = (uint32_t)in->id + 1;
        if ((uint32_t)in->id > INT32_MAX ||
            (in->name.size >= sizeof NAME - 1 && memcmp(in->name.at, NAME, sizeof NAME - 1) == 0))
            return -1;
    }
    return joins->count < (INT32_MAX - joins->free_id) / 4 ? 0 : -1;
}

int hlo_joins_decide(struct hlo_joins *joins, const struct hlo_module *module)
{
    size_t to;

    if (joins->count < LEAST || module->scheduled || find_ids(joins, module) != 0)
        return 0;
    joins->behind = calloc(module->instruction_count, sizeof *joins->behind);
    joins->buckets = calloc(joins->count, sizeof *joins->buckets);
    joins->latest = calloc(joins->count + 1, sizeof *joins->latest);
    if (joins->behind == NULL || joins->buckets == NULL || joins->latest == NULL)
        return -1;
    for (size_t from = 0; from < joins->count; from = to) {
        const struct hlo_computation *computation = joins->members[from].computation;

        for (to = from; to < joins->count && joins->members[to].computation == computation; to++)
            ;
        if (to - from >= LEAST && count_behind(joins, module, computation) == 0)
            fill(joins, module, from, to);
    }
    return 0;
}

/* ---- the order ------------------------------------------------------------------------------ */
struct place {
    uint32_t behind;
    size_t instruction;
};

/* Order two instructions for qsort: the one with the larger value of joins->behind comes first. A
 * member's operand has a larger value than the member, and all members of a bucket have the same
 * value. So the operands of all members of a bucket come before its first member. */
static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->behind != y->behind)
        return x->behind > y->behind ? -1 : 1;
    return (x->instruction > y->instruction) - (x->instruction < y->instruction);
}

int hlo_joins_order(const struct hlo_joins *joins, const struct hlo_computation *computation,
                    size_t **order)
{
    struct place *places;
    int found = 0;

    *order = NULL;
    for (size_t b = 0; b < joins->bucket_count; b++)
        found |= joins->buckets[b].count > 0 &&
                 joins->members[joins->buckets[b].first].computation == computation;
    if (!found)
        return 0;
    places = malloc(computation->count * sizeof *places);
    *order = malloc(computation->count * sizeof **order);
    if (places != NULL && *order != NULL) {
        for (size_t i = 0; i < computation->count; i++) {
            size_t at = computation->first + i;

            places[i] = (struct place){joins->behind[at], at};
        }
        qsort(places, computation->count, sizeof *places, compare_places);
        for (size_t i = 0; i < computation->count; i++)
            (*order)[i] = places[i].instruction;
    } else {
        free(*order);
        *order = NULL;
    }
    free(places);
    return 1;
}

/* ---- writing -------------------------------------------------------------------------------- */
static struct hlo_bytes bytes_of(const struct hlo_out *out)
{
    return (struct hlo_bytes){out->at, out->size};
}

/* Append a repeated field of integers, packed. */
static void put_numbers(struct hlo_out *out, uint32_t number, const int64_t *numbers, size_t count)
{
    struct hlo_out packed = {0};

    for (size_t i = 0; i < count; i++)
        hlo_put_int(&packed, (uint64_t)numbers[i]);
    hlo_put_bytes_field(out, number, bytes_of(&packed));
    out->failed |= packed.failed;
    free(packed.at);
}

/* Write the shape of an array of one dimension, as XLA writes it. */
static void put_shape(struct hlo_out *out, const struct hlo_type *type, int64_t count)
{
    struct hlo_out layout = {0};
    int64_t zero = 0;

    put_numbers(&layout, HLO_LAYOUT_MINOR_TO_MAJOR, &zero, 1);
    hlo_put_int_field(&layout, HLO_LAYOUT_TAIL_PADDING_ALIGNMENT_IN_ELEMENTS, 1);
    hlo_put_int_field(out, HLO_SHAPE_ELEMENT_TYPE, (uint64_t)type->xla);
    put_numbers(out, HLO_SHAPE_DIMENSIONS, &count, 1);
    hlo_put_bytes_field(out, HLO_SHAPE_LAYOUT, bytes_of(&layout));
    put_numbers(out, HLO_SHAPE_IS_DYNAMIC_DIMENSION, &zero, 1);
    out->failed |= layout.failed;
    free(layout.at);
}

/* An instruction that we add, or that replaces one of the all-reduces. */
struct added {
    struct hlo_bytes name, shape, metadata;
    int64_t id;
    struct hlo_out own_shape;
    char own_name[48];
};

/* Begin an instruction whose result has ${count} elements in one dimension. XLA may write the id of
 * a computation into the upper half of the ids of its instructions. So the new id gets its upper
 * half from the id of ${member}, and ${id} as its lower half. */
static void begin(struct added *added, const struct hlo_member *member, uint32_t id, int64_t count)
{
    memset(added, 0, sizeof *added);
    added->id = (int64_t)((uint64_t)member->in->id >> 32 << 32 | id);
    snprintf(added->own_name, sizeof added->own_name, NAME "%u", id);
    added->name = (struct hlo_bytes){(const uint8_t *)added->own_name, strlen(added->own_name)};
    put_shape(&added->own_shape, member->shape.type, count);
    added->shape = bytes_of(&added->own_shape);
    added->metadata = member->in->metadata;
}

static void put_head(const struct added *added, const char *opcode, const int64_t *operands,
                     size_t count, struct hlo_out *out)
{
    hlo_put_bytes_field(out, HLO_INSTRUCTION_NAME, added->name);
    hlo_put_bytes_field(out, HLO_INSTRUCTION_OPCODE,
                        (struct hlo_bytes){(const uint8_t *)opcode, strlen(opcode)});
    hlo_put_bytes_field(out, HLO_INSTRUCTION_SHAPE, added->shape);
    hlo_put_bytes_field(out, HLO_INSTRUCTION_METADATA, added->metadata);
    hlo_put_int_field(out, HLO_INSTRUCTION_ID, (uint64_t)added->id);
    put_numbers(out, HLO_INSTRUCTION_OPERAND_IDS, operands, count);
}

/* Append the instruction in ${body} to ${out}. Free ${body} and the shape in ${added}. */
static void end(struct added *added, struct hlo_out *body, uint32_t field, struct hlo_out *out)
{
    hlo_put_bytes_field(out, field, bytes_of(body));
    out->failed |= body->failed | added->own_shape.failed;
    free(body->at);
    free(added->own_shape.at);
}

static int64_t length(const struct hlo_member *member)
{
    return member->shape.bytes / member->shape.type->size;
}

/* Give the operand of an all-reduce one dimension, if it has more. Returns the id of the result. */
static int64_t put_flat(const struct hlo_joins *joins, const struct hlo_member *member,
                        uint32_t field, struct hlo_out *out)
{
    struct hlo_out body = {0};
    struct added added;

    if (member->shape.rank == 1)
        return member->in->operands[0];
    begin(&added, member, joins->free_id + 2 * (uint32_t)(member - joins->members), length(member));
    put_head(&added, "reshape", member->in->operands, 1, &body);
    end(&added, &body, field, out);
    return added.id;
}

/* Return the id of a bucket's concatenated operands. The bucket's call has the next id. */
static uint32_t bucket_id(const struct hlo_joins *joins, int bucket)
{
    return joins->free_id + 2 * (uint32_t)joins->count + 2 * (uint32_t)bucket;
}

/* Write a bucket's shared call: its first member's call, with a new operand, shape and target. */
static void put_call(const struct hlo_bucket *bucket, const struct hlo_member *first, uint32_t id,
                     int64_t operand, int64_t count, uint32_t field, struct hlo_bytes share,
                     struct hlo_out *out)
{
    struct hlo_bytes rest = bytes_of(&first->call);
    struct hlo_out body = {0};
    struct hlo_field part;
    struct added added;

    begin(&added, first, id, count);
    put_head(&added, "custom-call", &operand, 1, &body);
    while (hlo_next(&rest, &part) == 1)
        if (part.number != HLO_INSTRUCTION_NAME && part.number != HLO_INSTRUCTION_OPCODE &&
            part.number != HLO_INSTRUCTION_SHAPE && part.number != HLO_INSTRUCTION_METADATA &&
            part.number != HLO_INSTRUCTION_ID && part.number != HLO_INSTRUCTION_OPERAND_IDS &&
            part.number != HLO_INSTRUCTION_CUSTOM_CALL_TARGET &&
            part.number != HLO_INSTRUCTION_OPERAND_SHAPES_WITH_LAYOUT)
            hlo_put(&body, part.whole);
    hlo_put_bytes_field(&body, HLO_INSTRUCTION_CUSTOM_CALL_TARGET, bucket->target);
    hlo_put_bytes_field(&body, HLO_INSTRUCTION_OPERAND_SHAPES_WITH_LAYOUT, added.shape);
    hlo_put(&body, share);
    end(&added, &body, field, out);
}

/* Write the instructions that join the operands of a bucket, and then the bucket's shared call. */
static void put_bucket(const struct hlo_joins *joins, const struct hlo_member *first,
                       uint32_t field, struct hlo_bytes share, struct hlo_out *out)
{
    const struct hlo_bucket *bucket = &joins->buckets[first->bucket];
    uint32_t id = bucket_id(joins, first->bucket);
    int64_t operands[MANY], count = bucket->bytes / first->shape.type->size, zero = 0;
    struct hlo_out body = {0};
    struct added added;
    size_t n = 0;

    for (size_t i = bucket->first; i <= bucket->last; i++)
        if (joins->members[i].bucket == first->bucket)
            operands[n++] = put_flat(joins, &joins->members[i], field, out);
    begin(&added, first, id, count);
    put_head(&added, "concatenate", operands, n, &body);
    put_numbers(&body, HLO_INSTRUCTION_DIMENSIONS, &zero, 1);
    end(&added, &body, field, out);
    put_call(bucket, first, id + 1, added.id, count, field, share, out);
}

/* Cut one all-reduce's part out of the shared call's result. The part gets the all-reduce's id. */
static void put_part(const struct hlo_joins *joins, const struct hlo_member *member, uint32_t field,
                     struct hlo_out *out)
{
    uint32_t id = joins->free_id + 2 * (uint32_t)(member - joins->members) + 1;
    struct hlo_out body = {0}, cut = {0};
    struct added added, whole;
    int64_t from = 0;

    for (size_t i = joins->buckets[member->bucket].first; &joins->members[i] < member; i++)
        if (joins->members[i].bucket == member->bucket)
            from += length(&joins->members[i]);
    hlo_put_int_field(&cut, HLO_SLICE_DIMENSIONS_START, (uint64_t)from);
    hlo_put_int_field(&cut, HLO_SLICE_DIMENSIONS_LIMIT, (uint64_t)(from + length(member)));
    hlo_put_int_field(&cut, HLO_SLICE_DIMENSIONS_STRIDE, 1);
    begin(&whole, member, bucket_id(joins, member->bucket) + 1, 0);
    begin(&added, member, id, length(member));
    if (member->shape.rank == 1) {
        added.id = member->in->id;
        added.name = member->in->name;
    }
    put_head(&added, "slice", &whole.id, 1, &body);
    hlo_put_bytes_field(&body, HLO_INSTRUCTION_SLICE_DIMENSIONS, bytes_of(&cut));
    end(&added, &body, field, out);
    if (member->shape.rank != 1) {
        int64_t operand = added.id;
        struct hlo_out reshape = {0};

        added = (struct added){.name = member->in->name,
                               .shape = member->in->shape,
                               .metadata = member->in->metadata,
                               .id = member->in->id};
        put_head(&added, "reshape", &operand, 1, &reshape);
        end(&added, &reshape, field, out);
    }
    out->failed |= cut.failed;
    free(cut.at);
    free(whole.own_shape.at);
}

void hlo_joins_put(const struct hlo_joins *joins, const struct hlo_member *member, uint32_t field,
                   struct hlo_bytes share, struct hlo_out *out)
{
    const struct hlo_member *first = &joins->members[joins->buckets[member->bucket].first];

    if (member == first)
        put_bucket(joins, first, field, share, out);
    put_part(joins, member, field, out);
}

void hlo_joins_free(struct hlo_joins *joins)
{
    for (size_t i = 0; i < joins->count; i++)
        free(joins->members[i].call.at);
    free(joins->members);
    free(joins->buckets);
    free(joins->behind);
    free(joins->latest);
    memset(joins, 0, sizeof *joins);
}
