/* SPDX-License-Identifier: Apache-2.0 */
/* forms.c - read replica groups in their three forms: lists of ids; the numbers 0, 1, 2, ...,
 * reshaped and transposed; axes of a mesh. */
#include "jax/hlo/groups.h"
#include "jax/hlo/fields.h"

#include <stdlib.h>

static const char no_message[] = "its replica groups cannot be read";
static const char not_once[] = "its replica groups do not have each device once";
static const char no_memory[] = "memory is short";

#define NOBODY (-1)

struct forms {
    int64_t *group, *order;
    int64_t count, next; /* ${next}: the number for the next group of a list */
    int64_t joined;      /* how many ids have been put into groups so far */
    int disordered;      /* 1: ${order} is not the order in which the instruction lists the ids */
};

static const char *join(struct forms *forms, int64_t id, int64_t group)
{
    if (id < 0 || id >= forms->count || forms->group[id] != NOBODY)
        return not_once;
    forms->group[id] = group;
    forms->order[id] = ++forms->joined;
    return NULL;
}

/* ---- lists --------------------------------------------------------------------------------- */
static const char *read_group(struct forms *forms, struct hlo_bytes rest)
{
    struct hlo_numbers ids = {0};
    struct hlo_field field;
    const char *why = NULL;
    int more;

    while (why == NULL && (more = hlo_next(&rest, &field)) != 0)
        if (more < 0 || field.number != HLO_REPLICA_GROUP_REPLICA_IDS ||
            hlo_numbers_read(&ids, &field) != 0)
            why = no_message;
    for (size_t i = 0; why == NULL && i < ids.count; i++)
        why = join(forms, ids.at[i], forms->next);
    forms->next++;
    free(ids.at);
    return why;
}

static const char *read_lists(struct forms *forms, struct hlo_bytes rest)
{
    struct hlo_field field;
    const char *why = NULL;
    int more;

    while (why == NULL && (more = hlo_next(&rest, &field)) != 0)
        why = more < 0 || field.number != HLO_COLLECTIVE_DEVICE_LIST_REPLICA_GROUPS ||
                      field.type != HLO_BYTES
                  ? no_message
                  : read_group(forms, field.bytes);
    return why;
}

/* ---- numbers from 0, reshaped and transposed ------------------------------------------------ */
/* Arrange the numbers 0, 1, ..., ${count} - 1 in an array of shape ${sizes}. Transpose the array by
 * ${order} unless ${order} is empty, and write it row by row to ${ids}. */
static const char *transpose(const struct hlo_numbers *sizes, const struct hlo_numbers *order,
                             int64_t *ids, int64_t count)
{
    int64_t stride[16], axis[16], product = 1, rest;
    size_t n = sizes->count;
    unsigned seen = 0;

    if (n == 0 || n > 16 || (order->count != n && order->count != 0))
        return no_message;
    for (size_t i = n; i-- > 0;) {
        stride[i] = product;
        if (sizes->at[i] < 1 || __builtin_mul_overflow(product, sizes->at[i], &product) ||
            product > count)
            return no_message;
    }
    if (product != count)
        return not_once;
    for (size_t i = 0; i < n; i++) {
        int64_t from = order->count > 0 ? order->at[i] : (int64_t)i;

        if (from < 0 || from >= (int64_t)n || (seen & 1u << from) != 0)
            return no_message;
        seen |= 1u << from;
        axis[i] = from;
    }
    for (int64_t at = 0; at < count; at++) {
        ids[at] = 0;
        rest = at;
        for (size_t i = n; i-- > 0;) { /* the last dimension varies fastest */
            ids[at] += rest % sizes->at[axis[i]] * stride[axis[i]];
            rest /= sizes->at[axis[i]];
        }
    }
    return NULL;
}

