/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/group.h"

#include <stdlib.h>

_Thread_local int st_inside;

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
