/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.cuh - reduce-scatter and all-gather by words that prove their own arrival.
 *
 *   reduce-scatter   in[part o] of every rank  --> slot of owner o; owner: sum of its slots
 *   all-gather       in of rank r              --> slot r of every rank, which stores it
 *
 * Both take one hop and no barrier. The reduce-scatter is the first half of twoshot.cuh. The
 * all-gather is like oneshot.cuh, but the receiver stores words instead of adding them up. All
 * parts have the same length, so each rank needs words of every other rank, and no rank is more
 * than one call ahead of another. So two halves of scratch are enough, as in twoshot.cuh, and calls
 * of all collectives may follow each other in any order.
 *
 * Fields of args:
 *   bytes      the length of one part
 *   stride     the bytes from part to part in the user's buffer
 *   words      how many words a slot has
 *   in_align   an alignment that all parts of "in" have
 *   out_align  an alignment that all parts of "out" have
 */
#ifndef AR_WORDS_CUH_
#define AR_WORDS_CUH_

#include "kernels/device/oneshot.cuh"

namespace ar
{

/* Return the ${i}-th rank after this one, 0 < i < ranks. */
__device__ __forceinline__ int next_rank(int me, int i, int ranks)
{
    return me + i < ranks ? me + i : me + i - ranks;
}

/* Holds word w of each of several parts, which are owned by different peers. fetch() loads these
 * words from args.in. send() sends each word to the owner of its part. */
template <class F, class R, int N> struct outgoing {
    static constexpr int width = N ? N - 1 : 3;
    payload v[width];
    char *slot[width]; /* address of word w in this rank's slot at the owner, in the half of
                          the region for even calls */

    __device__ __forceinline__ void fetch(const ar_args &args, uint32_t w, int first)
    {
        const uint32_t mine = ar_round_up32((uint32_t)args.words, AR_LINE) * args.me;
        const int ranks = N ? N : args.ranks;

#pragma unroll
        for (int i = 0; i < width; i++)
            if (N || first + i < ranks - 1) {
                const int to = next_rank(args.me, 1 + first + i, ranks);

                v[i] = load_for_word<F>(args.in + args.stride * to, w, (uint32_t)args.bytes,
                                        args.in_align);
                if constexpr (multiplies<R>)
                    v[i] = multiplied(args, v[i]);
                slot[i] = args.peer[to] + ((uint32_t)args.region + (mine + w) * AR_WORD);
            }
    }
    __device__ __forceinline__ void send(int left, uint32_t half, uint64_t epoch)
    {
        line_in_step<F>();
#pragma unroll
        for (int i = 0; i < width; i++)
            if (N || i < left)
                ar::send<F>(slot[i] + half, F::encode(F::canonical(v[i]), epoch));
    }
};

template <class F, class R, int N>
__global__ void __launch_bounds__(N == 2 ? 1024 : 512, 1)
    reduce_scatter(const __grid_constant__ ar_args args)
{
    const int ranks = N ? N : args.ranks;
    const uint32_t bytes = (uint32_t)args.bytes, words = (uint32_t)args.words;
    const uint32_t rounded = ar_round_up32(words, 32); /* so all lanes loop equally often */
    const uint32_t slot = ar_round_up32(words, AR_LINE) * AR_WORD;
    const uint32_t step = gridDim.x * blockDim.x;
    const uint32_t first_word = blockIdx.x * blockDim.x + threadIdx.x;
    outgoing<F, R, N> out;
    payload first_own = {};
    spin_limit wait;

    await_previous_kernel(args);

    /* As in oneshot(): load the thread's first words and the counters at the same time. */
    const char *const own = args.in + args.stride * args.me;

    if (first_word < words) {
        out.fetch(args, first_word, 0);
        first_own = load_for_word<F>(own, first_word, bytes, args.in_align);
    }

    call_counters counters(args);
    const uint32_t half = ar_half(counters.epoch) * (uint32_t)args.half;

    stall(args, counters.epoch, 1);
    if (!counters.dead)
        for (uint32_t w = first_word; w < words; w += step)
            for (int i = 0; i < ranks - 1; i += out.width) {
                if (w != first_word || i != 0)
                    out.fetch(args, w, i);
                out.send(ranks - 1 - i, half, counters.epoch);
            }
    counters.book_in_by_first_warp(args);
    stall(args, counters.epoch, 2);
    if (!counters.dead)
        for (uint32_t w = first_word; w < (F::warp_wide ? rounded : words); w += step) {
            char *here = args.peer[args.me] + ((uint32_t)args.region + w * AR_WORD) + half;
            const bool valid = !F::warp_wide || w < words;
            payload p = first_own, sum;

            if (w != first_word && valid)
                p = load_for_word<F>(own, w, bytes, args.in_align);
            if constexpr (multiplies<R>)
                p = multiplied(args, p);
            if (!gather_word<F, R, N>(args, here, slot, valid, F::canonical(p), counters.epoch,
                                      wait, &sum))
                break;
            if (valid) {
                store_for_word<F>(args.out, w, bytes, args.out_align, sum);
                clear_words<F, N>(args, here, slot);
            }
        }
    counters.publish(args);
}

/* Wait for word w of every other rank; the word of rank r arrives at here + r * slot. Store it in
 * part r of args.out. Returns false if this rank gave up waiting. For warp-wide forms the whole
 * warp must call this; ${valid} is false in lanes past the end of the message. */
template <class F, int N>
__device__ __forceinline__ bool store_words(const ar_args &args, char *here, uint32_t slot,
                                            bool valid, uint32_t w, uint64_t epoch,
                                            spin_limit &wait)
{
    constexpr int batch = N ? N - 1 : 4;
    const int ranks = N ? N : args.ranks;
    uint32_t polls = 0;

    for (int first = 1; first < ranks; first += batch) {
        uint4 v[batch];

        warp_in_step<F>();
        for (;;) {
            bool all = true;

#pragma unroll
            for (int i = 0; i < batch; i++)
                if (valid && (N || first + i < ranks))
                    v[i] = receive<F>(here + next_rank(args.me, first + i, ranks) * slot);
#pragma unroll
            for (int i = 0; i < batch; i++)
                if (valid && (N || first + i < ranks))
                    all = F::arrived(v[i], epoch) && all;
            if (all_here<F>(all))
                break;
            if (all_give_up<F>(args, polls, wait))
                return false;
        }
#pragma unroll
        for (int i = 0; i < batch; i++)
            if (valid && (N || first + i < ranks)) {
                const int from = next_rank(args.me, first + i, ranks);

                store_for_word<F>(args.out + args.stride * from, w, (uint32_t)args.bytes,
                                  args.out_align, F::decode(v[i]));
                F::clear(here + from * slot);
            }
    }
    return true;
}

/* Set slot[i] to the address of word ${first_word} in this rank's slot at the i-th peer, in the
 * half of the region for even calls. */
template <int N>
__device__ __forceinline__ void find_slots(const ar_args &args, uint32_t my_slot,
                                           uint32_t first_word, char **slot)
{
    const int ranks = N ? N : args.ranks;

#pragma unroll
    for (int i = 0; i < (N ? N - 1 : AR_MAX_RANKS - 1); i++)
        if (N || i < ranks - 1)
            slot[i] =
                args.peer[next_rank(args.me, 1 + i, ranks)] + (my_slot + first_word * AR_WORD);
}

template <class F, int N>
__global__ void __launch_bounds__(N == 2 ? 1024 : 512, 1)
    all_gather(const __grid_constant__ ar_args args)
{
    const auto [bytes, words, rounded, stride, step, first_word] = words_of(args);
    const uint32_t my_slot = (uint32_t)args.region + args.me * stride;
    payload first = {};
    char *slot[N ? N - 1 : AR_MAX_RANKS - 1];
    spin_limit wait;

    await_previous_kernel(args);
    if (first_word < words)
        first = load_for_word<F>(args.in, first_word, bytes, args.in_align);

    call_counters counters(args);

    find_slots<N>(args, my_slot, first_word, slot);

    const uint32_t half = ar_half(counters.epoch) * (uint32_t)args.half;
    char *const own = args.out + args.stride * args.me;

    stall(args, counters.epoch, 1);
    if (!counters.dead)
        for (uint32_t w = first_word; w < words; w += step) {
            payload p = first;

            if (w != first_word)
                p = load_for_word<F>(args.in, w, bytes, args.in_align);
            send_word<F, N>(args, slot, half + (w - first_word) * AR_WORD,
                            F::encode(p, counters.epoch));
            if (own != args.in)
                store_for_word<F>(own, w, bytes, args.out_align, p);
        }
    counters.book_in_by_first_warp(args);
    stall(args, counters.epoch, 2);
    if (!counters.dead)
        for (uint32_t w = first_word; w < (F::warp_wide ? rounded : words); w += step)
            if (!store_words<F, N>(
                    args, args.peer[args.me] + ((uint32_t)args.region + w * AR_WORD + half), stride,
                    !F::warp_wide || w < words, w, counters.epoch, wait))
                break;
    counters.publish(args);
}

} // namespace ar

#define AR_SCATTER_FAST(F, R)                                                                      \
    {                                                                                              \
        (const void *)&ar::reduce_scatter<F, R, 0>, (const void *)&ar::reduce_scatter<F, R, 2>,    \
            (const void *)&ar::reduce_scatter<F, R, 4>                                             \
    }
#define AR_SCATTER_SMALL(F, R)                                                                     \
    {                                                                                              \
        (const void *)&ar::reduce_scatter<F, R, 0>                                                 \
    }
#define AR_GATHER(F)                                                                               \
    {                                                                                              \
        (const void *)&ar::all_gather<F, 0>, (const void *)&ar::all_gather<F, 2>,                  \
            (const void *)&ar::all_gather<F, 4>                                                    \
    }

#endif
