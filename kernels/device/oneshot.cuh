/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneshot.cuh - each rank sends its whole message to all ranks, and each rank adds up all messages.
 *
 *      rank 0            rank 1            rank 2
 *      in --+--> slot 0 of rank 1 and of rank 2
 *               in --+--> slot 1 of rank 0 and of rank 2
 *                        in --+--> slot 2 of rank 0 and of rank 1
 *      out = in0 + slot 1 + slot 2         (order: reduce.cuh)
 *
 * This takes one hop and no barrier. A thread first sends all its words, and then waits for the
 * same words of the other ranks. What a rank sends never depends on what it receives, so the blocks
 * may run in any order without a deadlock.
 *
 * A slot that call e uses may be written again in call e+2 (see ar_half() in
 * kernels/shared/layout.h). The reader clears the slot before its call e ends, and sends its words
 * of call e+1 after that. A peer starts call e+2 only after it has received those words.
 */
#ifndef AR_ONESHOT_CUH_
#define AR_ONESHOT_CUH_

#include "kernels/device/reduce.cuh"
#include "kernels/device/packet.cuh"

namespace ar
{

template <class F, int N>
__device__ __forceinline__ void send_word(const ar_args &args, char *const *slot, uint32_t at,
                                          uint4 v)
{
    line_in_step<F>();
#pragma unroll
    for (int i = 0; i < (N ? N - 1 : AR_MAX_RANKS - 1); i++)
        if (N || i < args.ranks - 1)
            send<F>(slot[i] + at, v);
}

/* The words of the message that one thread handles: first_word, first_word + step and so on. */
struct thread_words {
    uint32_t bytes, words; /* length of the message in bytes and in words */
    uint32_t rounded;      /* ${words} rounded up, so that all lanes of a warp loop equally often */
    uint32_t stride;       /* bytes of a slot */
    uint32_t step, first_word;
};

__device__ __forceinline__ thread_words words_of(const ar_args &args)
{
    const uint32_t words = (uint32_t)args.words;

    return {(uint32_t)args.bytes,     words,
            ar_round_up32(words, 32), ar_round_up32(words, AR_LINE) * AR_WORD,
            gridDim.x * blockDim.x,   blockIdx.x * blockDim.x + threadIdx.x};
}

template <class F, class R, int N>
__global__ void __launch_bounds__(N ? 1024 : 512, 1) oneshot(const __grid_constant__ ar_args args)
{
    constexpr int peers = N ? N - 1 : AR_MAX_RANKS - 1;
    const int ranks = N ? N : args.ranks;
    const auto [bytes, words, rounded, stride, step, first_word] = words_of(args);
    const uint32_t my_slot = (uint32_t)args.region + args.me * stride;
    payload first = {};
    /* [i]: address of word first_word in this rank's slot at the i-th peer, in the half of the
     * region for even calls. */
    char *slot[peers];
    spin_limit wait;

    await_previous_kernel(args);

    /* Start the first load before reading the counters. While the counters are on their way, do all
     * that does not need them: every instruction after their arrival adds to the latency. */
    if (first_word < words)
        first = load_for_word<F>(args.in, first_word, bytes, args.in_align);

    call_counters counters(args);

    if constexpr (multiplies<R>)
        first = multiplied(args, first);
    first = F::canonical(first); /* only now, because canonical() waits for the load */

#pragma unroll
    for (int i = 0; i < peers; i++) {
        int to = args.me + 1 + i < ranks ? args.me + 1 + i : args.me + 1 + i - ranks;

        if (N || i < ranks - 1)
            slot[i] = args.peer[to] + (my_slot + first_word * AR_WORD);
    }

    const uint32_t half = ar_half(counters.epoch) * (uint32_t)args.half;

    stall(args, counters.epoch, 1);
    if (!counters.dead && first_word < words)
        send_word<F, N>(args, slot, half, F::encode(first, counters.epoch));
    /* PreMulSum has a branch of its own, so that it does not change the machine code of the other
     * reducers. */
    if (!counters.dead)
        for (uint32_t w = first_word + step; w < words; w += step) {
            if constexpr (multiplies<R>) {
                payload p = load_for_word<F>(args.in, w, bytes, args.in_align);

                send_word<F, N>(args, slot, half + (w - first_word) * AR_WORD,
                                F::encode(F::canonical(multiplied(args, p)), counters.epoch));
            } else {
                send_word<F, N>(
                    args, slot, half + (w - first_word) * AR_WORD,
                    F::encode(F::canonical(load_for_word<F>(args.in, w, bytes, args.in_align)),
                              counters.epoch));
            }
        }
    counters.book_in_by_first_warp(args);
    stall(args, counters.epoch, 2);
    if (!counters.dead)
        for (uint32_t w = first_word; w < (F::warp_wide ? rounded : words); w += step) {
            char *here = args.peer[args.me] + ((uint32_t)args.region + w * AR_WORD) + half;
            bool valid = !F::warp_wide || w < words;
            payload p = first, sum;

            if (w != first_word && valid) {
                p = F::canonical(load_for_word<F>(args.in, w, bytes, args.in_align));
                if constexpr (multiplies<R>)
                    p = F::canonical(multiplied(args, p));
            }
            if (!gather_word<F, R, N>(args, here, stride, valid, p, counters.epoch, wait, &sum))
                break;
            if (valid) {
                store_for_word<F>(args.out, w, bytes, args.out_align, sum);
                clear_words<F, N>(args, here, stride);
            }
        }
    counters.publish(args);
}

template <class F, int N> __device__ __forceinline__ void send_whole(char *const *slot, uint4 word)
{
    line_in_step<F>();
#pragma unroll
    for (int i = 1; i < N; i++)
        send<F>(slot[i], word);
}

/*
 * Does what oneshot() does, for 2, 4 or 8 ranks and messages of whole words. This kernel has about
 * half as many instructions, and in short messages the instructions take most of the time. Its i-th
 * peer is rank me ^ i, so no rank number needs to wrap around. The sum has the same bits as in
 * oneshot(); reduce.cuh says why.
 */
template <class F, class R, int N>
__global__ void __launch_bounds__(N == 8 ? 512 : 1024, 1)
    oneshot_whole(const __grid_constant__ ar_args args)
{
    const auto [bytes, words, rounded, stride, step, first_word] = words_of(args);
    const uint32_t region = (uint32_t)args.region + first_word * AR_WORD;
    const uint32_t half = (uint32_t)args.half;
    payload v[N], first = {};
    /* [i]: address of word first_word in this rank's slot at rank me ^ i. At first the address is
     * in the half of the region for even calls, and later in the half for this call. */
    char *peer_slot[N];
    const char *in = args.in;
    const ar_state *state = args.state;
    spin_limit wait;

#pragma unroll
    for (int i = 1; i < N; i++)
        peer_slot[i] = args.peer[args.me ^ i] + (region + args.me * stride);
    if constexpr (N == 2)
        await_previous_kernel(args, in, state, peer_slot[1]);
    else if constexpr (N == 4)
        await_previous_kernel(args, in, state, peer_slot[1], peer_slot[2], peer_slot[3]);
    else /* the addresses for 8 ranks do not fit into registers */
        await_previous_kernel(args, in, state);

    if (first_word < words)
        first = load_whole<F>(in, first_word, bytes);

    call_counters counters(state);
    const uint32_t at_half = (uint32_t)ar_half(counters.epoch) * half;

#pragma unroll
    for (int i = 1; i < N; i++)
        peer_slot[i] += at_half;
    stall(args, counters.epoch, 1);
    if (!counters.dead && first_word < words) {
        send_whole<F, N>(peer_slot, F::encode(F::canonical(first), counters.epoch));
        for (uint32_t w = first_word + step; w < words; w += step) {
            const payload p = load_whole<F>(in, w, bytes);

#pragma unroll
            for (int i = 1; i < N; i++)
                peer_slot[i] += step * AR_WORD;
            send_whole<F, N>(peer_slot, F::encode(F::canonical(p), counters.epoch));
        }
    }
    counters.book_in_by_first_warp(args);
    /* Address of word first_word in slot 0 of this rank, in the region's half for this call. */
    char *const here = args.peer[args.me] + (region + at_half);

    stall(args, counters.epoch, 2);
    if (!counters.dead)
        for (uint32_t w = first_word; w < (F::warp_wide ? rounded : words); w += step) {
            const bool valid = !F::warp_wide || w < words;
            bool want[N];
            char *slot[N];

#pragma unroll
            for (int i = 1; i < N; i++) {
                want[i] = valid;
                slot[i] = here + ((w - first_word) * AR_WORD + (args.me ^ i) * stride);
            }
            if (w != first_word && valid)
                first = load_whole<F>(in, w, bytes);
            v[0] = F::canonical(first);
            if (!await_whole<F, N>(args, slot, counters.epoch, wait, want, v))
                break;
            if (valid) {
                store_whole<F>(args.out, w, bytes, reduce_whole<F, R, N>(args, v));
#pragma unroll
                for (int i = 1; i < N; i++)
                    F::clear(slot[i]);
            }
        }
    counters.publish(args);
}

} // namespace ar

#define AR_ONESHOT_FAST(F, R)                                                                      \
    {                                                                                              \
        (const void *)&ar::oneshot<F, R, 0>, (const void *)&ar::oneshot<F, R, 2>,                  \
            (const void *)&ar::oneshot<F, R, 4>, (const void *)&ar::oneshot_whole<F, R, 2>,        \
            (const void *)&ar::oneshot_whole<F, R, 4>, (const void *)&ar::oneshot_whole<F, R, 8>   \
    }
#define AR_ONESHOT_SMALL(F, R)                                                                     \
    {                                                                                              \
        (const void *)&ar::oneshot<F, R, 0>                                                        \
    }

#endif
