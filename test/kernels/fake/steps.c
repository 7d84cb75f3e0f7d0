/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - lists what the fakes were told to do, in order: kernels, events, and NCCL's calls. */
#include "test/kernels/fake/steps.h"

#include <cuda_runtime_api.h>

struct fake_step fake_steps[FAKE_STEPS];
int fake_step_count;

void fake_step(enum fake_what what, const void *stream, const void *from, const void *to,
               size_t bytes)
{
    int at = __atomic_fetch_add(&fake_step_count, 1, __ATOMIC_RELAXED), device;

    cudaGetDevice(&device);
    if (at < FAKE_STEPS)
        fake_steps[at] = (struct fake_step){what, device, stream, from, to, bytes};
}
