/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulate.h - the part of CUDA's device side that is needed to run the kernels of kernels/ on
 * threads of the CPU.
 *
 * Each block is a POSIX thread. The blocks of a grid, and the grids of several ranks, run at the
 * same time. The threads of a block are fibers of its POSIX thread, because hundreds of POSIX
 * threads that poll would spend most of the time in the operating system. A fiber gives way at
 * barriers, at polls, and at random at other accesses to memory; the next fiber is drawn at random.
 * A 16-byte word is stored in two halves, in random order. The memory model of the CPU (x86) is
 * stronger than a GPU's, so a missing fence does not show here: the tests on GPUs are for that.
 * Missing waits, clears, barriers, and switches to the other half of scratch memory do show.
 * Kernels are compiled with -DST_EMULATE -include this file.
 */
#ifndef ST_TEST_EMULATE_H_
#define ST_TEST_EMULATE_H_

#include <stdint.h>
#include <string.h>
#include <vector_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulate_index {
    unsigned x;
};

extern __thread struct emulate_index threadIdx, blockIdx, blockDim, gridDim;

/* Not 0 if the eight lanes that store one 128-byte line are known to be in step. They are in step
 * from __syncwarp() until the next load from the user's buffers, where lanes may take different
 * branches. */
extern __thread int emulate_in_step;

unsigned emulate_block_or(unsigned value); /* works like __syncthreads_or */
unsigned emulate_warp_or(unsigned value);
void emulate_meet_first_warp(void); /* the first warp waits for all threads of the block */
void emulate_line_barrier(void); /* a barrier for the eight lanes of a 128-byte line */
unsigned emulate_random(unsigned below);
void emulate_yield(void);
void emulate_yield_rarely(void); /* yields in one of 16 calls */
uint64_t emulate_now_ns(void);

/* Run one grid on GPU ${device} to its end. ${kernel} takes a struct ar_args by value. Each block
 * waits for room on the GPU before it starts, and gives it back at its end. */
struct ar_args;
void emulate_launch(const void *kernel, const struct ar_args *args, int ctas, int threads,
                    int device);
void emulate_take_room(int device);
void emulate_give_room(int device);

#ifdef __cplusplus
}
#endif

/* C leaves open whether fmax(-0, +0) is -0. PTX (max, min) says that +0 is the larger one. */
#include <math.h>
static inline double emulate_max(double x, double y)
{
    return x == 0 && y == 0 ? (signbit(x) ? y : x) : fmax(x, y);
}
static inline double emulate_min(double x, double y)
{
    return x == 0 && y == 0 ? (signbit(x) ? x : y) : fmin(x, y);
}

#ifdef __cplusplus
#include <cuda_bf16.h> /* before the #undefs: CUDA's headers define these words */
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <vector_functions.h>
#undef __device__
#undef __host__
#undef __global__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__

#define AR_SAME_IN_WARP(value) (emulate_warp_or(value) != 0)
#define AR_POLLS_TO_LOOK       16 /* few, because a poll lets all other threads of the block run */

static inline void __trap()
{
    __builtin_trap();
}

static inline void __syncthreads()
{
    emulate_block_or(0);
}

static inline void meet_first_warp(uint64_t)
{
    emulate_meet_first_warp();
}

static inline int __syncthreads_or(int p)
{
    return emulate_block_or(p != 0) != 0;
}

static inline int __any_sync(unsigned, int p)
{
    return emulate_warp_or(p != 0) != 0;
}

static inline int __all_sync(unsigned, int p)
{
    return emulate_warp_or(p == 0) == 0;
}

/* Return the largest value of all lanes. Values above 31 count as 31. */
static inline unsigned __reduce_max_sync(unsigned, unsigned value)
{
    return 31u - (unsigned)__builtin_clz(emulate_warp_or(1u << (value < 31 ? value : 31)));
}

static inline void __nanosleep(unsigned)
{
    emulate_yield();
}

/* Synchronize the lanes of a warp, or of one line of the warp. */
static inline void __syncwarp(unsigned mask)
{
    if (mask == ~0u)
        emulate_warp_or(0);
    else if (mask == 0xffu << threadIdx.x % 32 / 8 * 8)
        emulate_line_barrier();
    else
        __builtin_trap();
    emulate_in_step = 1;
}

