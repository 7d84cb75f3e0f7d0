/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.h - find the allocation in a GPU's memory that holds a buffer. */
#ifndef AR_ALLOCATION_H_
#define AR_ALLOCATION_H_

#include <stdbool.h>
#include <stddef.h>

struct ar_allocation {
    bool vmm;              /* it comes from cuMemCreate; other processes map it by a file descriptor
                              (vmm.h) */
    unsigned long long id; /* if ${vmm}: the driver's handle, which a later allocation may get; else
                              CUDA's id, which no later allocation of this process gets */
    char *base;
    size_t bytes;
};

/* Find the allocation that holds ${bytes} at ${p}, in the memory of GPU ${device}. Returns false if
 * there is no such allocation, or if the driver cannot tell. */
bool ar_allocation_find(const void *p, size_t bytes, int device, struct ar_allocation *found);

/* Return whether another process can map the memory at ${p}, by CUDA IPC or by a file
 * descriptor. */
bool ar_allocation_can_map(const void *p);

#endif
