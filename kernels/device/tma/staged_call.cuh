/* SPDX-License-Identifier: Apache-2.0 */
/* staged_call.cuh - what the warps of tma_staged.cuh share: which chunks a block moves,
 * where they lie, and the flags that count them. */
#ifndef AR_TMA_STAGED_CALL_CUH_
#define AR_TMA_STAGED_CALL_CUH_

#include "kernels/device/bulk.cuh"
#include "kernels/device/tma/tma_ptx.cuh"

namespace ar
{

/* How many of a thread's latest bulk copies may be incomplete when it raises a flag. The flag
 * reports only the copies before these. */
#ifdef ST_EMULATE
#define AR_TMA_PENDING 2
#else
#define AR_TMA_PENDING 8
#endif

/* If the next sum is not ready after this many polls, the thread that stores sums uses the time to
 * tell the peers what it has stored. This many polls take longer than a block needs for a tile. */
#define AR_TMA_PATIENCE 100

using sum_ring = tma_ring<AR_TMA_SUMS>;
using move_ring = tma_ring<AR_TMA_MOVES>;

/* The chunks (kernels/shared/tma.h) that this block moves: every gridDim.x-th chunk of each shard,
 * or of each part. */
template <int Coll> struct staged_call {
    const ar_args &args;
    uint64_t epoch,
        step;        /* bytes from the start of one chunk of this block to the start of its next */
    uint32_t chunks; /* how many chunks of the longest shard this block moves */
    uint32_t batch;  /* how many chunks a thread moves before it raises the next flag */

    __device__ __forceinline__ staged_call(const ar_args &args, uint64_t epoch)
        : args(args), epoch(epoch)
    {
        step = (uint64_t)gridDim.x * AR_TMA_CHUNK;
        chunks = (uint32_t)ar_tma_count(whole(0), AR_TMA_CHUNK, (int)blockIdx.x, (int)gridDim.x);
        batch = chunks < 16 ? 1 : chunks < 64 ? chunks / 8 : 8;
    }
    __device__ __forceinline__ uint64_t bytes(int shard) const
    {
        return Coll == AR_ALL_REDUCE ? ar_shard_bytes(args.bytes, args.shard, shard) : args.bytes;
    }
    /* Return where shard or part ${shard} begins in send. out() does so for recv. */
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
    /* Return the slot from which warp 3 fetches the chunks of rank ${from}. The flags of kind
     * fetch_flag say that the chunks are there. */
    __device__ __forceinline__ char *fetched(int from) const
    {
        return slot(args.me, Coll == AR_ALL_GATHER ? args.region : args.half, from);
    }
    static constexpr int fetch_flag = Coll == AR_ALL_GATHER ? AR_FLAG_REDUCE : AR_FLAG_GATHER;
    /* Return how many bytes of a shard TMA can move: all but the last bytes that fill no word. */
    __device__ __forceinline__ uint64_t whole(int shard) const
    {
        return bytes(shard) / AR_WORD * AR_WORD;
    }
    __device__ __forceinline__ uint32_t my_chunks() const
    {
        return (uint32_t)ar_tma_count(whole(args.me), AR_TMA_CHUNK, (int)blockIdx.x,
                                      (int)gridDim.x);
    }
    __device__ __forceinline__ bool has_tail(int shard) const
    {
        return blockIdx.x == 0 && bytes(shard) % AR_WORD != 0;
    }
    /* Return where this block's first chunk begins. */
    __device__ __forceinline__ uint64_t first() const
    {
        return (uint64_t)blockIdx.x * AR_TMA_CHUNK;
    }
    /* Return how many bytes from ${at} of a shard TMA can move, at most ${most}; 0 past the end. */
    __device__ __forceinline__ uint32_t length(int shard, uint64_t at, uint32_t most) const
    {
        uint64_t end = whole(shard);

        return at >= end ? 0 : end - at < most ? (uint32_t)(end - at) : most;
    }
    /* adders() is the number of threads in the warps from warp 4 on. adder() is the number of this
     * thread among them. */
    __device__ __forceinline__ uint32_t adders() const
    {
        return blockDim.x - 32 * AR_TMA_STAGED_MOVERS;
    }
    __device__ __forceinline__ uint32_t adder() const
    {
        return threadIdx.x - 32 * AR_TMA_STAGED_MOVERS;
    }
    __device__ __forceinline__ int peer(int i) const
    {
        return args.me + i < args.ranks ? args.me + i : args.me + i - args.ranks;
    }
    /* Return the address of rank ${writer}'s slot in the scratch of rank ${at}. */
    __device__ __forceinline__ char *slot(int at, uint64_t region, int writer) const
    {
        return args.peer[at] + region + (uint64_t)writer * args.shard;
    }
    /* Tell all peers that ${count} chunks of this rank have arrived. A count of chunks + 1 says
     * that all chunks and the last bytes have arrived. */
    __device__ __forceinline__ void raise(int kind, uint64_t count) const
    {
        fence_sys();
        for (int i = 1; i < args.ranks; i++)
            store_relaxed(
                (uint64_t *)(args.peer[peer(i)] + ar_flag_offset(kind, blockIdx.x, args.me)),
                ar_flag_step(epoch, count));
    }
    /* In an all-reduce, tell all peers that ${count} chunks of sums have arrived. */
    __device__ __forceinline__ void raise_sums(uint64_t count) const
    {
        if (Coll == AR_ALL_REDUCE)
            raise(AR_FLAG_GATHER, count);
    }
    /* Return how many chunks all peers have reported by their flags ${kind}. The result chunks + 1
     * says that they have reported the last bytes, too. */
    __device__ __forceinline__ uint32_t reached(int kind) const
    {
        uint32_t least = chunks + 1;

        for (int i = 1; i < args.ranks; i++) {
            const uint64_t *flag =
                (const uint64_t *)(args.peer[args.me] + ar_flag_offset(kind, blockIdx.x, peer(i)));
            const int64_t count = (int64_t)(load_acquire(flag) - ar_flag_step(epoch, 0));

            if (count < (int64_t)least)
                least = count < 0 ? 0 : (uint32_t)count;
        }
        return least;
    }
    /* Wait until all peers have reported ${count} chunks by their flags ${kind}. Returns how many
     * chunks all peers have reported, or 0 if this rank gave up waiting. */
    __device__ __forceinline__ uint32_t await(int kind, uint32_t count, spin_limit &wait) const
    {
        uint32_t polls = 0, now;

        while ((now = reached(kind)) < count)
            if (give_up(args, polls, wait))
                return 0;
        return now;
    }
};

/* One copy through a ring. It moves this block's k-th chunk to or from the ${i}-th rank after this
 * one. The chunk begins at byte ${at} of a shard. */
template <int Coll> struct staged_job {
    const staged_call<Coll> &c;
    uint64_t at;
    uint32_t k = 0;
    int i = 1;
    move_ring::place place;

    __device__ __forceinline__ explicit staged_job(const staged_call<Coll> &c) : c(c), at(c.first())
    {
    }
    __device__ __forceinline__ bool here() const
    {
        return k < c.chunks;
    }
    __device__ __forceinline__ int peer() const
    {
        return c.peer(i);
    }
    __device__ __forceinline__ uint32_t length() const
    {
        return c.length(peer(), at, AR_TMA_CHUNK);
    }
    __device__ __forceinline__ void next()
    {
        place.next();
        if (++i == c.args.ranks) {
            i = 1;
            k++;
            at += c.step;
        }
    }
};

/* Copy a chunk of ${n} bytes with the 32 threads of a warp: copy_in() from send to shared memory,
 * copy_out() from a slot to recv. */
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
