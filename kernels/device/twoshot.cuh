/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twoshot.cuh - each rank adds up one shard and sends the sum to all.
 *
 *      hop 1   in[shard o]  of every rank  --> reduce slot of owner o
 *      owner   sum of its slots (order: reduce.cuh)
 *      hop 2   sum of shard o              --> gather slot o of every rank
 *
 * A rank sends 2(n-1)/n times the length of the message. In a one-shot kernel it would send n-1
 * times the length, but in one hop. Both hops use words that prove their own arrival (packet.cuh),
 * so there is no barrier. No deadlock is possible: a thread sends all its words of hop 1 before it
 * waits, and what it sends in hop 2 depends only on words of hop 1.
 *
 * Two halves of scratch are enough, one for even calls and one for odd calls (ar_half() in
 * kernels/shared/layout.h). The reason: a rank cannot finish a call before every other rank has
 * begun it, because every sum needs words of every rank. This holds for an owner with an empty
 * shard, too, because it waits for the sums of the other owners. So when a rank begins call e+2,
 * every rank has begun call e+1, and has read all that it needs from the half of call e.
 */
#ifndef AR_TWOSHOT_CUH_
#define AR_TWOSHOT_CUH_

#include "kernels/device/reduce.cuh"
#include "kernels/device/packet.cuh"