static inline unsigned atomicAdd(uint32_t *p, unsigned v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

static inline unsigned long long atomicCAS(unsigned long long *p, unsigned long long old,
                                           unsigned long long v)
{
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}

namespace ar
{

/* Store two 64-bit halves in random order, each half atomically. Words of LL8 need atomic stores of
 * 64 bits. No other form of words needs more. */
static inline void store_word(void *p, uint4 v)
{
    uint64_t part[2] = {(uint64_t)v.y << 32 | v.x, (uint64_t)v.w << 32 | v.z};
    int first = emulate_random(2);

    __atomic_store_n((uint64_t *)p + first, part[first], __ATOMIC_RELEASE);
    emulate_yield_rarely();
    __atomic_store_n((uint64_t *)p + !first, part[!first], __ATOMIC_RELEASE);
}

static inline uint4 load_word(const void *p)
{
    uint64_t lo = __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
    uint64_t hi = __atomic_load_n((const uint64_t *)p + 1, __ATOMIC_ACQUIRE);

    if (emulate_random(4) == 0)
        emulate_yield();
    return make_uint4((uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32));
}

/* If the lanes of a line store in step, the line becomes visible as a whole: the lane with the flag
 * stores last and loads first. Otherwise each lane stores and loads by itself. */
static inline void emulate_line_store(void *p, uint4 v, bool line)
{
    line = line && emulate_in_step;

    bool last = line && threadIdx.x % 8 == 7;

    if (!last)
        store_word(p, v);
    if (line)
        emulate_line_barrier();
    if (last) {
        __atomic_store_n((uint64_t *)p, (uint64_t)v.y << 32 | v.x, __ATOMIC_RELEASE);
        __atomic_store_n((uint64_t *)p + 1, (uint64_t)v.w << 32 | v.z, __ATOMIC_RELEASE);
    }
}

static inline uint4 emulate_line_load(const void *p, bool line)
{
    line = line && emulate_in_step;

    bool first = line && threadIdx.x % 8 == 7;
    uint4 v = {};

    if (first) {
        uint64_t hi = __atomic_load_n((const uint64_t *)p + 1, __ATOMIC_ACQUIRE);
        uint64_t lo = __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);

        v = make_uint4((uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32));
    }
    if (line)
        emulate_line_barrier();
    if (!first)
        v = load_word(p);
    return v;
}

static inline uint64_t load_acquire(const uint64_t *p)
{
    emulate_yield();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint64_t load_relaxed(const uint64_t *p)
{
    emulate_yield_rarely(); /* yield here too: some kernels poll with this function only */
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint32_t load_relaxed(const uint32_t *p)
{
    emulate_yield_rarely(); /* yield here too: some kernels poll with this function only */
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void store_relaxed(uint64_t *p, uint64_t v)
{
    emulate_yield_rarely();
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static inline void store_relaxed(uint32_t *p, uint32_t v)
{
    emulate_yield_rarely();
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static inline void fence_sys()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline uint4 load_bulk(const void *p)
{
    uint4 v;

    emulate_yield_rarely();
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store_bulk(void *p, uint4 v)
{
    emulate_yield_rarely();
    memcpy(p, &v, sizeof v);
}

static inline uint4 load_local(const void *p)
{
    emulate_in_step = 0;
    return load_bulk(p);
}

static inline uint2 load_unit(const char *p)
{
    uint2 u;

    emulate_in_step = 0;
    memcpy(&u, p, sizeof u);
    return u;
}

static inline void store_unit(char *p, uint2 u)
{
    memcpy(p, &u, sizeof u);
}

static inline uint64_t now_ns()
{
    return emulate_now_ns();
}

} // namespace ar

#include "test/kernels/emulated/emulate_tma.h"
#endif

#define fmax(x, y)  emulate_max(x, y)
#define fmin(x, y)  emulate_min(x, y)
#define fmaxf(x, y) ((float)emulate_max(x, y))
#define fminf(x, y) ((float)emulate_min(x, y))

#endif
