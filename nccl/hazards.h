/* SPDX-License-Identifier: Apache-2.0 */
/* hazards.h - known bugs of NCCL releases that a user of symmetric kernels can hit. Said
 * at INFO: no interface tells a plugin whether the program does what it takes to hit one. */
#ifndef ST_HAZARDS_H_
#define ST_HAZARDS_H_

struct st_hazard {
    int first, last; /* releases, both included */
    const char *text;
};

/* The ${index}-th hazard of a release, or NULL past the last. */
const struct st_hazard *st_hazard_get(int nccl, int index);

#endif
