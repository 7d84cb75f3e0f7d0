/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.h - the replica groups of a collective, as groups of device ids.
 *
 * A program runs on replicas x partitions devices. The module's device assignment names a device
 * for each replica and partition. We call replica * partitions + partition the place of this
 * device. A collective lists replicas or places, in one of several forms. We sort each group by the
 * ids of its devices. For an all-reduce the order does not matter. An all-gather or reduce-scatter
 * can be replaced only if the instruction lists each group in this sorted order.
 */
#ifndef HLO_GROUPS_H_
#define HLO_GROUPS_H_

#include "jax/hlo/module.h"

#define HLO_PLACES    65536
#define HLO_MAX_RANKS 16 /* the limit of frame.c and of libsymtuner_ar.so */

struct hlo_devices {
    int64_t *ids; /* [replica * partitions + partition]: id of the device */
    int64_t replicas, partitions;
};

struct hlo_groups {
    int64_t *ids, *places; /* one row of ${ranks} per group: device ids, and the devices' places */
    int rows, ranks;
    int in_order; /* 1: the instruction lists each group in the order of device ids */
};

/* Read a DeviceAssignmentProto. Returns NULL, or why it cannot be used. */
const char *hlo_devices_read(struct hlo_bytes bytes, struct hlo_devices *devices);
void hlo_devices_free(struct hlo_devices *devices);

/* Read the groups of the instruction ${in}. Returns NULL, or why they cannot be used. */
const char *hlo_groups_read(const struct hlo_instruction *in, const struct hlo_devices *devices,
                            struct hlo_groups *groups);
void hlo_groups_free(struct hlo_groups *groups);

/* In forms.c. For each id from 0 to ${count} - 1, set ${group}[id] to a number that identifies its
 * group. Set ${order}[id] so that within a group it grows in the order in which the instruction
 * lists the ids. If we do not understand that order, set it to 0 for all ids. Returns NULL, or why
 * the groups cannot be read or do not have each id once. */
const char *hlo_forms_read(const struct hlo_instruction *in, int64_t *group, int64_t *order,
                           int64_t count);

#endif
