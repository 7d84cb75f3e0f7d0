/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tma_ptx.cuh - bulk copies between global and shared memory, and the barriers that count them.
 *
 * Bulk copies go through the "async proxy", a separate path to memory. So a thread must call
 * fence_async() between ordinary accesses and the bulk copies that follow them. After a bulk copy
 * no fence is needed: a thread that sees that the copy is complete also sees its bytes (PTX ISA,
 * "async proxy"). Addresses and sizes are multiples of 16 bytes.
 */
#ifndef AR_TMA_PTX_CUH_
#define AR_TMA_PTX_CUH_

#include "kernels/device/user.cuh"
#include "kernels/shared/tma.h"

namespace ar
{

#ifndef ST_EMULATE /* test/kernels/emulated/emulate_tma.h replaces these functions */
#define AR_SHARED(name) extern __shared__ __align__(128) char name[]

#if __CUDA_ARCH__ >= 900
#define AR_TMA_ASM(...) asm volatile(__VA_ARGS__)
#else
#define AR_TMA_ASM(...) __trap() /* the host never launches these kernels on older GPUs */
#endif

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier, int arrivals)
{
    AR_TMA_ASM("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

/* Arrive at the barrier. Its phase will end only after bulk copies have brought ${bytes} bytes. */
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    AR_TMA_ASM(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    AR_TMA_ASM("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/* Set ${ended} to whether the phase of ${barrier} with this parity has ended. ${how} is "try_wait"
 * or "test_wait". */
#define AR_TMA_HAS_ENDED(how, ended, barrier, parity)                                              \
    AR_TMA_ASM("{\n"                                                                               \
               ".reg .pred p;\n"                                                                   \
               "mbarrier." how ".parity.shared::cta.b64 p, [%1], %2;\n"                            \
               "selp.u32 %0, 1, 0, p;\n"                                                           \
               "}"                                                                                 \
               : "=r"(ended)                                                                       \
               : "r"(shared_address(barrier)), "r"(parity)                                         \
               : "memory")

/* Return whether the phase with this parity has ended. This may wait a moment for the end. */
__device__ __forceinline__ bool barrier_ended(uint64_t *barrier, uint32_t parity)
{
    uint32_t ended = 1;

    AR_TMA_HAS_ENDED("try_wait", ended, barrier, parity);
    return ended != 0;
}

/* Return whether the phase with this parity has ended. This does not wait. */
__device__ __forceinline__ bool barrier_has_ended(uint64_t *barrier, uint32_t parity)
{
    uint32_t ended = 1;

    AR_TMA_HAS_ENDED("test_wait", ended, barrier, parity);
    return ended != 0;
}

/* Order this thread's earlier accesses before its later bulk copies. */
__device__ __forceinline__ void fence_async()
{
    AR_TMA_ASM("fence.proxy.async;" ::: "memory");
}

/* Order this thread's earlier accesses to shared memory before later bulk copies out of it. This is
 * much cheaper than fence_async(), which also orders accesses to global memory. */
__device__ __forceinline__ void fence_async_shared()
{
    AR_TMA_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void bulk_load(void *shared, const void *from, uint32_t bytes,
                                          uint64_t *barrier)
{
    AR_TMA_ASM("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

__device__ __forceinline__ void bulk_store(void *to, const void *shared, uint32_t bytes)
{
    AR_TMA_ASM("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}

/* End a group of bulk stores: all that this thread has started since its last group. */
__device__ __forceinline__ void bulk_commit()
{
    AR_TMA_ASM("cp.async.bulk.commit_group;" ::: "memory");
}

/* Wait until all groups of this thread, except the latest ${Pending}, have read shared memory. */
template <int Pending> __device__ __forceinline__ void bulk_wait_read()
{
    AR_TMA_ASM("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

/* Wait until all groups of this thread, except the latest ${Pending}, are complete. */
template <int Pending> __device__ __forceinline__ void bulk_wait()
{
    AR_TMA_ASM("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}
#endif /* ST_EMULATE */

__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    while (!barrier_ended(barrier, parity))
        ;
}

__device__ __forceinline__ uint4 load_shared(const char *p)
{
    return *reinterpret_cast<const uint4 *>(p);
}

__device__ __forceinline__ void store_shared(char *p, uint4 v)
{
    *reinterpret_cast<uint4 *>(p) = v;
}

/* Which stage of a ring a tile uses, and the parity of that stage's phase. next() goes on to the
 * next tile. The stage is not computed from the tile's number, because the threads that move data
 * have no time for a division. */
template <int Stages> struct tma_place {
    uint32_t stage = 0, parity = 0;

    __device__ __forceinline__ void next()
    {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ void skip(uint32_t tiles)
    {
        for (uint32_t i = 0; i < tiles; i++)
            next();
    }
};

/*
 * A ring of ${Stages} stages. Tile k uses stage k % Stages. Each stage has three barriers. A phase
 * of "full" ends when the bytes of a tile are in shared memory. A phase of "done" ends when the
 * warps that add have written the sum to the stage. A phase of "free" ends when the sum has been
 * read, so that the next tile may come.
 */
template <int Stages> struct tma_ring {
    using place = tma_place<Stages>;
    static constexpr uint32_t stages = Stages;
    char *memory;
    uint32_t bytes; /* bytes of a stage */
    uint64_t *full_, *done_, *free_;

    __device__ __forceinline__ char *stage(const place &p) const
    {
        return memory + p.stage * bytes;
    }
    __device__ __forceinline__ uint64_t *full(const place &p) const
    {
        return full_ + p.stage;
    }
    __device__ __forceinline__ uint64_t *done(const place &p) const
    {
        return done_ + p.stage;
    }
    __device__ __forceinline__ uint64_t *free(const place &p) const
    {
        return free_ + p.stage;
    }
};

} // namespace ar

#endif
