/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulate_tma.h - shared memory, barriers and bulk copies for the emulation (emulate.h). It stands
 * in for kernels/device/tma/tma_ptx.cuh. Copies happen as late, and in as odd an order, as the
 * kernel's waits allow. A missing proxy fence does not show here.
 */
#ifndef ST_TEST_EMULATE_TMA_H_
#define ST_TEST_EMULATE_TMA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The shared memory of one block, and the stores of each of its threads. The POSIX thread that runs
 * the block calls emulate_stores_use when it goes on with another CUDA thread. A CUDA thread calls
 * emulate_memory_leave when it ends. */
struct emulate_memory;
struct emulate_stores;
struct emulate_memory *emulate_memory_new(int threads);
void emulate_memory_free(struct emulate_memory *m);
struct emulate_stores *emulate_stores(struct emulate_memory *m, int thread);
void emulate_stores_use(struct emulate_stores *stores);
void emulate_memory_leave(void);

char *emulate_shared(void);
void emulate_barrier_init(void *barrier, int arrivals);
void emulate_barrier_arrive(void *barrier, uint32_t bytes);
int emulate_barrier_ended(void *barrier, unsigned parity);
void emulate_bulk_load(void *shared, const void *from, uint32_t bytes, void *barrier);
void emulate_bulk_store(void *to, const void *shared, uint32_t bytes);
void emulate_bulk_commit(void);
void emulate_bulk_wait(int pending, int only_read);

#ifdef __cplusplus
}

#define AR_SHARED(name) char *const name = emulate_shared()

namespace ar
{

static inline void barrier_init(uint64_t *barrier, int arrivals)
{
    emulate_barrier_init(barrier, arrivals);
}

static inline void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    emulate_barrier_arrive(barrier, bytes);
}

static inline void barrier_arrive(uint64_t *barrier)
{
    emulate_barrier_arrive(barrier, 0);
}

static inline bool barrier_ended(uint64_t *barrier, uint32_t parity)
{
    return emulate_barrier_ended(barrier, parity) != 0;
}

static inline bool barrier_has_ended(uint64_t *barrier, uint32_t parity)
{
    return emulate_barrier_ended(barrier, parity) != 0;
}

static inline void fence_async()
{
}

static inline void fence_async_shared()
{
}

static inline void bulk_load(void *shared, const void *from, uint32_t bytes, uint64_t *barrier)
{
    emulate_bulk_load(shared, from, bytes, barrier);
}

static inline void bulk_store(void *to, const void *shared, uint32_t bytes)
{
    emulate_bulk_store(to, shared, bytes);
}

static inline void bulk_commit()
{
    emulate_bulk_commit();
}

template <int Pending> static inline void bulk_wait_read()
{
    emulate_bulk_wait(Pending, 1);
}

template <int Pending> static inline void bulk_wait()
{
    emulate_bulk_wait(Pending, 0);
}

} // namespace ar
#endif

#endif
