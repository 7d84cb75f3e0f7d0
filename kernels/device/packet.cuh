/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packet.cuh - words that prove their own arrival.
 *
 * A form says how to put payload into a 16-byte word, how to see that a word has arrived in the
 * receiver's memory (its slot), and what to leave in the slot after the word has been read. No form
 * needs a fence or a barrier: data and proof arrive together, and every part that could arrive
 * alone is checked.
 */
#ifndef AR_PACKET_CUH_
#define AR_PACKET_CUH_

#include "kernels/device/user.cuh"

namespace ar
{

struct form_ll8 {
    static constexpr int id = AR_LL8;
    static constexpr int units = 1;
    static constexpr bool warp_wide = false;

    static __device__ __forceinline__ uint4 encode(payload p, uint64_t epoch)
    {
        uint32_t flag = ar_flag32(epoch);

        return make_uint4(p.lo.x, flag, p.lo.y, flag);
    }
    static __device__ __forceinline__ bool arrived(uint4 w, uint64_t epoch)
    {
        uint32_t flag = ar_flag32(epoch);

#ifdef ST_BREAK_EPOCH
        return w.y != 0 && w.w != 0 && flag != 0;
#else
        return w.y == flag && w.w == flag;
#endif
    }
    static __device__ __forceinline__ payload decode(uint4 w)
    {
        return {make_uint2(w.x, w.z), make_uint2(0, 0)};
    }
    static __device__ __forceinline__ void clear(void *slot)
    {
/* In the test build ST_BREAK_EPOCH old words count as new. Tests notice that only if old words stay
 * in the slot, so that build does not clear the slot either. */
#if !defined(ST_BREAK_CLEAR) && !defined(ST_BREAK_EPOCH)
        store_word(slot, make_uint4(0, 0, 0, 0));
#endif
    }
    static __device__ __forceinline__ payload canonical(payload p)
    {
        return p;
    }
};

struct form_ll128 {
    static constexpr int id = AR_LL128;
    static constexpr int units = 2;
    static constexpr bool warp_wide = true; /* eight lanes share a flag, so a warp polls together */

    static __device__ __forceinline__ bool flag_lane()
    {
        return threadIdx.x % AR_LINE == AR_LINE - 1;
    }
    static __device__ __forceinline__ uint4 encode(payload p, uint64_t epoch)
    {
        uint2 up = flag_lane() ? make_uint2((uint32_t)epoch, (uint32_t)(epoch >> 32)) : p.hi;

        return make_uint4(p.lo.x, p.lo.y, up.x, up.y);
    }
    static __device__ __forceinline__ bool arrived(uint4 w, uint64_t epoch)
    {
#ifdef ST_BREAK_LINE
        return ((uint64_t)w.w << 32 | w.z) != ~epoch; /* broken: every line counts as arrived */
#else
        return !flag_lane() || ((uint64_t)w.w << 32 | w.z) == epoch;
#endif
    }
    static __device__ __forceinline__ payload decode(uint4 w)
    {
        return {make_uint2(w.x, w.y), make_uint2(w.z, w.w)};
    }
    static __device__ __forceinline__ void clear(void *)
    {
        /* Nothing to clear: 64-bit epochs never repeat, so an old line cannot be mistaken for a new
         * one. */
    }
    static __device__ __forceinline__ payload canonical(payload p)
    {
        return p;
    }
};

__device__ __forceinline__ uint32_t larger(uint32_t x, uint32_t y)
{
    return x > y ? x : y;
}

struct form_lamport {
    static constexpr int id = AR_LAMPORT;
    static constexpr int units = 2;
    static constexpr bool warp_wide = false;

