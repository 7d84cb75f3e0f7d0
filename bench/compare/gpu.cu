/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.cu - two kernels for the comparison: one fills a buffer, one does nothing. */
#include "bench/compare/protocol.h"

static __global__ void fill(unsigned *p, unsigned word, size_t words)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
         i += gridDim.x * (size_t)blockDim.x)
        p[i] = word;
}

static __global__ void empty()
{
}

extern "C" int gpu_fill(void *p, unsigned word, size_t bytes, void *stream)
{
    fill<<<256, 256, 0, (cudaStream_t)stream>>>((unsigned *)p, word, bytes / 4);
    return (int)cudaGetLastError();
}

extern "C" int gpu_empty(void *stream)
{
    empty<<<1, 32, 0, (cudaStream_t)stream>>>();
    return (int)cudaGetLastError();
}
