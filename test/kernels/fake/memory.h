/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - a fake of what the driver knows about allocations, of its stream memory operations,
 * and of CUDA IPC.
 *
 * Only memory that a test has named with fake_allocation is an allocation. A peer maps it at the
 * same address.
 */
#ifndef ST_TEST_FAKE_MEMORY_H_
#define ST_TEST_FAKE_MEMORY_H_

#include <stdbool.h>
#include <stddef.h>

struct fake_memory {
    bool no_handles; /* cudaIpcGetMemHandle fails, as it does for memory of a pool */
    bool no_open;    /* cudaIpcOpenMemHandle fails */
    int handles;     /* number of calls of cudaIpcGetMemHandle */
    int opened, closed;
    bool memops;       /* the driver has stream memory operations */
    bool no_memops;    /* the driver has these operations, but the GPU does not */
    const char *lacks; /* a function that the driver does not have; NULL: it has all */
    int waits, writes; /* numbers of stream memory operations so far */
};

extern struct fake_memory fake_memory;

/* Let ${bytes} at ${base} be an allocation of GPU ${device}, with a new id. */
void fake_allocation(void *base, size_t bytes, int device);

/* Forget the allocation at ${base}, if there is one. */
void fake_allocation_gone(void *base);

/* Forget all allocations, and set fake_memory to zeros. */
void fake_memory_clear(void);

/* Return the driver's function ${name}, or NULL. */
void (*fake_driver(const char *name))(void);

#endif
