/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulk.cuh - flags and tiles, for the kernels that send data and flags in separate stores.
 *
 * A rank that sees a flag also sees the data that was stored before the flag. The reason: all
 * threads of a block store data to the peers, and then call __syncthreads(). This orders their
 * stores before what thread r does next: thread r fences at system scope and stores the flag for
 * rank r. On rank r, one thread polls this flag with acquire loads, and then calls __syncthreads()
 * with its block. After that, all threads of the block may read the data.
 *
 * Every flag has a single writer and only grows. So no flag needs an atomic operation across a
 * link.
 */
#ifndef AR_BULK_CUH_
#define AR_BULK_CUH_

#include "kernels/device/reduce.cuh"
#include "kernels/device/packet.cuh"

namespace ar
{

/* Called by all threads of the block: set this block's flag of ${kind} at each peer to ${value}. */
__device__ __forceinline__ void raise_flags(const ar_args &args, int kind, uint64_t value)
{
#ifndef ST_BREAK_SYNC
    __syncthreads();
#endif
    if ((int)threadIdx.x < args.ranks && (int)threadIdx.x != args.me) {
        fence_sys();
        store_relaxed(
            (uint64_t *)(args.peer[threadIdx.x] + ar_flag_offset(kind, blockIdx.x, args.me)),
            value);
    }
}

/* Wait until ${flag} has reached ${value}. Returns false if the rank gave up waiting. */
__device__ __forceinline__ bool await_flag(const ar_args &args, const uint64_t *flag,
                                           uint64_t value, spin_limit &wait)
{
    uint32_t polls = 0;

    while (!ar_reached(load_acquire(flag), value))
        if (give_up(args, polls, wait))
            return false;
    return true;
}

/* Called by all threads of the block: wait until the same block of every peer, that is the block of
 * the same number, has set its flag of ${kind} at this rank to ${value} or more. Returns false in
 * all threads if the rank gave up waiting. */
__device__ __forceinline__ bool await_flags(const ar_args &args, int kind, uint64_t value,
                                            spin_limit &wait)
{
    bool stop = false;

#ifndef ST_BREAK_AWAIT
    if ((int)threadIdx.x < args.ranks && (int)threadIdx.x != args.me) {
        const uint64_t *flag =
            (const uint64_t *)(args.peer[args.me] + ar_flag_offset(kind, blockIdx.x, threadIdx.x));

        stop = !await_flag(args, flag, value, wait);
    }
#endif
    return !__syncthreads_or(stop);
}

/* ---- tiles: each thread has ${Unroll} words of a tile, blockDim.x words apart ---------------- */
/* Return where this thread's first word in the block's ${k}-th tile begins. A tile has ${tile}
 * bytes. */
__device__ __forceinline__ uint64_t tile_start(uint64_t k, uint64_t tile)
{
    return (k * gridDim.x + blockIdx.x) * tile + threadIdx.x * AR_WORD;
}

template <int Unroll>
__device__ __forceinline__ void load_tile(payload (&v)[Unroll], const char *p, uint64_t at,
                                          uint64_t end, int align)
{
#pragma unroll
    for (int u = 0; u < Unroll; u++)
        v[u] = load_payload(p, at + (uint64_t)u * blockDim.x * AR_WORD, end, align);
}

template <int Unroll>
__device__ __forceinline__ void multiply_tile(const ar_args &args, payload (&v)[Unroll])
{
#pragma unroll
    for (int u = 0; u < Unroll; u++)
        v[u] = multiplied(args, v[u]);
}

/* For each of ${Some} words of a tile, add up the words of all ranks. At first v[u] holds this
 * rank's word; at the end it holds the sum. The other ranks' words lie in their slots in scratch.
 * All loads for a batch of ranks start before the first word is added. */
template <class R, int N, int Some>
__device__ __forceinline__ void sum_words(const ar_args &args, const char *slot, uint64_t at,
                                          uint64_t end, payload *v)
{
    constexpr int batch = N ? N : 4;
    const int ranks = N ? N : args.ranks;
    rank_sum<R, 2, N> sum[Some];

    for (int first = 0; first < ranks; first += batch) {
        payload w[Some][batch];

#pragma unroll
        for (int i = 0; i < batch; i++)
#pragma unroll
            for (int u = 0; u < Some; u++) {
                uint64_t x = at + (uint64_t)u * blockDim.x * AR_WORD;

                w[u][i] = v[u];
                if (first + i < ranks && first + i != args.me && x < end)
                    w[u][i] = as_payload(load_bulk(slot + (first + i) * args.shard + x));
            }
#pragma unroll
        for (int u = 0; u < Some; u++)
            sum[u].take(first, ranks, w[u], args.kind);
    }
#pragma unroll
    for (int u = 0; u < Some; u++)
        v[u] = sum[u].finish(args);
}

} // namespace ar

/* AR_TILES_ROW lists the kernels that the template ${kernel} makes. The template's parameters are a
 * reducer, the number of ranks (0: any) and the number of words of a tile that each thread handles.
 * Each reducer has a kernel for any number of ranks; the first three reducers also have kernels for
 * 2 and for 4 ranks. */
#define AR_TILES_FAST(kernel, R)                                                                   \
    {                                                                                              \
        (const void *)&ar::kernel<R, 0, AR_CHUNKED_UNROLL>,                                        \
            (const void *)&ar::kernel<R, 2, AR_CHUNKED_UNROLL>,                                    \
            (const void *)&ar::kernel<R, 4, AR_CHUNKED_UNROLL>                                     \
    }
#define AR_TILES_SMALL(kernel, R)                                                                  \
    {                                                                                              \
        (const void *)&ar::kernel<R, 0, AR_CHUNKED_UNROLL>                                         \
    }
#define AR_TILES_ROW(kernel)                                                                       \
    {                                                                                              \
        {                                                                                          \
            AR_TILES_FAST(kernel, ar::sum_f32),                                                    \
                AR_TILES_FAST(kernel, ar::sum_16bit<ar::half_codec>),                              \
                AR_TILES_FAST(kernel, ar::sum_16bit<ar::bf16_codec>),                              \
                AR_TILES_SMALL(kernel, ar::native), AR_TILES_SMALL(kernel, ar::wide),              \
                AR_TILES_SMALL(kernel, ar::premul<ar::sum_f32>),                                   \
                AR_TILES_SMALL(kernel, ar::premul<ar::sum_16bit<ar::half_codec>>),                 \
                AR_TILES_SMALL(kernel, ar::premul<ar::sum_16bit<ar::bf16_codec>>),                 \
                AR_TILES_SMALL(kernel, ar::premul<ar::native>),                                    \
                AR_TILES_SMALL(kernel, ar::premul<ar::wide>),                                      \
        }                                                                                          \
    }

#endif
