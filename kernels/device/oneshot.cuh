/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneshot.cuh - everybody sends everything to everybody, and adds up at home.
 *
 *      rank 0            rank 1            rank 2
 *      in --+--> slot 0 of 1, slot 0 of 2
 *               in --+--> slot 1 of 0, slot 1 of 2
 *                        in --+--> slot 2 of 0, slot 2 of 1
 *      out = in0 + slot 1 + slot 2         (order: reduce.cuh)
 *
 * One hop, no barrier. First all words of a thread leave, then it waits for the same words of the
 * others; nothing a rank sends depends on what it receives, so no order of blocks can deadlock.
 *
 * Why a slot may be written again two calls later: see ar_half() in kernels/shared/layout.h. The reader's clear
 * of a slot comes before the end of its call e; its words of call e+1 come after that; a peer
 * starts call e+2 only when it has seen those words.
 */
#ifndef AR_ONESHOT_CUH_
#define AR_ONESHOT_CUH_

#include "kernels/device/reduce.cuh"
#include "kernels/device/packet.cuh"

namespace ar
{

template <class F, int N>
__device__ __forceinline__ void send_word(const ar_args &a, char *const *slot, uint32_t at, uint4 v)
{
    line_in_step<F>();
#pragma unroll
    for (int i = 0; i < (N ? N - 1 : AR_MAX_RANKS - 1); i++)
        if (N || i < a.ranks - 1)
            send<F>(slot[i] + at, v);
}

template <class F, class R, int N>
__global__ void __launch_bounds__(N ? 1024 : 512, 1) oneshot(const __grid_constant__ ar_args a)
{
    constexpr int peers = N ? N - 1 : AR_MAX_RANKS - 1;
    const int ranks = N ? N : a.ranks;
    const uint32_t bytes = (uint32_t)a.bytes, words = (uint32_t)a.words;
    const uint32_t rounded = ar_round_up32(words, 32); /* warps stay whole */
    const uint32_t stride = ar_round_up32(words, AR_LINE) * AR_WORD;
    const uint32_t step = gridDim.x * blockDim.x;
    const uint32_t w0 = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t my_slot = (uint32_t)a.region + a.me * stride;
    payload first = {};
    char *slot[peers]; /* mine at each peer, even half, first word */
    patience wait;

    await_previous_kernel(a);

    /* The first load is on its way before the counters are read, and all that can be computed
     * without them is: from the moment they arrive, every instruction counts. */
    if (w0 < words)
        first = load_for_word<F>(a.in, w0, bytes, a.in_align);

    call c(a);

    first = F::canonical(first); /* not earlier: it would wait for the load */

#pragma unroll
    for (int i = 0; i < peers; i++) {
        int to = a.me + 1 + i < ranks ? a.me + 1 + i : a.me + 1 + i - ranks;

        if (N || i < ranks - 1)
            slot[i] = a.peer[to] + (my_slot + w0 * AR_WORD);
    }

    const uint32_t half = ar_half(c.epoch) * (uint32_t)a.half;

    stall(a, c.epoch, 1);
    if (!c.dead && w0 < words)
        send_word<F, N>(a, slot, half, F::encode(first, c.epoch));
    if (!c.dead)
        for (uint32_t w = w0 + step; w < words; w += step)
            send_word<F, N>(
                a, slot, half + (w - w0) * AR_WORD,
                F::encode(F::canonical(load_for_word<F>(a.in, w, bytes, a.in_align)), c.epoch));
    c.book_in(a);
    stall(a, c.epoch, 2);
    if (!c.dead)
        for (uint32_t w = w0; w < (F::warp_wide ? rounded : words); w += step) {
            char *here = a.peer[a.me] + ((uint32_t)a.region + w * AR_WORD) + half;
            bool valid = !F::warp_wide || w < words;
            payload p = first, sum;

            if (w != w0 && valid)
                p = F::canonical(load_for_word<F>(a.in, w, bytes, a.in_align));
            if (!gather_word<F, R, N>(a, here, stride, valid, p, c.epoch, wait, &sum))
                break;
            if (valid) {
                store_for_word<F>(a.out, w, bytes, a.out_align, sum);
                clear_words<F, N>(a, here, stride);
            }
        }
    c.publish(a);
}

/*
 * The same for 2, 4 or 8 ranks and messages of whole words: straight code, about half as much, and
 * at these sizes the time of a call is the time to get through its instructions. Peers are taken as
 * me ^ i, which needs no wrapping and leaves the bits of the sum alone (reduce.cuh).
 */
template <class F, class R, int N>
__global__ void __launch_bounds__(N == 8 ? 512 : 1024, 1)
    oneshot_whole(const __grid_constant__ ar_args a)
{
    const uint32_t bytes = (uint32_t)a.bytes, words = (uint32_t)a.words;
    const uint32_t rounded = ar_round_up32(words, 32); /* warps stay whole */
    const uint32_t stride = ar_round_up32(words, AR_LINE) * AR_WORD;
    const uint32_t step = gridDim.x * blockDim.x;
    const uint32_t w0 = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t region = (uint32_t)a.region + w0 * AR_WORD;
    payload v[N], first = {};
    char *there[N]; /* my slot at rank me ^ i; even half, first word */
    patience wait;

    await_previous_kernel(a);
    if (w0 < words)
        first = load_whole<F>(a.in, w0, bytes);

    call c(a);

#pragma unroll
    for (int i = 1; i < N; i++)
        there[i] = a.peer[a.me ^ i] + (region + a.me * stride);
    char *const here = a.peer[a.me] + region; /* slot 0 here */
    first = F::canonical(first);              /* not earlier: it would wait for the load */

    const uint32_t half = ar_half(c.epoch) * (uint32_t)a.half;

    stall(a, c.epoch, 1);
    if (!c.dead)
        for (uint32_t w = w0; w < words; w += step) {
            payload p = w == w0 ? first : F::canonical(load_whole<F>(a.in, w, bytes));
            uint4 word = F::encode(p, c.epoch);

            line_in_step<F>();
#pragma unroll
            for (int i = 1; i < N; i++)
                send<F>(there[i] + (half + (w - w0) * AR_WORD), word);
        }
    c.book_in(a);
    stall(a, c.epoch, 2);
    if (!c.dead)
        for (uint32_t w = w0; w < (F::warp_wide ? rounded : words); w += step) {
            const bool valid = !F::warp_wide || w < words;
            bool want[N];
            char *slot[N];

#pragma unroll
            for (int i = 1; i < N; i++) {
                want[i] = valid;
                slot[i] = here + (half + (w - w0) * AR_WORD + (a.me ^ i) * stride);
            }
            v[0] = first;
            if (w != w0 && valid)
                v[0] = F::canonical(load_whole<F>(a.in, w, bytes));
            if (!await_whole<F, N>(a, slot, c.epoch, wait, want, v))
                break;
            if (valid) {
                store_whole<F>(a.out, w, bytes, reduce_whole<F, R, N>(a, v));
#pragma unroll
                for (int i = 1; i < N; i++)
                    F::clear(slot[i]);
            }
        }
    c.publish(a);
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
