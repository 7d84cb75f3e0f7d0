/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.h - the replica groups of a collective, as groups of device ids.
 *
 * A program runs at replicas x partitions places. At place replica * partitions + partition there
 * is the device that the module's device assignment names for this replica and partition. A
 * collective names replicas or places, in one of several forms. We sort each group by the ids of
 * its devices, because the order means nothing to an all-reduce. An all-gather or reduce-scatter
 * can be replaced only if the instruction lists each group in this sorted order.
 */
#ifndef HLO_GROUPS_H_
#define HLO_GROUPS_H_

#include "jax/hlo/module.h"

#define HLO_PLACES    65536
#define HLO_MAX_RANKS 16 /* the limit of frame.c and of libsymtuner_ar.so */

struct hlo_devices {
    int64_t *ids; /* [place]: id of the device at this place */
    int64_t replicas, partitions;
};

struct hlo_groups {
    int64_t *ids, *places; /* ${rows} rows of ${ranks}, sorted by the devices' ids */
    int rows, ranks;
    int in_order; /* 1: the instruction lists each group in this sorted order */
};

/* Read a DeviceAssignmentProto. Returns NULL, or why it cannot be used. */
const char *hlo_devices_read(struct hlo_bytes bytes, struct hlo_devices *devices);
void hlo_devices_free(struct hlo_devices *devices);

/* Read the groups of the instruction ${in}. Returns NULL, or why they cannot be used. */
const char *hlo_groups_read(const struct hlo_instruction *in, const struct hlo_devices *devices,
                            struct hlo_groups *groups);
void hlo_groups_free(struct hlo_groups *groups);

/* In forms.c. For each id from 0 to ${count} - 1, set ${group}[id] to a number that only the
 * members of its group have. Within a group, an id that the instruction names later has a larger
 * ${order}[id]. If the order of the instruction is not understood, ${order}[id] is 0 for all ids.
 * Returns NULL, or why the groups cannot be read or do not have each id once. */
const char *hlo_forms_read(const struct hlo_instruction *in, int64_t *group, int64_t *order,
                           int64_t count);

#endif
