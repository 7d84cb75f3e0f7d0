/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/hazards.h"

#include <stddef.h>

#include "symtuner_why.h"

static const struct st_hazard hazards[] = {
#define X(id, severity, first, last, said_by, op, bits, what, cure)                                \
    {first, last, said_by, op, bits, what ": " cure},
    ST_HAZARD_MAP(X)
#undef X
};
enum { HAZARDS = sizeof hazards / sizeof *hazards };

static bool applies(const struct st_hazard *hazard, int nccl, unsigned reader)
{
    return hazard->said_by & reader && hazard->first <= nccl &&
           (nccl <= hazard->last || hazard->last == 0);
}

const struct st_hazard *st_hazard_get(int nccl, int index)
{
    for (int i = 0; i < HAZARDS; i++)
        if (applies(&hazards[i], nccl, ST_SAID_BY_PLUGIN) && index-- == 0)
            return &hazards[i];
    return NULL;
}

const struct st_hazard *st_hazard_of_call(int nccl, int op, uintptr_t send, uintptr_t recv,
                                          int index)
{
    for (int i = 0; i < HAZARDS; i++) {
        unsigned bits = hazards[i].address_bits;

        if (applies(&hazards[i], nccl, ST_SAID_BY_KERNELS) &&
            (hazards[i].op < 0 || hazards[i].op == op) &&
            (bits == 0 || ((send | recv) & bits) != 0) && index-- == 0)
            return &hazards[i];
    }
    return NULL;
}
