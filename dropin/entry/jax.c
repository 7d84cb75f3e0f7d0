/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/entry/jax.h"

#include "dropin/comms.h"
#include "dropin/settings.h"

/* First reserve JAX's handle (st_settings_keep), and then read how many handles exist.
 * take_places() of life.c does the reverse: it first counts its own handle, and then reads how many
 * there may be. So if another thread makes a communicator at the same time, at least one of the two
 * threads notices the other. */
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
