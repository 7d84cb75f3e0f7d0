/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/hazards.h"

#include <stddef.h>

static const struct st_hazard hazards[] = {
    /* op128.h's loadPack shifts in a word that was never read; mended in 2.30.3 */
    {22703, 22999,
     "symmetric LL kernels (small messages) of NCCL 2.27.3 to 2.29 give wrong results for 8-bit "
     "and 16-bit types, and AllGather for any, when a buffer does not begin at a multiple of 4 "
     "bytes: align the buffers or use NCCL 2.30.3"},
    /* sgl-project/sglang#37768; mended by NCCL commit 2948185, first in 2.30.7 */
    {22803, 23006,
     "symmetric kernels of NCCL 2.28.3 to 2.30.6 do not wait for the kernel before them when it is "
     "launched with programmatic stream serialization: do not launch such a kernel before a "
     "collective, or use NCCL 2.30.7"},
    /* read in the source of 2.30.3 to 2.31.2: the pick accepts avg, no such kernel is built */
    {23003, 23199,
     "AllReduce with ncclAvg on two symmetric windows launches a kernel that does not exist in "
     "NCCL 2.30.3 to 2.31: use ncclSum and scale, or leave avg's buffers unregistered"},
};

const struct st_hazard *st_hazard_get(int nccl, int index)
{
    for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++)
        if (hazards[i].first <= nccl && nccl <= hazards[i].last && index-- == 0)
            return &hazards[i];
    return NULL;
}
