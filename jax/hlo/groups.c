/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c - turn replica groups into groups of device ids. */
#include "jax/hlo/groups.h"
#include "jax/hlo/fields.h"

#include <stdlib.h>
#include <string.h>

static const char no_devices[] = "the module does not say which devices it is for";
static const char no_memory[] = "memory is short";

/* ---- the device assignment ------------------------------------------------------------------ */
static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static const char *check_devices(const struct hlo_devices *devices)
{
    size_t count = (size_t)(devices->replicas * devices->partitions);
    int64_t *sorted = malloc(count * sizeof *sorted);
    const char *why = sorted == NULL ? no_memory : NULL;

    if (sorted != NULL) {
        memcpy(sorted, devices->ids, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_ids);
        for (size_t i = 0; i < count; i++)
            if (sorted[i] < 0 || (i > 0 && sorted[i] == sorted[i - 1]))
                why = "the module's device assignment does not name each device once";
    }
    free(sorted);
    return why;
}

/* Read the devices of all replicas of partition ${partition}. */
static const char *read_partition(struct hlo_bytes rest, int64_t partition,
                                  struct hlo_devices *devices)
{
    struct hlo_numbers ids = {0};
    struct hlo_field field;
    const char *why = NULL;
    int more;

    while (why == NULL && (more = hlo_next(&rest, &field)) != 0)
        if (more < 0 || field.number != HLO_COMPUTATION_DEVICE_REPLICA_DEVICE_IDS ||
            hlo_numbers_read(&ids, &field) != 0)
            why = no_devices;
    if (why == NULL && (ids.count != (size_t)devices->replicas || partition >= devices->partitions))
        why = no_devices;
    for (int64_t r = 0; why == NULL && r < devices->replicas; r++)
        devices->ids[r * devices->partitions + partition] = ids.at[r];
    free(ids.at);
    return why;
}

const char *hlo_devices_read(struct hlo_bytes bytes, struct hlo_devices *devices)
{
    struct hlo_bytes rest = bytes;
    struct hlo_field field;
    const char *why = NULL;
    int64_t partition = 0;
    int more;

    memset(devices, 0, sizeof *devices);
    while ((more = hlo_next(&rest, &field)) == 1) {
        if (field.number == HLO_DEVICE_ASSIGNMENT_REPLICA_COUNT)
            devices->replicas = (int64_t)field.value;
        else if (field.number == HLO_DEVICE_ASSIGNMENT_COMPUTATION_COUNT)
            devices->partitions = (int64_t)field.value;
    }
    if (more < 0 || devices->replicas < 1 || devices->partitions < 1 ||
        devices->replicas > HLO_PLACES || devices->partitions > HLO_PLACES ||
        devices->replicas * devices->partitions > HLO_PLACES)
        return no_devices;
    devices->ids = calloc((size_t)(devices->replicas * devices->partitions), sizeof(int64_t));
    if (devices->ids == NULL)
        return no_memory;
    for (rest = bytes; why == NULL && hlo_next(&rest, &field) == 1;)
        if (field.number == HLO_DEVICE_ASSIGNMENT_COMPUTATION_DEVICES && field.type == HLO_BYTES)
            why = read_partition(field.bytes, partition++, devices);
    if (why == NULL)
        why = partition == devices->partitions ? check_devices(devices) : no_devices;
    return why;
}

void hlo_devices_free(struct hlo_devices *devices)
{
    free(devices->ids);
    devices->ids = NULL;
}

/* ---- groups --------------------------------------------------------------------------------- */
struct member {
    int64_t group, device, place, order;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
                                : (x->device > y->device) - (x->device < y->device);
}

/* Sort each group by the ids of its devices, and the groups by their first ids. Returns NULL, or
 * why groups of these sizes cannot be used. */
static const char *arrange(struct member *members, int64_t count, struct hlo_groups *groups)
{
    int64_t ranks = 0, first = 0;

    qsort(members, (size_t)count, sizeof *members, compare_members);
    for (int64_t i = 1; i <= count; i++) {
        if (i < count && members[i].group == members[first].group)
            continue;
        if (ranks != 0 && i - first != ranks)
            return "its groups have different sizes";
        ranks = i - first;
        first = i;
    }
    if (ranks < 2)
        return "each of its groups has one device";
    if (ranks > HLO_MAX_RANKS)
        return "its groups have more than 16 devices";
    for (int64_t i = 0; i < count; i++)
        members[i].group = members[i - i % ranks].device;
    qsort(members, (size_t)count, sizeof *members, compare_members);
    groups->ranks = (int)ranks;
    groups->rows = (int)(count / ranks);
    groups->in_order = 1;
    for (int64_t i = 0; i < count; i++)
        if (i % ranks != 0 && members[i].order <= members[i - 1].order)
            groups->in_order = 0;
    return NULL;
}

static const char *list_members(const int64_t *group, const int64_t *order, int by_place,
                                const struct hlo_devices *devices, struct hlo_groups *groups)
{
    int64_t count = devices->replicas * devices->partitions;
    struct member *members = malloc((size_t)count * sizeof *members);
    const char *why = no_memory;

    groups->ids = malloc((size_t)count * sizeof *groups->ids);
    groups->places = malloc((size_t)count * sizeof *groups->places);
    if (members != NULL && groups->ids != NULL && groups->places != NULL) {
        for (int64_t i = 0; i < count; i++) {
            int64_t id = by_place ? i : i / devices->partitions;

            members[i] = (struct member){group[id], devices->ids[i], i, by_place ? order[id] : 0};
        }
        why = arrange(members, count, groups);
        for (int64_t i = 0; why == NULL && i < count; i++) {
            groups->ids[i] = members[i].device;
            groups->places[i] = members[i].place;
        }
    }
    free(members);
    return why;
}

/* A collective with a channel is of one of two kinds (CollectiveOpGroupMode of xla_data.proto). If
 * it uses global device ids, its groups list places (groups.h). Otherwise its groups list replicas,
 * and a group has all partitions of its replicas. We do not work out the order of these partitions,
 * so ${in_order} of such groups is 0. We refuse a collective without a channel, because each
 * partition then has groups of its own. */
const char *hlo_groups_read(const struct hlo_instruction *in, const struct hlo_devices *devices,
                            struct hlo_groups *groups)
{
    int by_place = in->global_ids;
    int64_t count = by_place ? devices->replicas * devices->partitions : devices->replicas;
    int64_t *group, *order;
    const char *why = no_memory;

    memset(groups, 0, sizeof *groups);
    if (in->channel <= 0)
        return "it has no channel id, as in programs of jax.pmap";
    group = malloc((size_t)count * sizeof *group);
    order = malloc((size_t)count * sizeof *order);
    if (group != NULL && order != NULL)
        why = hlo_forms_read(in, group, order, count);
    if (why == NULL)
        why = list_members(group, order, by_place, devices, groups);
    free(group);
    free(order);
    return why;
}

void hlo_groups_free(struct hlo_groups *groups)
{
    free(groups->ids);
    free(groups->places);
    memset(groups, 0, sizeof *groups);
}
