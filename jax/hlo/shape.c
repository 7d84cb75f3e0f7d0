/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - read a ShapeProto. */
#include "jax/hlo/shape.h"
#include "jax/hlo/fields.h"

#include <stdlib.h>
#include <string.h>

static const char no_message[] = "its shape cannot be read";
static const char other_layout[] = "its layout is not the default one";

/* Accept only the default layout, which lists the dimensions from the last to the first. XLA also
 * always writes a tail padding of 1. Any other field describes a layout that the kernels do not
 * support. */
static const char *check_layout(struct hlo_bytes rest, int rank)
{
    struct hlo_numbers order = {0};
    struct hlo_field field;
    const char *why = NULL;
    int more;

    while (why == NULL && (more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            why = no_message;
        else if (field.number == HLO_LAYOUT_MINOR_TO_MAJOR)
            why = hlo_numbers_read(&order, &field) != 0 ? no_message : NULL;
        else if (field.type != HLO_VARINT ||
                 field.value > (field.number == HLO_LAYOUT_TAIL_PADDING_ALIGNMENT_IN_ELEMENTS))
            why = other_layout;
    }
    if (why == NULL && order.count != (size_t)rank)
        why = other_layout;
    for (int i = 0; why == NULL && i < rank; i++)
        if (order.at[i] != rank - 1 - i)
            why = other_layout;
    free(order.at);
    return why;
}

static const char *set_dimensions(struct hlo_shape *shape, const struct hlo_numbers *sizes)
{
    if (sizes->count > HLO_DIMENSIONS)
        return "it has too many dimensions";
    shape->rank = (int)sizes->count;
    shape->bytes = shape->type->size;
    for (int i = 0; i < shape->rank; i++) {
        shape->dimensions[i] = sizes->at[i];
        if (sizes->at[i] < 0 || __builtin_mul_overflow(shape->bytes, sizes->at[i], &shape->bytes))
            return no_message;
    }
    return NULL;
}

static const char *read_fields(struct hlo_bytes rest, struct hlo_shape *shape,
                               struct hlo_numbers *sizes, struct hlo_bytes *layout)
{
    struct hlo_numbers dynamic = {0};
    struct hlo_field field;
    const char *why = NULL;
    int more, type = 0;

    while (why == NULL && (more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            why = no_message;
        else if (field.number == HLO_SHAPE_ELEMENT_TYPE)
            type = field.value < 1000 ? (int)field.value : 0;
        else if (field.number == HLO_SHAPE_DIMENSIONS)
            why = hlo_numbers_read(sizes, &field) != 0 ? no_message : NULL;
        else if (field.number == HLO_SHAPE_IS_DYNAMIC_DIMENSION)
            why = hlo_numbers_read(&dynamic, &field) != 0 ? no_message : NULL;
        else if (field.number == HLO_SHAPE_LAYOUT && field.type == HLO_BYTES)
            *layout = field.bytes;
        else
            why = "it has several operands";
    }
    for (size_t i = 0; why == NULL && i < dynamic.count; i++)
        if (dynamic.at[i] != 0)
            why = "it has a dynamic dimension";
    free(dynamic.at);
    shape->type = hlo_type_find(type);
    return why != NULL || shape->type != NULL ? why : "NCCL has no such type";
}

const char *hlo_shape_read(struct hlo_bytes bytes, struct hlo_shape *shape)
{
    struct hlo_numbers sizes = {0};
    struct hlo_bytes layout = {NULL, 0};
    const char *why;

    memset(shape, 0, sizeof *shape);
    why = read_fields(bytes, shape, &sizes, &layout);
    if (why == NULL)
        why = set_dimensions(shape, &sizes);
    if (why == NULL)
        why = layout.at == NULL ? "it has no layout yet" : check_layout(layout, shape->rank);
    free(sizes.at);
    return why;
}

int hlo_shape_same(const struct hlo_shape *a, const struct hlo_shape *b)
{
    return a->type == b->type && a->rank == b->rank &&
           memcmp(a->dimensions, b->dimensions, sizeof a->dimensions) == 0;
}
