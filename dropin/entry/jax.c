/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/entry/jax.h"

#include "dropin/comms.h"
#include "dropin/settings.h"

/* The place is kept before the handles are counted, and take_places() (life.c) counts a handle
 * before it asks how many there may be. So if another thread makes a communicator meanwhile, that
 * thread sees that the place is kept, or this one sees the handle. */
int symtuner_nccl_keep_place(int device)
{
    int handles;

    st_settings_keep();
    if (device < 0)
        return 1;
    handles = atomic_load(&st_comm_handles[device % ST_DEVICES]);
    return handles == 0 || handles <= st_settings_comms(device);
}

int symtuner_nccl_limit(int device)
{
    return atomic_load(&st_comm_wide[device % ST_DEVICES]) > 0 ? st_settings_further(device) : 0;
}

struct st_tally_slot *symtuner_nccl_slot(int version, int rank, int ranks)
{
    if (version != ST_TALLY_VERSION)
        return NULL;
    st_slot_claim(rank, ranks, 0, "");
    return st_slot();
}
