/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/group.h"

#include <stdlib.h>

_Thread_local int st_inside;

size_t st_bytes(const struct st_comm *c, size_t count, int dtype, bool per_rank)
{
    static const unsigned char size[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; /* ncclDataType_t */
    size_t one = dtype >= 0 && dtype < (int)sizeof size ? size[dtype] : 0;

    return count * one * (size_t)(per_rank && c ? c->ranks : 1);
}

size_t st_call_bytes(const struct st_comm *c, const struct st_call *call)
{
    return st_bytes(c, call->count, call->dtype, call->coll != ST_TALLY_ALL_REDUCE);
}

struct st_group *st_group_of(const struct st_real *real)
{
    static _Thread_local struct st_group groups[ST_REALS];

    return &groups[real->index];
}

void *st_group_more(void **array, int count, int *room, size_t size)
{
    void *larger;

    if (count == *room) {
        larger = realloc(*array, (size_t)(*room * 2 + 8) * size);
        if (!larger)
            return NULL;
        *array = larger;
        *room = *room * 2 + 8;
    }
    return (char *)*array + (size_t)count * size;
}
