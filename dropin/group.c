/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/group.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Thread_local int st_inside;

size_t st_bytes(const struct st_comm *c, size_t count, int dtype, bool per_rank)
{
    /* the bytes of each ncclDataType_t */
    static const unsigned char size[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    size_t one = dtype >= 0 && dtype < (int)sizeof size ? size[dtype] : 0;

    return count * one * (size_t)(per_rank && c ? c->ranks : 1);
}

size_t st_call_bytes(const struct st_comm *c, const struct st_call *call)
{
    return st_bytes(c, call->count, call->dtype, call->coll != ST_TALLY_ALL_REDUCE);
}

bool st_call_in_place(const struct st_comm *c, const struct st_call *call, size_t part)
{
    const size_t mine = (size_t)c->rank * part;

    return (uintptr_t)call->send + (call->coll == ST_TALLY_REDUCE_SCATTER ? mine : 0) ==
           (uintptr_t)call->recv + (call->coll == ST_TALLY_ALL_GATHER ? mine : 0);
}

/* groups[ST_REALS] is for copies of NCCL that the drop-in does not follow. It stays empty. */
static _Thread_local struct st_group groups[ST_REALS + 1];
static pthread_key_t key;

/* Called when a thread ends: free the arrays of its groups. */
static void free_groups(void *self)
{
    struct st_group *group = self;

    for (int i = 0; i < ST_REALS; i++) {
        free(group[i].call);
        free(group[i].op);
        free(group[i].use);
        free(group[i].made);
        free(group[i].seen);
    }
    memset(group, 0, ST_REALS * sizeof *group);
}

static void make_key(void)
{
    if (pthread_key_create(&key, free_groups) != 0)
        key = (pthread_key_t)-1; /* pthread_setspecific fails, and threads leak their arrays */
}

struct st_group *st_group_of(const struct st_real *real)
{
    return &groups[real->index];
}

void *st_group_more(void **array, int count, int *room, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    void *larger;

    if (count == *room) {
        larger = realloc(*array, (size_t)(*room * 2 + 8) * size);
        if (!larger)
            return NULL;
        *array = larger;
        *room = *room * 2 + 8;
        pthread_once(&once, make_key);
        pthread_setspecific(key, groups);
    }
    return (char *)*array + (size_t)count * size;
}
