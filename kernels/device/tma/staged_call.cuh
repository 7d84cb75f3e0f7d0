/* SPDX-License-Identifier: Apache-2.0 */
/* staged_call.cuh - what the warps of tma_staged.cuh share: which chunks a block moves,
 * where they lie, and the flags that count them. */
#ifndef AR_TMA_STAGED_CALL_CUH_
#define AR_TMA_STAGED_CALL_CUH_

#include "kernels/device/bulk.cuh"
#include "kernels/device/tma/tma_ptx.cuh"

namespace ar
{

/* How many copies may be under way when an older one must be complete. */
#ifdef ST_EMULATE
#define AR_TMA_PENDING 2
#else
#define AR_TMA_PENDING 8
#endif

using sum_ring = tma_ring<AR_TMA_SUMS>;
using move_ring = tma_ring<AR_TMA_MOVES>;

/* Which chunks this block moves: every gridDim.x-th of each shard, or of each part. */
template <int Coll> struct staged_call {
    const ar_args &args;
    uint64_t epoch, chunks; /* chunks of the longest shard */
    uint32_t batch;         /* chunks from flag to flag */

    __device__ __forceinline__ staged_call(const ar_args &args, uint64_t epoch)
        : args(args), epoch(epoch)
    {
        chunks = ar_tma_count(whole(0), AR_TMA_CHUNK, (int)blockIdx.x, (int)gridDim.x);
        batch = chunks < 16 ? 1 : chunks < 64 ? (uint32_t)chunks / 8 : 8;
    }
    __device__ __forceinline__ uint64_t bytes(int shard) const
    {
        return Coll == AR_ALL_REDUCE ? ar_shard_bytes(args.bytes, args.shard, shard) : args.bytes;
    }
    /* Where shard or part ${shard} begins in send, and in recv. */
    __device__ __forceinline__ const char *in(int shard) const
    {
        return args.in + (Coll == AR_ALL_REDUCE       ? args.shard
                          : Coll == AR_REDUCE_SCATTER ? args.stride
                                                      : 0) *
                             (uint64_t)shard;
    }
    __device__ __forceinline__ char *out(int shard) const
    {
        return args.out + (Coll == AR_ALL_REDUCE   ? args.shard
                           : Coll == AR_ALL_GATHER ? args.stride
                                                   : 0) *
                              (uint64_t)shard;
    }
    /* Where the chunks that the fetch copies lie, and which flag says so. */
    __device__ __forceinline__ char *fetched(int from) const
    {
        return slot(args.me, Coll == AR_ALL_GATHER ? args.region : args.half, from);
    }
    static constexpr int fetch_flag = Coll == AR_ALL_GATHER ? AR_FLAG_REDUCE : AR_FLAG_GATHER;
    /* The bytes of a shard that TMA can move; fewer than 16 may be left. */
    __device__ __forceinline__ uint64_t whole(int shard) const
    {
        return bytes(shard) / AR_WORD * AR_WORD;
    }
    __device__ __forceinline__ uint64_t my_chunks() const
    {
        return ar_tma_count(whole(args.me), AR_TMA_CHUNK, (int)blockIdx.x, (int)gridDim.x);
    }
    __device__ __forceinline__ bool has_tail(int shard) const
    {
        return blockIdx.x == 0 && bytes(shard) % AR_WORD != 0;
    }
    __device__ __forceinline__ uint64_t offset(uint64_t k) const
    {
        return (k * gridDim.x + blockIdx.x) * AR_TMA_CHUNK;
    }
    /* Bytes from ${at} of a shard, at most ${most}; 0 past its end. */
    __device__ __forceinline__ uint32_t length(int shard, uint64_t at, uint32_t most) const
    {
        uint64_t end = whole(shard);

        return at >= end ? 0 : end - at < most ? (uint32_t)(end - at) : most;
    }
    __device__ __forceinline__ int peer(int i) const
    {
        return args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;
    }
    /* Rank ${writer}'s slot in the scratch of rank ${at}. */
    __device__ __forceinline__ char *slot(int at, uint64_t region, int writer) const
    {
        return args.peer[at] + region + (uint64_t)writer * args.shard;
    }
    /* Tell all peers that ${count} chunks are there; chunks + 1: the last bytes are, too. */
    __device__ __forceinline__ void raise(int kind, uint64_t count) const
    {
        fence_sys();
        for (int i = 1; i < args.ranks; i++)
            store_relaxed(
                (uint64_t *)(args.peer[peer(i)] + ar_flag_offset(kind, blockIdx.x, args.me)),
                ar_flag_step(epoch, count));
    }
    /* Tell them that so many chunks of sums are there. */
    __device__ __forceinline__ void raise_sums(uint64_t count) const
    {
        if (Coll == AR_ALL_REDUCE)
            raise(AR_FLAG_GATHER, count);
    }
    /* Whether peer ${from} has raised its flag for ${count} chunks. */
    __device__ __forceinline__ bool reached(int kind, int from, uint64_t count) const
    {
        const uint64_t *flag =
            (const uint64_t *)(args.peer[args.me] + ar_flag_offset(kind, blockIdx.x, from));

        return ar_reached(load_acquire(flag), ar_flag_step(epoch, count));
    }
    __device__ __forceinline__ bool await(int kind, int from, uint64_t count,
                                          spin_limit &wait) const
    {
        uint32_t polls = 0;

        while (!reached(kind, from, count))
            if (give_up(args, polls, wait))
                return false;
        return true;
    }
};

/* One copy of a ring: chunk ${k} to or from the ${i}-th peer after this rank. */
struct job {
    uint64_t k;
    int i;

    __device__ __forceinline__ void next(int ranks)
    {
        if (++i == ranks) {
            i = 1;
            k++;
        }
    }
};

/* Copy a chunk by the 32 threads of a warp. */
static __device__ __noinline__ void copy_in(char *shared, const char *from, uint64_t at, uint32_t n,
                                            uint64_t end, int align)
{
    for (uint32_t x = threadIdx.x % 32 * AR_WORD; x < n; x += 32 * AR_WORD)
        store_shared(shared + x, as_word(load_payload(from, at + x, end, align)));
}

static __device__ __noinline__ void copy_out(char *to, const char *slot, uint64_t at, uint32_t n,
                                             uint64_t end, int align)
{
    for (uint32_t x = threadIdx.x % 32 * AR_WORD; x < n; x += 32 * AR_WORD)
        store_payload(to, at + x, end, align, as_payload(load_bulk(slot + at + x)));
}

} // namespace ar

#endif
