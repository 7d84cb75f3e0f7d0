/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx.cuh - the memory accesses whose ordering the kernels rely on, and bounded waiting.
 *
 * Words and flags that one rank writes and another rank polls are accessed by "relaxed.sys"
 * instructions or stronger ones. Plain loads are not enough for words and flags: the compiler may
 * move plain loads, and the L1 may return an old line. Bulk data needs less, because it is loaded
 * only after an acquire load of a flag.
 */
#ifndef AR_PTX_CUH_
#define AR_PTX_CUH_

#include "kernels/shared/args.h"

namespace ar
{

#ifndef ST_EMULATE /* test/kernels/emulated/emulate.h replaces these functions */
__device__ __forceinline__ uint4 load_word(const void *p)
{
    uint4 v;

    asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

__device__ __forceinline__ void store_word(void *p, uint4 v)
{
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
}

__device__ __forceinline__ uint64_t load_acquire(const uint64_t *p)
{
    uint64_t v;

    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ uint64_t load_relaxed(const uint64_t *p)
{
    uint64_t v;

    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ uint32_t load_relaxed(const uint32_t *p)
{
    uint32_t v;

    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void store_relaxed(uint64_t *p, uint64_t v)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void fence_sys()
{
#ifndef ST_BREAK_FENCE
    asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/* Load bulk data from scratch, after an acquire load of its flag. The load skips the L1, which may
 * hold old lines. */
__device__ __forceinline__ uint4 load_bulk(const void *p)
{
    uint4 v;

    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

__device__ __forceinline__ void store_bulk(void *p, uint4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

__device__ __forceinline__ uint64_t now_ns()
{
    uint64_t t;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Plain accesses to the user's buffers, of 16 or 8 bytes. The asm is volatile, so the compiler does
 * not load a value a second time after a store. In a call in place, that store may have changed the
 * value. */
__device__ __forceinline__ uint4 load_local(const void *p)
{
    uint4 v;

    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

__device__ __forceinline__ uint2 load_unit(const char *p)
{
    uint2 u;

    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(u.x), "=r"(u.y) : "l"(p) : "memory");
    return u;
}

__device__ __forceinline__ void store_unit(char *p, uint2 u)
{
    asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(u.x), "r"(u.y) : "memory");
}

/* All threads of the block call this. The first warp waits until all of them have called it; the
 * other warps go on at once. ${loaded} is a value that the thread must have loaded before it counts
 * as here. It is never ~0, so the predicate is always true: it only makes the instruction wait for
 * the load. */
__device__ __forceinline__ void meet_first_warp(uint64_t loaded)
{
    __syncwarp();
    if (threadIdx.x < 32)
        asm volatile(
            "{.reg .pred some; setp.ne.u64 some, %0, ~0; @some bar.sync 1, %1;}" ::"l"(loaded),
            "r"(blockDim.x)
            : "memory");
    else
        asm volatile(
            "{.reg .pred some; setp.ne.u64 some, %0, ~0; @some bar.arrive 1, %1;}" ::"l"(loaded),
            "r"(blockDim.x)
            : "memory");
}
#endif /* ST_EMULATE */

/*
 * Waiting with a limit. A thread counts its polls. Every AR_POLLS_TO_LOOK polls it reads the clock
 * and the rank's verdict, because another thread may have given up. The first thread that gives up
 * writes the verdict for all threads of the rank.
 *
 * The host's abort word lies across PCIe. Only a few reads per microsecond are possible there, and
 * fewer while links are busy. A thread that reads the word delays its block, and thereby the same
 * block of every peer. If every waiting thread read the word, the blocks of the peers would wait so
 * long that they read their abort words, too. In an earlier version every waiting thread did, and a
 * group that had waited once stayed slow for ever. So no thread reads the word until it has waited
 * for much longer than any call takes. From then on, one thread per rank reads the word every
 * AR_LOOK_EVERY_NS.
 */
#define AR_LOOK_AFTER_NS 10000000
#define AR_LOOK_EVERY_NS 1000000

/* Return ${value}, which all lanes of a warp have loaded from one address, so that all lanes go on
 * with the same value. On a GPU the lanes agree already, because one instruction loads the value
 * for all of them. In the emulation each lane loads it by itself, so the emulation defines this
 * macro in another way. */
#ifndef AR_SAME_IN_WARP
#define AR_SAME_IN_WARP(value) (value)
#endif

#ifndef AR_POLLS_TO_LOOK /* must be a power of two */
#define AR_POLLS_TO_LOOK 1024
#endif

/* ${since}: when the thread began to wait, in ns; 0: it has not read the clock yet. */
struct spin_limit {
    uint64_t since = 0;
};

/* Return whether a thread that has waited since ${since} must read the host's abort word now. */
static __device__ __forceinline__ bool turn_to_look(const ar_args *args, uint64_t since,
                                                    uint64_t now)
{
#ifdef ST_BREAK_LOOK
    return true;
#else
    uint64_t looked;

    if (now - since <= AR_LOOK_AFTER_NS)
        return false;
    looked = load_relaxed(&args->state->looked);
    return (int64_t)(now - looked) > AR_LOOK_EVERY_NS &&
           atomicCAS((unsigned long long *)&args->state->looked, looked, now) == looked;
#endif
}

/* Return the time at which the thread began to wait: ${since}, or now if ${since} is 0. Return 0 if
 * the thread must give up. (A spin_limit is not passed by address, because it would need a stack
 * then.) */
static __device__ __noinline__ uint64_t waited_since(const ar_args *args, uint64_t since)
{
    uint64_t now = now_ns();
    uint32_t verdict = AR_ALIVE;

    if (since == 0)
        since = now;
    if (load_relaxed(&args->state->dead) != AR_ALIVE)
        return 0;
    if (now - since > args->timeout_ns)
        verdict = AR_TIMEOUT;
    else if (turn_to_look(args, since, now)) {
        /* This reads the clock again, because to keep ${now} until here would cost registers. */
        store_relaxed(&args->mailbox->waits, (uint32_t)now_ns());
        if (load_relaxed(&args->mailbox->abort) != 0)
            verdict = AR_ABORTED;
    }
    if (verdict == AR_ALIVE)
        return since;
    store_relaxed(&args->mailbox->error, verdict);
    store_relaxed(&args->state->dead, verdict);
    return 0;
}

/* Called after AR_POLLS_TO_LOOK polls. Returns whether to stop waiting. */
__device__ __forceinline__ bool past_spin_limit(const ar_args &args, spin_limit &p)
{
    p.since = waited_since(&args, p.since);
    return p.since == 0;
}

/* Called after each poll. Returns whether to stop waiting. The caller owns ${polls}, so that the
 * compiler keeps it in a register. */
__device__ __forceinline__ bool give_up(const ar_args &args, uint32_t &polls, spin_limit &p)
{
    return (++polls & (AR_POLLS_TO_LOOK - 1)) == 0 && past_spin_limit(args, p);
}

template <class P> __device__ __forceinline__ void hide(P *&address)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("" : "+l"(address));
#endif
}

/*
 * Every kernel that may start early calls this before it reads or writes anything, because the
 * previous kernel of the stream may still be running. This function waits until the previous kernel
 * has ended and its stores are visible. With AR_EARLY_BOTH the next kernel may start early as well,
 * and must wait in the same way.
 *
 * ${address} are addresses that the caller computes before the wait, so that the computation costs
 * no time. (It takes a while, because at launch the arguments are not yet in the constant cache.)
 * But the compiler would move the loads and additions to the first use of an address, which is
 * after the wait. Two things prevent this. The instruction that waits does so only if some address
 * is not 0 (this is always true), so the addresses must be known before it. And the empty asm in
 * hide() might change an address, as far as the compiler knows, so the compiler does not compute
 * the address a second time after the wait.
 */
template <class... P>
__device__ __forceinline__ void await_previous_kernel(const ar_args &args, P *&...address)
{
#if __CUDA_ARCH__ >= 900
    uint64_t any = sizeof...(P) == 0;

    (hide(address), ...);
    any = (any | ... | (uint64_t)address);
    if (args.overlap != AR_SERIAL) {
#ifndef ST_BREAK_PREVIOUS
        asm volatile("{.reg .pred some; setp.ne.u64 some, %0, 0; @some griddepcontrol.wait;}" ::"l"(
                         any)
                     : "memory");
#endif
        if (args.overlap == AR_EARLY_BOTH)
            asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    }
#endif
    (void)args;
}

/* Called at the end of a call that did nothing, because the rank has given up or the handle was
 * destroyed. If the handle was destroyed, a graph with this call has outlived it. That is an error
 * in the program, so trap to make it visible. */
static __device__ __noinline__ void refuse(const ar_args *args)
{
    if (load_relaxed(&args->state->dead) == AR_DESTROYED)
        __trap();
}

/*
 * The rank's counters, as one call sees them. Every thread reads them, which is cheap, because they
 * fit in one line of the L1. After all threads of a block have read the counters, one thread counts
 * the block. The block that is counted last publishes the next epoch. It may do so before the call
 * ends: no thread of this call reads the counters after that, and the next call starts only after
 * this one has ended. Blocks are counted when they arrive, not when they end. So if two calls of
 * one handle overlap by mistake, the kernels notice it only if the second call starts before the
 * first call publishes.
 */
struct call_counters {
    uint64_t epoch;
    uint32_t base, ticket;
    bool dead;

    __device__ __forceinline__ explicit call_counters(const ar_args &args)
        : call_counters(args.state)
    {
    }
    __device__ __forceinline__ explicit call_counters(const ar_state *state)
    {
        const uint4 s = load_local(state);

        epoch = (uint64_t)s.y << 32 | s.x;
        base = s.z;
        dead = AR_SAME_IN_WARP(s.w != AR_ALIVE);
        ticket = 0;
    }

    /* Count this block as arrived. All threads of the block must call it: it synchronizes them. */
    __device__ __forceinline__ void book_in(const ar_args &args)
    {
        __syncthreads();
        if (threadIdx.x == 0)
            ticket = atomicAdd(&args.state->arrived, 1u);
    }

    /* Does what book_in() does, but only the first warp waits for the others. Kernels whose warps
     * do not depend on each other use this. A warp whose words have arrived then need not wait
     * until all warps have sent theirs. */
    __device__ __forceinline__ void book_in_by_first_warp(const ar_args &args)
    {
#ifndef ST_BREAK_COUNT
        meet_first_warp(epoch);
#endif
        if (threadIdx.x == 0)
            ticket = atomicAdd(&args.state->arrived, 1u);
    }

    /* If this block was counted last, publish the next epoch. Called long after the block was
     * counted: by then the result of the atomic operation has arrived, and the thread does not
     * wait. */
    __device__ __forceinline__ void publish(const ar_args &args)
    {
        if (threadIdx.x != 0)
            return;
        if (dead)
            refuse(&args);

        uint32_t order = ticket - base;

        if (order == gridDim.x - 1) {
            store_relaxed(&args.state->base, base + gridDim.x);
            store_relaxed(&args.state->epoch, epoch + 1);
        } else if (order >= gridDim.x) { /* two calls of one handle run at the same time */
            store_relaxed(&args.mailbox->error, AR_OVERLAP);
            store_relaxed(&args.state->dead, AR_OVERLAP);
        }
    }
};

} // namespace ar

#endif