static const char *read_iota(struct forms *forms, struct hlo_bytes rest)
{
    struct hlo_numbers sizes = {0}, order = {0};
    struct hlo_field field;
    const char *why = NULL;
    int64_t groups = 0, each = 0, product, *ids;
    int more;

    while (why == NULL && (more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            why = no_message;
        else if (field.number == HLO_IOTA_REPLICA_GROUP_LIST_NUM_REPLICA_GROUPS)
            groups = (int64_t)field.value;
        else if (field.number == HLO_IOTA_REPLICA_GROUP_LIST_NUM_DEVICES_PER_GROUP)
            each = (int64_t)field.value;
        else if (field.number == HLO_IOTA_REPLICA_GROUP_LIST_IOTA_RESHAPE_DIMS)
            why = hlo_numbers_read(&sizes, &field) != 0 ? no_message : NULL;
        else if (field.number == HLO_IOTA_REPLICA_GROUP_LIST_IOTA_TRANSPOSE_PERM)
            why = hlo_numbers_read(&order, &field) != 0 ? no_message : NULL;
        else
            why = no_message;
    }
    if (why == NULL && (groups < 1 || each < 1 || __builtin_mul_overflow(groups, each, &product) ||
                        product != forms->count))
        why = not_once;
    ids = malloc((size_t)forms->count * sizeof *ids);
    if (why == NULL)
        why = ids == NULL ? no_memory : transpose(&sizes, &order, ids, forms->count);
    for (int64_t i = 0; why == NULL && i < forms->count; i++)
        why = join(forms, ids[i], i / each);
    free(ids);
    free(sizes.at);
    free(order.at);
    return why;
}

/* ---- axes of a mesh ------------------------------------------------------------------------- */
struct mesh {
    struct hlo_numbers sizes; /* sizes of the axes */
    int64_t *ids;             /* [position]: the id at this position of the mesh */
    int64_t *group;           /* [position]: the first position of this position's group */
    int64_t last;             /* step between neighbours on the axis read last; 0: none was read */
    int disordered;           /* 1: an axis was listed before one with a larger step */
};

static const char *read_axis(struct mesh *mesh, struct hlo_bytes rest)
{
    struct hlo_field field;
    const char *why = "its mesh has an axis without a size";
    int more;

    while ((more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            return no_message;
        if (field.number == HLO_MESH_AXIS_SIZE && field.type == HLO_VARINT)
            why = hlo_numbers_read(&mesh->sizes, &field) != 0 ? no_memory : NULL;
    }
    return why;
}

static const char *read_transform(struct hlo_bytes rest, struct hlo_numbers *sizes,
                                  struct hlo_numbers *order)
{
    struct hlo_field field;
    int more;

    while ((more = hlo_next(&rest, &field)) != 0) {
        struct hlo_numbers *numbers = field.number == HLO_IOTA_TRANSFORM_RESHAPE_DIMS     ? sizes
                                      : field.number == HLO_IOTA_TRANSFORM_TRANSPOSE_PERM ? order
                                                                                          : NULL;

        if (more < 0 || numbers == NULL || hlo_numbers_read(numbers, &field) != 0)
            return no_message;
    }
    return NULL;
}

/* Read the ids in a mesh. They are a list, or the numbers from 0 on, which may be reshaped and
 * transposed. */
static const char *read_mesh(struct mesh *mesh, struct hlo_bytes rest, int64_t count)
{
    struct hlo_numbers ids = {0}, sizes = {0}, order = {0};
    struct hlo_field field;
    const char *why = NULL;
    int64_t product = 1;
    int more;

    while (why == NULL && (more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            why = no_message;
        else if (field.number == HLO_MESH_AXES && field.type == HLO_BYTES)
            why = read_axis(mesh, field.bytes);
        else if (field.number == HLO_MESH_DEVICE_IDS)
            why = hlo_numbers_read(&ids, &field) != 0 ? no_message : NULL;
        else if (field.number == HLO_MESH_IOTA_TRANSFORM && field.type == HLO_BYTES)
            why = read_transform(field.bytes, &sizes, &order);
        else
            why = no_message;
    }
    for (size_t i = 0; why == NULL && i < mesh->sizes.count; i++)
        if (mesh->sizes.at[i] < 1 || __builtin_mul_overflow(product, mesh->sizes.at[i], &product) ||
            product > count)
            why = not_once;
    if (why == NULL &&
        (product != count || (ids.count != 0 && (ids.count != (size_t)count || sizes.count != 0))))
        why = not_once;
    if (why == NULL && sizes.count > 0)
        why = transpose(&sizes, &order, mesh->ids, count);
    else
        for (int64_t i = 0; why == NULL && i < count; i++)
            mesh->ids[i] = ids.count > 0 ? ids.at[i] : i;
    free(ids.at);
    free(sizes.at);
    free(order.at);
    return why;
}

static const char *read_part(struct hlo_bytes rest, int64_t *before, int64_t *size)
{
    struct hlo_field field;
    int more;

    while ((more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            return no_message;
        if (field.number == HLO_SUB_AXIS_PRE_SIZE)
            *before = (int64_t)field.value;
        else if (field.number == HLO_SUB_AXIS_SIZE)
            *size = (int64_t)field.value;
    }
    return *size < 1 ? no_message : NULL;
}

/* Read a reference to an axis. Positions that differ only in their coordinate along this axis are
 * in one group. So we set that coordinate to 0 in mesh->group. A reference may also name only a
 * part of an axis of size S, by two numbers P (pre_size) and N (size). Then we split the axis into
 * dimensions P x N x S/(P*N), and set the coordinate along the dimension of size N to 0. */
static const char *read_axis_ref(struct mesh *mesh, struct hlo_bytes rest, int64_t count)
{
    int64_t axis = 0, before = 1, size = 0, stride = 1, after, step, product;
    struct hlo_field field;
    int more;

    while ((more = hlo_next(&rest, &field)) != 0) {
        if (more < 0)
            return no_message;
        if (field.number == HLO_AXIS_REF_MESH_AXIS_INDEX)
            axis = (int64_t)field.value;
        else if (field.number == HLO_AXIS_REF_SUB_AXIS_INFO && field.type == HLO_BYTES) {
            const char *why = read_part(field.bytes, &before, &size);

            if (why != NULL)
                return why;
        } else
            return no_message;
    }
    if (axis < 0 || axis >= (int64_t)mesh->sizes.count)
        return no_message;
    if (size == 0)
        size = mesh->sizes.at[axis];
    for (size_t i = (size_t)axis + 1; i < mesh->sizes.count; i++)
        stride *= mesh->sizes.at[i];
    if (before < 1 || __builtin_mul_overflow(before, size, &product) ||
        mesh->sizes.at[axis] % product != 0)
        return no_message;
    after = mesh->sizes.at[axis] / product;
    step = after * stride;
    mesh->disordered |= mesh->last != 0 && step >= mesh->last;
    mesh->last = step;
    for (int64_t i = 0; i < count; i++)
        mesh->group[i] -= mesh->group[i] / step % size * step;
    return NULL;
}

/* Read groups that are given as axes of a mesh. The mesh must come before the axes in ${rest}. In
 * modules that XLA writes it does: XLA writes fields in the order of their numbers. */
static const char *read_mesh_axes(struct forms *forms, struct hlo_bytes rest)
{
    struct mesh mesh = {.ids = malloc((size_t)forms->count * sizeof *mesh.ids),
                        .group = malloc((size_t)forms->count * sizeof *mesh.group)};
    struct hlo_field field;
    const char *why = mesh.ids == NULL || mesh.group == NULL ? no_memory : NULL;
    int more, have_mesh = 0;

    for (int64_t i = 0; why == NULL && i < forms->count; i++)
        mesh.group[i] = i;
    while (why == NULL && (more = hlo_next(&rest, &field)) != 0) {
        if (more < 0 || field.type != HLO_BYTES)
            why = no_message;
        else if (field.number == HLO_MESH_AXES_REPLICA_GROUP_LIST_MESH && !have_mesh++)
            why = read_mesh(&mesh, field.bytes, forms->count);
        else if (field.number == HLO_MESH_AXES_REPLICA_GROUP_LIST_AXES && have_mesh)
            why = read_axis_ref(&mesh, field.bytes, forms->count);
        else
            why = no_message;
    }
    if (why == NULL && !have_mesh)
        why = no_message;
    for (int64_t i = 0; why == NULL && i < forms->count; i++)
        why = join(forms, mesh.ids[i], mesh.group[i]);
    forms->disordered |= mesh.disordered;
    free(mesh.sizes.at);
    free(mesh.ids);
    free(mesh.group);
    return why;
}

/* ---- all forms ------------------------------------------------------------------------------ */
static const struct {
    uint32_t field;
    const char *(*read)(struct forms *forms, struct hlo_bytes rest);
} readers[] = {
    {HLO_INSTRUCTION_REPLICA_GROUPS, read_group}, /* this field occurs once for each group */
    {HLO_INSTRUCTION_COLLECTIVE_DEVICE_LIST, read_lists},
    {HLO_INSTRUCTION_IOTA_COLLECTIVE_DEVICE_LIST, read_iota},
    {HLO_INSTRUCTION_MESH_AXES_REPLICA_GROUP_LIST, read_mesh_axes},
};

const char *hlo_forms_read(const struct hlo_instruction *in, int64_t *group, int64_t *order,
                           int64_t count)
{
    struct forms forms = {.group = group, .order = order, .count = count};
    struct hlo_bytes rest = in->body;
    struct hlo_field field;
    const char *why = NULL;

    for (int64_t i = 0; i < count; i++) {
        group[i] = NOBODY;
        order[i] = i; /* right if the instruction lists no groups */
    }
    while (why == NULL && hlo_next(&rest, &field) == 1)
        for (size_t i = 0; why == NULL && i < sizeof readers / sizeof readers[0]; i++)
            if (field.number == readers[i].field)
                why = field.type == HLO_BYTES ? readers[i].read(&forms, field.bytes) : no_message;
    for (int64_t i = 0; forms.disordered && i < count; i++)
        order[i] = 0;
    if (forms.joined == 0) /* no groups listed: all ids are in one group, with number NOBODY */
        return why;
    return why != NULL || forms.joined == count ? why : not_once;
}
