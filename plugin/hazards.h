/* SPDX-License-Identifier: Apache-2.0 */
/* hazards.h - known bugs of NCCL releases that a user of symmetric kernels can hit. */
#ifndef ST_HAZARDS_H_
#define ST_HAZARDS_H_

#include <stdbool.h>

struct st_hazard {
    int first, last; /* releases, both included                               */
    bool plain;      /* plain use hits it: warn; otherwise inform              */
    const char *text;
};

/* The ${index}-th hazard of a release, or NULL past the last. */
const struct st_hazard *st_hazard_get(int nccl, int index);

#endif