    /* In a slot, 32 bits of all ones mean "not here yet". As data, 32 bits of all ones are a NaN
     * (two NaNs in 16-bit types). They are still NaNs if the last bit is cleared, so clear it. */
    static __device__ __forceinline__ uint32_t tame(uint32_t w)
    {
#ifdef ST_BREAK_TAME
        return w;
#else
        return w < ~1u ? w : ~1u;
#endif
    }
    static __device__ __forceinline__ payload canonical(payload p)
    {
        return {make_uint2(tame(p.lo.x), tame(p.lo.y)), make_uint2(tame(p.hi.x), tame(p.hi.y))};
    }
    static __device__ __forceinline__ uint4 encode(payload p, uint64_t)
    {
        return make_uint4(p.lo.x, p.lo.y, p.hi.x, p.hi.y); /* p is what canonical() returned */
    }
    static __device__ __forceinline__ bool arrived(uint4 w, uint64_t)
    {
#ifdef ST_BREAK_ALLWORDS
        return w.w != ~0u;
#else
        return larger(larger(w.x, w.y), larger(w.z, w.w)) != ~0u;
#endif
    }
    static __device__ __forceinline__ payload decode(uint4 w)
    {
        return {make_uint2(w.x, w.y), make_uint2(w.z, w.w)};
    }
    static __device__ __forceinline__ void clear(void *slot)
    {
#ifndef ST_BREAK_CLEAR
        store_word(slot, make_uint4(~0u, ~0u, ~0u, ~0u));
#endif
    }
};

/*
 * Bring the eight lanes of an LL128 line into step; called before a word is sent. The eight stores
 * of a line become visible together only if a single instruction makes them. After different
 * branches (at the ends of a message) the lanes may be out of step. Only the lanes of this line
 * synchronize, because other lanes of the warp may have fewer words to send.
 */
template <class F> __device__ __forceinline__ void line_in_step()
{
#ifndef ST_BREAK_STEP
    if (F::warp_wide)
        __syncwarp(0xffu << threadIdx.x / AR_LINE % 4 * AR_LINE);
#endif
}

/* Bring all lanes of the warp into step; called by all of them before they load words. When the
 * flag of an LL128 line has arrived, the words of the other lanes are sure to have arrived only if
 * a single instruction loaded the whole line. */
template <class F> __device__ __forceinline__ void warp_in_step()
{
#ifndef ST_BREAK_STEP
    if (F::warp_wide)
        __syncwarp(~0u);
#endif
}

/* send() stores a word to a slot, and receive() loads it from the slot. The eight lanes of an LL128
 * line must do so together. On a GPU they do if they are in step. The emulation on the CPU makes
 * them do so if F::warp_wide is true. */
template <class F> __device__ __forceinline__ void send(void *slot, uint4 v)
{
#ifdef ST_EMULATE
    emulate_line_store(slot, v, F::warp_wide);
#elif defined(ST_TESTING)
    store_torn<F::id>(slot, v);
#else
    store_word(slot, v);
#endif
}

template <class F> __device__ __forceinline__ uint4 receive(const void *slot)
{
#ifdef ST_EMULATE
    return emulate_line_load(slot, F::warp_wide);
#else
    return load_word(slot);
#endif
}

/* all_here returns ${here}, and all_give_up returns whether this rank must give up. For warp-wide
 * forms the whole warp gets the same answer: all_here returns whether ${here} is true in all lanes,
 * and all_give_up returns true if any lane must give up. */
template <class F> __device__ __forceinline__ bool all_here(bool here)
{
    return F::warp_wide ? __all_sync(~0u, here) : here;
}

template <class F>
__device__ __forceinline__ bool all_give_up(const ar_args &args, uint32_t &polls, spin_limit &wait)
{
    const bool stop = give_up(args, polls, wait);

    return F::warp_wide ? __any_sync(~0u, stop) : stop;
}

/* PreMulSum: each rank multiplies its numbers by its scalar, and R adds up the products. */
template <class R> struct premul;
template <class R, int Ranks> struct for_ranks<premul<R>, Ranks> : for_ranks<R, Ranks> {
};

template <class R> constexpr bool multiplies = false;
template <class R> constexpr bool multiplies<premul<R>> = true;

__device__ __forceinline__ payload multiplied(const ar_args &args, payload p)
{
    const void *scalar = args.scalar != NULL ? args.scalar : &args.factor;

    return as_payload(times_scalar(as_word(p), scalar, args.kind >> 3));
}

/* A reducer for words of ${Units} units, 1 or 2. ${Ranks} is the number of ranks, or 0 if that
 * number is known only at run time. */
template <class R, int Units, int Ranks> struct pair {
    typename for_ranks<R, Ranks>::reducer lo, hi;

    __device__ __forceinline__ void start(payload p, int kind)
    {
        lo.start(p.lo, kind);
        if (Units == 2)
            hi.start(p.hi, kind);
    }
    __device__ __forceinline__ void add(payload p, int kind)
    {
        lo.add(p.lo, kind);
        if (Units == 2)
            hi.add(p.hi, kind);
    }
    __device__ __forceinline__ void join(const pair &other, int kind)
    {
        lo.join(other.lo, kind);
        if (Units == 2)
            hi.join(other.hi, kind);
    }
    __device__ __forceinline__ payload finish(const ar_args &args)
    {
        return {lo.finish(args), Units == 2 ? hi.finish(args) : make_uint2(0, 0)};
    }
};

/* Adds up one word of every rank; a word has ${Units} units. take() must get rank 0 first, then
 * rank 1, and so on. */
template <class R, int Units, int N> struct rank_sum {
    typename for_ranks<R, N>::reducer lo, hi;

    template <int Most>
    __device__ __forceinline__ void take(int first, int ranks, const payload (&v)[Most], int kind)
    {
        static_assert(Most == 4 || Most == N, "ranks are taken by fours");
        uint2 u[Most];

#pragma unroll
        for (int i = 0; i < Most; i++)
            u[i] = v[i].lo;
        add_in_order(lo, first, ranks, u, kind);
        if (Units == 2) {
#pragma unroll
            for (int i = 0; i < Most; i++)
                u[i] = v[i].hi;
            add_in_order(hi, first, ranks, u, kind);
        }
    }
    __device__ __forceinline__ payload finish(const ar_args &args)
    {
        return {lo.finish(args), Units == 2 ? hi.finish(args) : make_uint2(0, 0)};
    }
};

/* Return the sum of one word of every rank; load(r) returns the word of rank r. ${N} is the number
 * of ranks. If ${N} is 0, there are args.ranks ranks, and they are added four at a time. */
template <class R, int N, class Load>
__device__ __forceinline__ payload sum_of_ranks(const ar_args &args, Load load)
{
    constexpr int batch = N ? N : 4;
    const int ranks = N ? N : args.ranks;
    rank_sum<R, 2, N> sum;

    for (int first = 0; first < ranks; first += batch) {
        payload v[batch];

#pragma unroll
        for (int i = 0; i < batch; i++)
            if (first + i < ranks)
                v[i] = load(first + i);
        sum.take(first, ranks, v, args.kind);
    }
    return sum.finish(args);
}

/*
 * Wait for the words of all other ranks; the word of rank r arrives at slot + r * stride. Add them
 * up with ${own}, this rank's word, in the order of reduce.cuh. Returns false if the rank gave up
 * waiting. ${N} is the number of ranks. If ${N} is 0, there are args.ranks ranks, and they are
 * added four at a time. For warp-wide forms the whole warp must call this; ${valid} is false in
 * lanes past the end of the message. This does not clear the slots, so that the caller can send the
 * sum first.
 */
template <class F, class R, int N>
__device__ __forceinline__ bool gather_word(const ar_args &args, const char *slot, uint32_t stride,
                                            bool valid, payload own, uint64_t epoch,
                                            spin_limit &wait, payload *out)
{
    constexpr int batch = N ? N : 4;
    const int ranks = N ? N : args.ranks;
    const uint4 mine = F::encode(own, epoch); /* F::arrived() accepts this, so the loop can end */
    uint32_t polls = 0;
    rank_sum<R, F::units, N> sum;

    for (int first = 0; first < ranks; first += batch) {
        uint4 v[batch];
        payload p[batch];

#pragma unroll
        for (int i = 0; i < batch; i++)
            v[i] = mine;
        warp_in_step<F>();
        for (;;) {
            bool here = true;

#pragma unroll
            for (int i = 0; i < batch; i++)
                if (valid && first + i < ranks && first + i != args.me)
                    v[i] = receive<F>(slot + (first + i) * stride);
#pragma unroll
            for (int i = 0; i < batch; i++)
                here = F::arrived(v[i], epoch) && here;
            if (all_here<F>(here))
                break;
            if (all_give_up<F>(args, polls, wait))
                return false;
        }
#ifdef ST_BREAK_ORDER /* broken: ranks start with their own words, and so round differently */
        if (N == 4) {
            uint4 t = v[0];

            v[0] = mine;
            v[args.me % batch] = args.me % batch ? t : mine;
        }
#endif
#pragma unroll
        for (int i = 0; i < batch; i++)
            p[i] = F::decode(v[i]);
        sum.take(first, ranks, p, args.kind);
    }
    *out = sum.finish(args);
    return true;
}

/* Return the sum of whole words of ${N} ranks: 2, 4 or 8. v[i] is the word of rank me ^ i, so v[0]
 * is this rank's own word. */
template <class F, class R, int N>
__device__ __forceinline__ payload reduce_whole(const ar_args &args, const payload *v)
{
    pair<R, F::units, N> acc[N / 2];

#pragma unroll
    for (int i = 0; i < N; i += 2) {
        acc[i / 2].start(v[i], args.kind);
        acc[i / 2].add(v[i + 1], args.kind);
    }
#ifdef ST_BREAK_ORDER /* broken: ranks start with their own words, and so round differently */
    if (N == 4) {
        acc[0].add(v[2], args.kind);
        acc[0].add(v[3], args.kind);
        return acc[0].finish(args);
    }
#endif
#pragma unroll
    for (int width = 1; width < N / 2; width *= 2)
#pragma unroll
        for (int i = 0; i + width < N / 2; i += 2 * width)
            acc[i].join(acc[i + width], args.kind);
    return acc[0].finish(args);
}

/* Poll every slot[i] with i > 0 and want[i] true, until the words of all these slots have arrived.
 * Then put the payload of each into v[i]. Returns false if the rank gave up waiting. The inner loop
 * calls no function: around a call the compiler would compute the addresses anew for each poll. */
template <class F, int N>
__device__ __forceinline__ bool await_whole(const ar_args &args, char *const *slot, uint64_t epoch,
                                            spin_limit &wait, const bool *want, payload *v)
{
    warp_in_step<F>();
    for (;;) {
#pragma unroll 1
        for (int polls = 0; polls < AR_POLLS_TO_LOOK; polls++) {
            uint4 w[N];
            bool here = true;

#pragma unroll
            for (int i = 1; i < N; i++)
                if (want[i])
                    w[i] = receive<F>(slot[i]);
#pragma unroll
            for (int i = 1; i < N; i++)
                here = (!want[i] || F::arrived(w[i], epoch)) && here;
            if (all_here<F>(here)) {
#pragma unroll
                for (int i = 1; i < N; i++)
                    v[i] = F::decode(w[i]);
                return true;
            }
        }
        const bool stop = past_spin_limit(args, wait);

        if (F::warp_wide ? __any_sync(~0u, stop) : stop)
            return false;
    }
}

/* Clear the slots that have just been read, because the call after the next uses them again. */
template <class F, int N>
__device__ __forceinline__ void clear_words(const ar_args &args, char *slot, uint32_t stride)
{
#pragma unroll
    for (int r = 0; r < (N ? N : AR_MAX_RANKS); r++) {
        if (r >= (N ? N : args.ranks))
            break;
        if (r != args.me)
            F::clear(slot + r * stride);
    }
}

} // namespace ar

#endif