namespace ar
{

/* Holds word w of each of several shards, which are owned by different peers. fetch() loads these
 * words from args.in. send() sends each word to the owner of its shard. */
template <class F, class R, int N> struct row {
    static constexpr int width = N ? N - 1 : 3;
    payload v[width];
    char *peer_slot[width]; /* address of word w in this rank's slot at the owner, in the half of
                               the region for even calls */
    bool want[width];       /* whether the owner's shard has word w */

    __device__ __forceinline__ void fetch(const ar_args &args, uint32_t w, int first)
    {
        const int ranks = N ? N : args.ranks;

#pragma unroll
        for (int i = 0; i < width; i++) {
            int to = args.me + 1 + first + i < ranks ? args.me + 1 + first + i
                                                     : args.me + 1 + first + i - ranks;
            uint32_t shard = (uint32_t)args.shard;
            uint32_t bytes = ar_shard_bytes32((uint32_t)args.bytes, shard, to);

            want[i] = (N || first + i < ranks - 1) && ar_word_wanted(F::id, w, bytes);
            if (want[i]) {
                v[i] = load_for_word<F>(args.in + shard * to, w, bytes, args.in_align);
                if constexpr (multiplies<R>)
                    v[i] = multiplied(args, v[i]);
            }
            if (N || first + i < ranks - 1)
                peer_slot[i] = args.peer[to] + ((uint32_t)args.region +
                                                (args.me * (uint32_t)args.words + w) * AR_WORD);
        }
    }
    __device__ __forceinline__ void send(uint32_t half, uint64_t epoch)
    {
        line_in_step<F>();
#pragma unroll
        for (int i = 0; i < width; i++)
            if (want[i])
                ar::send<F>(peer_slot[i] + half, F::encode(F::canonical(v[i]), epoch));
    }
};

/* Return the first word of a shard that this thread handles. Blocks take turns: the first 32 words
 * go to a warp of block 0, the next 32 to a warp of block 1, and so on. So even if a shard has
 * fewer words than the grid has threads, every block has about the same number of words. */
__device__ __forceinline__ uint32_t first_word_in_turns()
{
    return (threadIdx.x / 32 * gridDim.x + blockIdx.x) * 32 + threadIdx.x % 32;
}

template <class F, class R, int N>
__global__ void __launch_bounds__(N == 2 ? 1024 : 512, 1)
    twoshot(const __grid_constant__ ar_args args)
{
    const int ranks = N ? N : args.ranks;
    const uint32_t all = (uint32_t)args.bytes, shard = (uint32_t)args.shard;
    const uint32_t slot_words = (uint32_t)args.words;
    const uint32_t slot = slot_words * AR_WORD;
    const uint32_t rounded = ar_round_up32(slot_words, 32);
    const uint32_t step = gridDim.x * blockDim.x;
    const uint32_t first_word = first_word_in_turns();
    const uint32_t mine = ar_shard_bytes32(all, shard, args.me);
    spin_limit wait;
    bool alive;

    row<F, R, N> out;
    char *peer_slot[out.width]; /* copy of out.peer_slot for the thread's first word */
    payload first_own = {};

    await_previous_kernel(args);

    /* As in oneshot(), load the thread's first words and the counters at the same time. While the
     * words are on their way, compute addresses. */
    out.fetch(args, first_word, 0);
#pragma unroll
    for (int i = 0; i < out.width; i++)
        peer_slot[i] = out.peer_slot[i];
    if (ar_word_wanted(F::id, first_word, mine))
        first_own = load_for_word<F>(args.in + shard * args.me, first_word, mine, args.in_align);

    call_counters counters(args);
    const uint32_t half = ar_half(counters.epoch) * (uint32_t)args.half;
    const uint32_t reduce = (uint32_t)args.region + half;
    const uint32_t gather = reduce + ranks * slot;

    stall(args, counters.epoch, 1);
    alive = !counters.dead;
    for (uint32_t w = first_word; alive && w < slot_words; w += step)
        for (int i = 0; i < ranks - 1; i += out.width) {
            if (w != first_word || i != 0)
                out.fetch(args, w, i);
            out.send(half, counters.epoch);
        }
    counters.book_in_by_first_warp(args);
    stall(args, counters.epoch, 2);
    for (uint32_t w = first_word; alive && w < rounded; w += step) {
        char *here = args.peer[args.me] + (reduce + w * AR_WORD);
        bool valid = ar_word_wanted(F::id, w, mine);
        payload p = {}, sum;

        if (F::warp_wide ? !__any_sync(~0u, valid) : !valid)
            break;
        if (valid) {
            p = F::canonical(w == first_word ? first_own
                                             : load_for_word<F>(args.in + shard * args.me, w, mine,
                                                                args.in_align));
            if constexpr (multiplies<R>)
                p = F::canonical(multiplied(args, p));
        }
        alive = gather_word<F, R, N>(args, here, slot, !F::warp_wide || valid, p, counters.epoch,
                                     wait, &sum);
        if (alive && valid) {
            /* Word w of the gather slot lies this many bytes behind peer_slot[i]. */
            uint32_t at = half + ranks * slot + (w - first_word) * AR_WORD;
            uint4 v;

            sum = F::canonical(sum);
            v = F::encode(sum, counters.epoch);
            line_in_step<F>();
#pragma unroll
            for (int i = 0; i < out.width; i++)
                if (N || i < ranks - 1)
                    ar::send<F>(peer_slot[i] + at, v);
            for (int i = out.width; i < ranks - 1; i++) {
                int to = args.me + 1 + i < ranks ? args.me + 1 + i : args.me + 1 + i - ranks;

                ar::send<F>(args.peer[to] + (gather + args.me * slot + w * AR_WORD), v);
            }
            store_for_word<F>(args.out + shard * args.me, w, mine, args.out_align, sum);
            clear_words<F, N>(args, here, slot);
        }
    }
    stall(args, counters.epoch, 3);
    for (uint32_t w = first_word; alive && w < rounded; w += step) {
        constexpr int batch = N ? N - 1 : 4;
        uint32_t polls = 0;

        for (int first = 1; alive && first < ranks; first += batch) {
            uint4 v[batch];
            uint32_t bytes[batch];
            bool want[batch], here;
            int from[batch];

#pragma unroll
            for (int i = 0; i < batch; i++) {
                from[i] =
                    args.me + first + i < ranks ? args.me + first + i : args.me + first + i - ranks;
                bytes[i] = ar_shard_bytes32(all, shard, from[i]);
                want[i] = first + i < ranks && ar_word_wanted(F::id, w, bytes[i]);
            }
            warp_in_step<F>();
            for (;;) {
                here = true;
#pragma unroll
                for (int i = 0; i < batch; i++)
                    if (want[i])
                        v[i] = receive<F>(args.peer[args.me] +
                                          (gather + from[i] * slot + w * AR_WORD));
#pragma unroll
                for (int i = 0; i < batch; i++)
                    if (want[i])
                        here = F::arrived(v[i], counters.epoch) && here;
                if (all_here<F>(here))
                    break;
                alive = !give_up(args, polls, wait);
                if (F::warp_wide)
                    alive = __all_sync(~0u, alive);
                if (!alive)
                    break;
            }
            if (!alive)
                break;
#pragma unroll
            for (int i = 0; i < batch; i++)
                if (want[i]) {
                    store_for_word<F>(args.out + shard * from[i], w, bytes[i], args.out_align,
                                      F::decode(v[i]));
                    F::clear(args.peer[args.me] + (gather + from[i] * slot + w * AR_WORD));
                }
        }
    }
    counters.publish(args);
}

/*
 * Does what twoshot() does, for 2, 4 or 8 ranks and messages of whole words, with fewer
 * instructions (see oneshot_whole() in oneshot.cuh). It computes the addresses of both hops before
 * the first wait.
 */
template <class F, class R, int N>
__global__ void __launch_bounds__(N == 2 ? 1024 : 512, 1)
    twoshot_whole(const __grid_constant__ ar_args args)
{
    const uint32_t words = (uint32_t)args.words, slot = words * AR_WORD;
    const uint32_t rounded = ar_round_up32(words, 32);
    const uint32_t step = gridDim.x * blockDim.x;
    const uint32_t first_word = first_word_in_turns();
    const uint32_t region = (uint32_t)args.region + first_word * AR_WORD;
    payload v[N], own = {};
    uint32_t bytes[N]; /* [i]: bytes in the shard of rank me ^ i */
    bool want[N];
    /* [i]: address of word first_word in this rank's reduce slot at rank me ^ i, in the half of
     * the region for even calls */
    char *peer_slot[N];
    spin_limit wait;
    bool alive;

    await_previous_kernel(args);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t shard = (uint32_t)args.shard;
        const int r = args.me ^ i;

        bytes[i] = ar_shard_bytes32((uint32_t)args.bytes, shard, r);
        want[i] = ar_word_wanted(F::id, first_word, bytes[i]);
        if (want[i])
            v[i] = load_whole<F>(args.in + shard * r, first_word, bytes[i]);
        peer_slot[i] = args.peer[r] + (region + args.me * slot);
    }
    if (want[0])
        own = v[0];
    /* Address of word first_word in reduce slot 0 of this rank, in the half of the region for
     * even calls. */
    char *const here = args.peer[args.me] + region;

