/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h - runs the kernels of test/gpu/ar/fuzz_gpu.cu on the CPU.
 *
 * With one thread in a block, these kernels need no barriers. So here each block gets one thread,
 * and the blocks run one after the other.
 */
#ifndef TEST_WHOLE_LAUNCH_H_
#define TEST_WHOLE_LAUNCH_H_

#include <string.h>
#include <unistd.h>

#include "test/gpu/ar/fuzz.h"
#include "test/kernels/emulated/emulate.h"
#include "test/whole/cuda.h"

template <class arguments> struct whole_call {
    void (*kernel)(arguments);
    arguments args;
};

template <class arguments> static void whole_run(void *p)
{
    const whole_call<arguments> *call = (const whole_call<arguments> *)p;

    threadIdx.x = 0;
    blockDim.x = 1;
    gridDim.x = FUZZ_GUARD; /* each thread guards one byte before the output and one behind it */
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        call->kernel(call->args);
}

template <class arguments, class given>
static void whole_start(void (*kernel)(arguments), given args, cudaStream_t stream)
{
    whole_call<arguments> call = {kernel, args};

    whole_host(stream, whole_run<arguments>, &call, sizeof call);
}

#define START(kernel, blocks, threads, stream, args)                                               \
    ((void)(blocks), whole_start(kernel, args, (cudaStream_t)(stream)))

#define __syncthreads()              ((void)0)
#define __threadfence()              ((void)0)
#define __nanosleep(ns)              usleep(1)
#define __shfl_xor_sync(mask, v, by) 0ull

template <class to, class from> static to whole_bits(from value)
{
    to bits;

    static_assert(sizeof bits == sizeof value, "as many bits");
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#define __float_as_uint      whole_bits<unsigned, float>
#define __uint_as_float      whole_bits<float, unsigned>
#define __double_as_longlong whole_bits<long long, double>
#define __longlong_as_double whole_bits<double, long long>

static inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

#endif
