/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - a fake of what the driver knows about allocations, of its stream memory operations, of
 * CUDA IPC, and of memory from cuMemCreate (vmm.c).
 *
 * Only memory that a test has named with fake_allocation or fake_created is an allocation. A peer
 * that maps an allocation by CUDA IPC gets the same address.
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
    const char *fails; /* a function for memory from cuMemCreate that fails; NULL: none */
    bool pool;         /* memory from cuMemCreate belongs to a pool of cudaMallocAsync */
    int exported;      /* calls of cuMemExportToShareableHandle */
    int kept;          /* handles that were retained or imported, and not released */
    int mapped;        /* mappings of imported memory that have not ended */
    int reserved;      /* address ranges that are reserved for mappings */
    /* This is called when a function of the driver is looked up; it may be NULL. */
    void (*look_up)(void);
};

extern struct fake_memory fake_memory;

/* Let ${bytes} at ${base} be an allocation of GPU ${device}, with a new id. */
void fake_allocation(void *base, size_t bytes, int device);

/* Let ${bytes} at ${base} be memory from cuMemCreate on GPU ${device}, with the first free handle.
 * ${types} says which shareable handles it can have; 1: a descriptor. Like the driver, the fake
 * reports the whole reserved range for each address. Here this range is all addresses of the
 * GPU. */
void fake_created(void *base, size_t bytes, int device, unsigned types);

/* Map the memory from cuMemCreate at ${also}, too. So far it is mapped at ${base}. */
void fake_created_also(void *also, void *base);

/* Forget the allocation at ${base}, if there is one. */
void fake_allocation_gone(void *base);

/* Return the owner's address of the memory that is mapped at ${at}, an address from
 * cuMemAddressReserve. NULL: nothing is mapped there. */
char *fake_mapped_at(const char *at);

/* fake_find sets ${*found} to the allocation that holds ${p}, or returns false if there is none. */
struct fake_found {
    char *base;
    size_t bytes;
    unsigned long long handle; /* 0: not from cuMemCreate */
};
bool fake_find(unsigned long long p, struct fake_found *found);

/* Handles of memory from cuMemCreate. The first function makes one, the second counts one more user
 * of it, and the third counts one less. */
unsigned long long fake_handle_new(char *base);
void fake_handle_keep(unsigned long long handle);
void fake_handle_free(unsigned long long handle);
void fake_handles_clear(void);

/* Return the driver's function ${name} for memory from cuMemCreate, or NULL. */
void (*fake_vmm_function(const char *name))(void);

/* Forget all allocations, and set fake_memory to zeros. */
void fake_memory_clear(void);

/* Return the driver's function ${name}, or NULL. */
void (*fake_driver(const char *name))(void);

#endif
