/* SPDX-License-Identifier: Apache-2.0 */
/* late_gpu.cu - the kernel that holds back a stream until the host has filled all streams. */
#include "test/gpu/ar/late.h"

static __device__ unsigned long long now()
{
    unsigned long long ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __global__ void hold(const volatile struct late_gate *gate)
{
    unsigned long long end = now() + LATE_HOLD_MOST_NS;

    while (!gate->open && now() < end)
        __nanosleep(500);
    end = now() + gate->delay_us * 1000ull;
    while (now() < end)
        __nanosleep(200);
}

extern "C" int late_hold(const struct late_gate *gate, void *stream)
{
    hold<<<1, 1, 0, (cudaStream_t)stream>>>(gate);
    return (int)cudaGetLastError();
}