    call_counters counters(args);
    const uint32_t half = ar_half(counters.epoch) * (uint32_t)args.half;

    stall(args, counters.epoch, 1);
    alive = !counters.dead;
    for (uint32_t w = first_word; alive && w < words; w += step) {
#pragma unroll
        for (int i = 1; i < N; i++) {
            if (w != first_word) {
                want[i] = ar_word_wanted(F::id, w, bytes[i]);
                if (want[i])
                    v[i] =
                        load_whole<F>(args.in + (uint32_t)args.shard * (args.me ^ i), w, bytes[i]);
            }
        }
        line_in_step<F>();
#pragma unroll
        for (int i = 1; i < N; i++)
            if (want[i])
                ar::send<F>(peer_slot[i] + (half + (w - first_word) * AR_WORD),
                            F::encode(F::canonical(v[i]), counters.epoch));
    }
    counters.book_in_by_first_warp(args);
    own = F::canonical(own);
    stall(args, counters.epoch, 2);
    for (uint32_t w = first_word; alive && w < rounded; w += step) {
        const bool valid = ar_word_wanted(F::id, w, bytes[0]);
        const uint32_t at = half + (w - first_word) * AR_WORD;
        char *from[N];
        bool all[N];

        if (F::warp_wide ? !__any_sync(~0u, valid) : !valid)
            break;
        v[0] = own;
        if (w != first_word && valid)
            v[0] =
                F::canonical(load_whole<F>(args.in + (uint32_t)args.shard * args.me, w, bytes[0]));
#pragma unroll
        for (int i = 1; i < N; i++) {
            from[i] = here + (at + (args.me ^ i) * slot);
            all[i] = !F::warp_wide || valid;
        }
        alive = await_whole<F, N>(args, from, counters.epoch, wait, all, v);
        if (alive && valid) {
            payload sum = F::canonical(reduce_whole<F, R, N>(args, v));
            uint4 word = F::encode(sum, counters.epoch);

            line_in_step<F>();
#pragma unroll
            for (int i = 1; i < N; i++)
                ar::send<F>(peer_slot[i] + (at + N * slot), word);
            store_whole<F>(args.out + (uint32_t)args.shard * args.me, w, bytes[0], sum);
#pragma unroll
            for (int i = 1; i < N; i++)
                F::clear(from[i]);
        }
    }
    stall(args, counters.epoch, 3);
    for (uint32_t w = first_word; alive && w < rounded; w += step) {
        char *from[N];

#pragma unroll
        for (int i = 1; i < N; i++) {
            from[i] = here + (half + (w - first_word) * AR_WORD + (N + (args.me ^ i)) * slot);
            want[i] = ar_word_wanted(F::id, w, bytes[i]);
        }
        alive = await_whole<F, N>(args, from, counters.epoch, wait, want, v);
#pragma unroll
        for (int i = 1; i < N; i++)
            if (alive && want[i]) {
                store_whole<F>(args.out + (uint32_t)args.shard * (args.me ^ i), w, bytes[i], v[i]);
                F::clear(from[i]);
            }
    }
    counters.publish(args);
}

} // namespace ar

#define AR_TWOSHOT_FAST(F, R)                                                                      \
    {                                                                                              \
        (const void *)&ar::twoshot<F, R, 0>, (const void *)&ar::twoshot<F, R, 2>,                  \
            (const void *)&ar::twoshot<F, R, 4>, (const void *)&ar::twoshot_whole<F, R, 2>,        \
            (const void *)&ar::twoshot_whole<F, R, 4>, (const void *)&ar::twoshot_whole<F, R, 8>   \
    }
#define AR_TWOSHOT_SMALL(F, R)                                                                     \
    {                                                                                              \
        (const void *)&ar::twoshot<F, R, 0>                                                        \
    }

#endif
